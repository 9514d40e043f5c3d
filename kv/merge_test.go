package kv

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// storeAt makes a store in memory that begins where another one began.
func storeAt(start Head) *Store {
	s := &Store{revs: 100, bytes: 1 << 30, closed: make(chan struct{})}
	s.now.Store(&state{view: View{head: start}, history: history{base: start}, changed: make(chan struct{})})
	s.local.Store(newContents().local)
	return s
}

var start = genesis(1, [16]byte{7})

// drawCommits resolves transactions, one after the other, from the start.
func drawCommits(t *rapid.T) (View, []Commit) {
	view, commits := View{head: start}, []Commit(nil)
	for _, txn := range rapid.SliceOfN(someTxn, 1, 12).Draw(t, "log") {
		commit, _, err := view.Resolve(txn)
		if err != nil {
			t.Fatal(err)
		}
		if commit.Rev.IsZero() {
			continue
		}
		if view, err = view.Apply(commit); err != nil {
			t.Fatal(err)
		}
		commits = append(commits, commit)
	}
	return view, commits
}

// Two nodes that resolve one log come to the same commits, hash for hash.
func TestResolveIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.SliceOfN(someTxn, 1, 12).Draw(t, "log")
		one, two := View{head: start}, View{head: start}
		for _, txn := range log {
			commit, result, err := one.Resolve(txn)
			again, resultAgain, errAgain := two.Resolve(txn)
			if err != nil || errAgain != nil {
				t.Fatal(err, errAgain)
			}
			if diff := cmp.Diff(commit, again) + cmp.Diff(result, resultAgain); diff != "" {
				t.Fatal(diff)
			}
			if commit.Rev.IsZero() {
				continue
			}
			if one, err = one.Apply(commit); err != nil {
				t.Fatal(err)
			}
			if two, err = two.Apply(again); err != nil {
				t.Fatal(err)
			}
		}
		if one.Head() != two.Head() {
			t.Fatalf("heads %+v and %+v", one.Head(), two.Head())
		}
	})
}

// Commits may come in any order, in batches and again: what is next is taken,
// what is there is skipped, what has a gap before it is refused as a whole.
func TestMergeIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, commits := drawCommits(t)
		s := storeAt(start)
		for have := 0; have < len(commits); {
			from := rapid.IntRange(0, len(commits)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(commits)).Draw(t, "to")
			err := s.Merge(commits[from:to]...)
			if gap := from > have; gap != errors.Is(err, ErrGap) || !gap && err != nil {
				t.Fatalf("commits %d to %d on %d: %v", from, to, have, err)
			}
			if err == nil {
				have = max(have, to)
			}
			if got := s.View().Rev().Rev; got != uint64(have) {
				t.Fatalf("revision %d after commits %d to %d; want %d", got, from, to, have)
			}
		}
		if s.View().Head() != want.Head() {
			t.Fatalf("head %+v; want %+v", s.View().Head(), want.Head())
		}
		if diff := cmp.Diff(entries(want, ""), entries(s.View(), "")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A commit that differs in anything its hash covers is refused, be its revision
// the next one or long merged, and takes the rest of its batch with it. What its
// own hash does not fit is damaged; only a commit that is whole shows that histories
// have diverged.
func TestMergeRefusesForgeries(t *testing.T) {
	forgeries := map[string]struct {
		forge func(*Commit)
		want  error
	}{
		"hash":      {func(c *Commit) { c.Hash[0]++ }, ErrDamaged},
		"before":    {func(c *Commit) { c.Prev[0]++ }, ErrDamaged},
		"author":    {func(c *Commit) { c.By += "x" }, ErrDamaged},
		"reason":    {func(c *Commit) { c.Message += "x" }, ErrDamaged},
		"request":   {func(c *Commit) { c.ID += "x" }, ErrDamaged},
		"time":      {func(c *Commit) { c.At = c.At.Add(1) }, ErrDamaged},
		"else":      {func(c *Commit) { c.Else = !c.Else }, ErrDamaged},
		"epoch":     {func(c *Commit) { c.Rev.Epoch++ }, ErrNewEpoch},
		"old epoch": {func(c *Commit) { c.Rev.Epoch-- }, ErrOldEpoch},
		"effects": {func(c *Commit) {
			c.Effects = append(slices.Clip(c.Effects), Effect{Entry: Entry{Key: "forged"}})
		}, ErrDamaged},
		"value": {func(c *Commit) {
			c.Effects = slices.Clone(c.Effects)
			c.Effects[0].Entry.Version++
			c.Effects[0].Deleted = false
		}, ErrDamaged},
		"history": {func(c *Commit) { c.Prev[0]++; c.Hash = c.hash() }, ErrDiverged},
	}
	names := slices.Sorted(maps.Keys(forgeries))
	rapid.Check(t, func(t *rapid.T) {
		_, commits := drawCommits(t)
		if len(commits) == 0 {
			return
		}
		s := storeAt(start)
		at := rapid.IntRange(0, len(commits)-1).Draw(t, "at")
		if err := s.Merge(commits[:at]...); err != nil {
			t.Fatal(err)
		}
		name := rapid.SampledFrom(names).Draw(t, "forgery")
		forged := commits[at]
		forgeries[name].forge(&forged)
		before := s.View().Head()
		if err := s.Merge(append(commits[:at:at], forged)...); !errors.Is(err, forgeries[name].want) {
			t.Fatalf("another %s in the next revision: %v; want %v", name, err, forgeries[name].want)
		}
		if s.View().Head() != before {
			t.Fatalf("a refused merge moved the head to %+v", s.View().Head())
		}
	})
}

// The rows of the table in docs/design/store.md, one by one: each has an answer
// of its own, and none but "next" moves the head.
func TestMergeTable(t *testing.T) {
	s := storeAt(genesis(3, [16]byte{7}))
	s.revs = 3
	var commits []Commit
	view := s.View()
	for i := range 9 {
		var commit Commit
		view, commit = applied(t, view, Txn{Then: []Op{Put("a", []byte{byte(i)})}})
		commits = append(commits, commit)
	}
	const have = 6
	if err := s.Merge(commits[:have]...); err != nil {
		t.Fatal(err)
	}
	changed := func(c Commit, change func(*Commit)) Commit {
		change(&c)
		c.Hash = c.hash()
		return c
	}
	all := []error{ErrOldEpoch, ErrNewEpoch, ErrDiverged, ErrCompacted, ErrGap, ErrDamaged}
	for _, tt := range []struct {
		row    string
		commit Commit
		want   error // nil: taken or skipped
		moves  bool
	}{
		{"lower epoch", changed(commits[have], func(c *Commit) { c.Rev.Epoch = 2 }), ErrOldEpoch, false},
		{"lower epoch, higher revision", changed(commits[8], func(c *Commit) { c.Rev.Epoch = 1 }), ErrOldEpoch, false},
		{"higher epoch", changed(commits[have], func(c *Commit) { c.Rev.Epoch = 4 }), ErrNewEpoch, false},
		{"higher epoch, lower revision", changed(commits[0], func(c *Commit) { c.Rev.Epoch = 4 }), ErrNewEpoch, false},
		{"the head again", commits[have-1], nil, false},
		{"an older one again", commits[have-3], nil, false},
		{"the head's revision, other hash", changed(commits[have-1], func(c *Commit) { c.By = "x" }), ErrDiverged, false},
		{"an older revision, other hash", changed(commits[have-3], func(c *Commit) { c.By = "x" }), ErrDiverged, false},
		{"a revision that is no longer kept", commits[0], ErrCompacted, false},
		{"gap", commits[have+1], ErrGap, false},
		{"gap, other history", changed(commits[have+1], func(c *Commit) { c.Prev[0]++ }), ErrGap, false},
		{"next, made for another head", changed(commits[have], func(c *Commit) { c.Prev[0]++ }), ErrDiverged, false},
		{"next, garbled", func() Commit { c := commits[have]; c.By = "x"; return c }(), ErrDamaged, false},
		{"next", commits[have], nil, true},
	} {
		before := s.View().Head()
		err := s.Merge(tt.commit)
		for _, kind := range all {
			if errors.Is(err, kind) != (kind == tt.want) {
				t.Errorf("%s: got %v; want %v", tt.row, err, tt.want)
			}
		}
		if (err == nil) != (tt.want == nil) || (s.View().Head() != before) != tt.moves {
			t.Errorf("%s: got %v, head %s after %s", tt.row, err, s.View().Rev(), before.Rev)
		}
	}
}

// A signature goes with the commit: into the head, into the history, and onto
// the disk. It is not looked at.
func TestMergeKeepsSignatures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path})
	commit, _, err := s.View().Resolve(Txn{Then: []Op{Put("a", nil)}})
	if err != nil {
		t.Fatal(err)
	}
	commit.Signature, commit.Index = [64]byte{1, 63: 2}, 7
	if err := s.Merge(commit); err != nil {
		t.Fatal(err)
	}
	for _, reopened := range []bool{false, true} {
		if reopened {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, Options{Path: path})
		}
		head, history := s.View().Head(), everythingIn(t, s).History
		if head != commit.Head(head.EpochID) || head.Signature != commit.Signature || head.Index != 7 {
			t.Errorf("reopened %v: head %+v", reopened, head)
		}
		if len(history) != 1 || history[0].Signature != commit.Signature {
			t.Errorf("reopened %v: history %+v", reopened, history)
		}
	}
	commit.Signature[0]++
	if err := s.Merge(commit); err != nil {
		t.Errorf("the same commit with another signature is a duplicate: %v", err)
	}
}

// A revision that is merged already is no duplicate if its hash is another.
func TestMergeRefusesAnotherPast(t *testing.T) {
	s := storeAt(start)
	s.revs = 2
	var commits []Commit
	for range 4 {
		commit, _, err := s.View().Resolve(Txn{Then: []Op{Put("a", nil)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Merge(commit); err != nil {
			t.Fatal(err)
		}
		commits = append(commits, commit)
	}
	for i, commit := range commits[1:] {
		commit.Hash[0]++
		if err := s.Merge(commit); !errors.Is(err, ErrDiverged) {
			t.Errorf("another revision %d: %v; want ErrDiverged", i+2, err)
		}
	}
	if err := s.Merge(commits[0]); !errors.Is(err, ErrCompacted) {
		t.Errorf("a revision that can't be told apart any more: %v; want ErrCompacted", err)
	}
	if err := s.Merge(commits[1:]...); err != nil {
		t.Errorf("true duplicates: %v", err)
	}
}

// Two clusters that begin alone differ from their first revision on.
func TestStoresOfTwoClusters(t *testing.T) {
	one, two := storeAt(genesis(1, [16]byte{1})), storeAt(genesis(1, [16]byte{2}))
	commit, _, err := one.View().Resolve(Txn{Then: []Op{Put("a", nil)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Merge(commit); !errors.Is(err, ErrDiverged) {
		t.Errorf("got %v; want ErrDiverged", err)
	}
}

// A commit with the right hash and effects that no transaction resolves to is
// refused before it is written: the ledger could not vouch for it, and the file
// would not open again.
func TestMergeRefusesStrangeEffects(t *testing.T) {
	of := func(key Key) Effect { return Effect{Entry: Entry{Key: key, Version: 1}} }
	late := func(key Key) Effect { return Effect{Entry: Entry{Key: key, Version: 1, CreateRev: Rev{9, 9}}} }
	gone := func(key Key) Effect { return Effect{Entry: Entry{Key: key}, Deleted: true} }
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path})
	put(t, s, "a", nil)
	before := everythingIn(t, s)
	for name, effects := range map[string][]Effect{
		"a key written twice":       {of("a"), of("a")},
		"a new key written twice":   {of("b"), of("b")},
		"a key written and deleted": {of("a"), gone("a")},
		"a key deleted twice":       {gone("a"), gone("a")},
		"keys out of order":         {of("b"), of("a")},
		"what is no key":            {of("a//b")},
		"no key":                    {gone("")},
		"the version 0":             {Effect{Entry: Entry{Key: "a"}}},
		"a key of the future":       {late("a")},
	} {
		commit := Commit{Rev: before.Head.Rev.Next(), Prev: before.Head.Hash, Effects: effects}
		commit.Hash = commit.hash()
		var refusal *KeyError
		if err := s.Merge(commit); !errors.As(err, &refusal) {
			t.Errorf("%s: %v; want a *KeyError", name, err)
		}
	}
	if !everythingIn(t, s).equal(before) {
		t.Error("a refused commit changed something")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !everythingIn(t, openStore(t, Options{Path: path})).equal(before) {
		t.Error("the file has another state")
	}
}

// A merge keeps nothing of the caller's: not the slice of effects, and what an
// effect says of its commit is taken from the commit.
func TestMergeCopies(t *testing.T) {
	s := storeAt(start)
	value := []byte("value")
	commit, _, err := s.View().Resolve(Txn{Then: []Op{Put("a", value)}, By: "author"})
	if err != nil {
		t.Fatal(err)
	}
	commit.Effects[0].Entry.By = "someone else"
	if err := s.Merge(commit); err != nil {
		t.Fatal(err)
	}
	value[0], commit.Effects[0] = 'X', Effect{}
	w, err := s.Watch("", start.Rev)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := w.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := s.View().Get("a")
	if string(entry.Value) != "value" || entry.By != "author" {
		t.Errorf("view has %q by %q", entry.Value, entry.By)
	}
	if diff := cmp.Diff(entry, batch.Events[0].Entry); diff != "" {
		t.Errorf("the watcher has (-view +event):\n%s", diff)
	}
}
