package kv

import (
	"errors"
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
// the next one or long merged, and takes the rest of its batch with it.
func TestMergeRefusesDivergence(t *testing.T) {
	forgeries := map[string]func(*Commit){
		"hash":    func(c *Commit) { c.Hash[0]++ },
		"before":  func(c *Commit) { c.Prev[0]++; c.Hash = c.hash() },
		"author":  func(c *Commit) { c.By += "x" },
		"reason":  func(c *Commit) { c.Message += "x" },
		"request": func(c *Commit) { c.ID += "x" },
		"time":    func(c *Commit) { c.At = c.At.Add(1) },
		"epoch":   func(c *Commit) { c.Rev.Epoch++ },
		"effects": func(c *Commit) { c.Effects = append(slices.Clip(c.Effects), Effect{Entry: Entry{Key: "forged"}}) },
		"value": func(c *Commit) {
			c.Effects = slices.Clone(c.Effects)
			c.Effects[0].Entry.Version++
			c.Effects[0].Deleted = false
		},
	}
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
		name := rapid.SampledFrom([]string{"hash", "before", "author", "reason", "request", "time", "epoch", "effects", "value"}).Draw(t, "forgery")
		forged := commits[at]
		forgeries[name](&forged)
		before := s.View().Head()
		if err := s.Merge(append(commits[:at:at], forged)...); !errors.Is(err, ErrDiverged) {
			t.Fatalf("another %s in the next revision: %v; want ErrDiverged", name, err)
		}
		if s.View().Head() != before {
			t.Fatalf("a refused merge moved the head to %+v", s.View().Head())
		}
	})
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
