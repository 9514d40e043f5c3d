package kv

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// grown is a view in a tree of histories.
type grown struct {
	view    View
	parent  *grown // nil at the start
	changed []Key
}

func applied(t rapid.TB, view View, txn Txn) (View, Commit) {
	t.Helper()
	commit, _, err := view.Resolve(txn)
	if err == nil && !commit.Rev.IsZero() {
		view, err = view.Apply(commit)
	}
	if err != nil {
		t.Fatal(err)
	}
	return view, commit
}

// grow adds the view that txn leads to, if it changes anything.
func (g *grown) grow(t rapid.TB, txn Txn) *grown {
	view, commit := applied(t, g.view, txn)
	if commit.Rev.IsZero() {
		return g
	}
	next := &grown{view: view, parent: g}
	for _, effect := range commit.Effects {
		next.changed = append(next.changed, effect.Entry.Key)
	}
	return next
}

// since is ChangedSince, and how many commits are between, found on foot. It
// gives -1 when g does not come from before.
func (g *grown) since(before *grown) (keys []Key, commits int) {
	all := map[Key]bool{}
	for ; g != nil; g = g.parent {
		if g.view.Head() == before.view.Head() {
			return slices.Sorted(maps.Keys(all)), commits
		}
		for _, key := range g.changed {
			all[key] = true
		}
		commits++
	}
	return nil, -1
}

func TestChangedSinceIsWhatTheCommitsTouched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		views := []*grown{{view: View{head: start}}}
		some := func() *grown { return rapid.SampledFrom(views).Draw(t, "view") }
		for range rapid.IntRange(1, 6).Draw(t, "branches") {
			g := some()
			for i := range rapid.SampledFrom([]int{0, 0, 300, 800}).Draw(t, "long") {
				g = g.grow(t, Txn{Then: []Op{Put(Key(fmt.Sprintf("k%d", i%400)), nil)}})
				if i%100 == 0 {
					views = append(views, g)
				}
			}
			for _, txn := range rapid.SliceOfN(someTxn, 1, 6).Draw(t, "log") {
				g = g.grow(t, txn)
				views = append(views, g)
			}
		}
		for range 30 {
			v, before := some(), some()
			got, ok := v.view.ChangedSince(before.view)
			want, commits := v.since(before)
			if ok && !slices.Equal(got, want) {
				t.Fatalf("%s since %s, %d commits: got %q, want %q", v.view.Rev(), before.view.Rev(), commits, got, want)
			}
			must, may := commits >= 0 && commits <= maxTrailCommits, commits >= 0 && commits <= 2*maxTrailCommits
			if must && !ok || ok && !may {
				t.Fatalf("%s since %s: got %v after %d commits (-1: no descendant)", v.view.Rev(), before.view.Rev(), ok, commits)
			}
		}
	})
}

// Two trials from one view: each knows what it changed, and neither is taken for
// what comes after the other.
func TestChangedSinceOfForks(t *testing.T) {
	base, _ := applied(t, View{head: start}, Txn{Then: []Op{Put("base", nil)}})
	one, _ := applied(t, base, Txn{Then: []Op{Put("one", nil)}})
	two, _ := applied(t, base, Txn{Then: []Op{Put("two", nil), Delete("base")}})
	late, _ := applied(t, two, Txn{Then: []Op{Delete("two")}})
	for _, tt := range []struct {
		v, before View
		want      []Key // nil: not known
	}{
		{one, base, []Key{"one"}},
		{two, base, []Key{"base", "two"}},
		{late, base, []Key{"base", "two"}},
		{late, two, []Key{"two"}},
		{one, two, nil},
		{two, one, nil},
		{late, one, nil},
		{base, one, nil},
		{one, View{}, nil},
		{View{}, one, nil},
	} {
		got, ok := tt.v.ChangedSince(tt.before)
		if !slices.Equal(got, tt.want) || ok != (tt.want != nil) {
			t.Errorf("%s since %s: got %q, %v, want %q", tt.v.Rev(), tt.before.Rev(), got, ok, tt.want)
		}
	}
	for _, v := range []View{{}, base, late} {
		if got, ok := v.ChangedSince(v); got != nil || !ok {
			t.Errorf("%s since itself: got %q, %v", v.Rev(), got, ok)
		}
	}
}

// A view read anew is the same point in history, and knows what came after it.
func TestChangedSinceOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	first := s.View()
	put(t, s, "a", nil)
	second := s.View()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, "b", nil)
	if got, ok := s.View().ChangedSince(second); !ok || !slices.Equal(got, []Key{"b"}) {
		t.Errorf("since the restart: got %q, %v", got, ok)
	}
	if got, ok := s.View().ChangedSince(first); ok {
		t.Errorf("since before the restart: got %q", got)
	}
	past, err := s.At(second.Rev())
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := past.ChangedSince(first); ok {
		t.Errorf("a past view: got %q", got)
	}
	if got, ok := s.View().ChangedSince(past); !ok || !slices.Equal(got, []Key{"b"}) {
		t.Errorf("since a past view: got %q, %v", got, ok)
	}
}

func TestTrailIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name                string
		keys, commits       int // keys in each commit
		remembered, written int // commits that must be remembered, and all that are made
	}{
		{"small commits", 1, 2 * maxTrailCommits, maxTrailCommits, 5*maxTrailCommits + 7},
		{"large commits", 6000, 6, 3, 20},
		{"largest commits", maxTrailKeys, 2, 1, 5},
		{"commits too large", maxTrailKeys + 1, 0, 0, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The trail alone: resolving so many keys would take seconds.
			commit := Commit{Effects: make([]Effect, tt.keys)}
			for i := range commit.Effects {
				commit.Effects[i].Entry.Key = Key(fmt.Sprintf("k%05d", i))
			}
			views := []View{{}}
			for i := range tt.written {
				v := views[i]
				commit.Prev = v.head.Hash
				next := View{trail: v.trail.extend(commit.Prev, commit.keys())}
				next.head.Hash = Hash{byte(i + 1), byte((i + 1) >> 8)}
				views = append(views, next)
				if n := next.trail.recent.count() + next.trail.older.count(); n > tt.commits {
					t.Fatalf("after %d commits the trail holds %d, want at most %d", i+1, n, tt.commits)
				}
			}
			last := views[tt.written]
			for ago := range tt.written {
				keys, ok := last.ChangedSince(views[tt.written-ago])
				if ago <= tt.remembered && !ok || ok && ago > tt.commits {
					t.Errorf("%d commits ago: got %v", ago, ok)
				}
				if ok && ago > 0 && len(keys) != tt.keys {
					t.Errorf("%d commits ago: got %d keys, want %d", ago, len(keys), tt.keys)
				}
			}
		})
	}
}

// What is not remembered must not be left out in silence.
func TestTrailOverACommitTooLarge(t *testing.T) {
	small, large := Commit{Effects: make([]Effect, 1)}, Commit{Effects: make([]Effect, maxTrailKeys+1)}
	views := []View{{}}
	for i, commit := range []Commit{small, large, small} {
		commit.Prev = views[i].head.Hash
		views = append(views, View{head: Head{Hash: Hash{byte(i + 1)}}, trail: views[i].trail.extend(commit.Prev, commit.keys())})
	}
	for i, want := range []bool{false, false, true, true} {
		if _, ok := views[3].ChangedSince(views[i]); ok != want {
			t.Errorf("since commit %d: got %v, want %v", i, ok, want)
		}
	}
}

// count walks what c keeps in memory.
func (c *change) count() int {
	n := 0
	for ; c != nil; c = c.previous {
		n++
	}
	return n
}

func BenchmarkChangedSince(b *testing.B) {
	for _, commits := range []int{1, maxTrailCommits} {
		b.Run(fmt.Sprint(commits), func(b *testing.B) {
			before, _ := applied(b, View{head: start}, Txn{Then: []Op{Put("before", nil)}})
			v := before
			for i := range commits {
				v, _ = applied(b, v, Txn{Then: []Op{Put(Key(fmt.Sprintf("gateway/routes/r%d", i)), nil)}})
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := v.ChangedSince(before); !ok {
					b.Fatal("not known")
				}
			}
		})
	}
}
