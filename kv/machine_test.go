package kv

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// machine runs the same transactions on a store and on the model.
type machine struct {
	store   *Store
	options Options
	model   model
	heads   []Head // of the store, by revision
	commits []Commit
	watcher *Watcher
	// watched is what the watcher's events make of the state it began with.
	watched map[Key]Entry
}

func newMachine(t *rapid.T, path string) *machine {
	m := &machine{
		options: Options{Path: path, HistoryRevs: rapid.IntRange(1, 12).Draw(t, "history")},
		model:   model{states: []map[Key]Entry{{}}},
	}
	m.open(t)
	m.heads = []Head{m.store.View().Head()}
	m.watch(t)
	return m
}

func (m *machine) open(t *rapid.T) {
	var err error
	if m.store, err = Open(m.options); err != nil {
		t.Fatalf("open: %v", err)
	}
	// Nobody cuts the power here, and the test runs hundreds of stores.
	m.store.disk.db.NoSync = true
}

func (m *machine) write(t *rapid.T) {
	txn := someTxn.Draw(t, "txn")
	commit, result, err := m.store.View().Resolve(txn)
	if err != nil {
		t.Fatalf("%+v: %v", txn, err)
	}
	if !commit.Rev.IsZero() {
		if err := m.store.Merge(commit); err != nil {
			t.Fatalf("merge: %v", err)
		}
		m.heads = append(m.heads, m.store.View().Head())
		m.commits = append(m.commits, commit)
	}
	succeeded, changed := m.model.do(txn)
	if result.Succeeded != succeeded || result.Rev != m.model.rev() || commit.Rev.IsZero() == changed {
		t.Fatalf("%+v gave %+v; want succeeded %v, changed %v, revision %s", txn, result, succeeded, changed, m.model.rev())
	}
	m.model.oldest = max(m.model.oldest, len(m.model.states)-1-m.options.HistoryRevs)
}

// reopen starts again from the file. The watcher goes on from where it was.
func (m *machine) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	m.open(t)
	if m.store.View().Head() != m.heads[len(m.heads)-1] {
		t.Fatalf("head %+v after a restart; was %+v", m.store.View().Head(), m.heads[len(m.heads)-1])
	}
	watcher, err := m.store.Watch("a", m.watcher.Rev())
	if errors.Is(err, ErrCompacted) {
		m.watch(t)
		return
	}
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	m.watcher = watcher
}

// watch begins anew from the present view.
func (m *machine) watch(t *rapid.T) {
	var err error
	if m.watcher, err = m.store.Watch("a", Rev{}); err != nil {
		t.Fatalf("watch: %v", err)
	}
	m.watched = entries(m.store.View(), "a")
}

// follow replays what the watcher has, and compares the result with the view.
func (m *machine) follow(t *rapid.T) {
	for m.watcher.Rev() != m.store.View().Rev() {
		batch, err := m.watcher.advance(m.store.now.Load().history)
		if errors.Is(err, ErrCompacted) {
			if oldest := uint64(m.model.oldest); m.watcher.Rev().Rev >= oldest {
				t.Fatalf("the watcher at %s was told that the oldest is %d", m.watcher.Rev(), oldest)
			}
			m.watch(t) // told, and never silently behind
			return
		}
		if err != nil {
			t.Fatalf("advance: %v", err)
		}
		m.replay(t, batch)
	}
	if diff := cmp.Diff(entries(m.store.View(), "a"), m.watched); diff != "" {
		t.Fatalf("what the watcher saw is not the state (-state +watched):\n%s", diff)
	}
}

func (m *machine) replay(t *rapid.T, batch Batch) {
	for i, event := range batch.Events {
		if event.Entry.ModRev != batch.Rev {
			t.Fatalf("event of %s in the batch of %s", event.Entry.ModRev, batch.Rev)
		}
		if i > 0 && batch.Events[i-1].Entry.Key >= event.Entry.Key {
			t.Fatalf("events out of order: %v", batch.Events)
		}
		if event.Type == EventDelete {
			delete(m.watched, event.Entry.Key)
		} else {
			m.watched[event.Entry.Key] = event.Entry
		}
	}
}

// past reads a revision that is kept, or one that is not.
func (m *machine) past(t *rapid.T) {
	rev := rapid.IntRange(0, len(m.model.states)).Draw(t, "past")
	view, err := m.store.At(Rev{Epoch: 1, Rev: uint64(rev)})
	switch {
	case rev < m.model.oldest && !errors.Is(err, ErrCompacted):
		t.Fatalf("revision %d of %d: %v; want ErrCompacted", rev, m.model.oldest, err)
	case rev == len(m.model.states) && !errors.Is(err, ErrFuture):
		t.Fatalf("revision %d: %v; want ErrFuture", rev, err)
	case rev >= m.model.oldest && rev < len(m.model.states):
		if err != nil {
			t.Fatalf("revision %d: %v", rev, err)
		}
		if view.Head() != m.heads[rev] {
			t.Fatalf("revision %d has head %+v; had %+v", rev, view.Head(), m.heads[rev])
		}
		if diff := cmp.Diff(m.model.states[rev], entries(view, "")); diff != "" {
			t.Fatalf("revision %d (-model +store):\n%s", rev, diff)
		}
	}
}

// history lists the commits since a revision that is kept.
func (m *machine) history(t *rapid.T) {
	since := rapid.IntRange(m.model.oldest, len(m.commits)).Draw(t, "since")
	prefix, limit := somePrefix.Draw(t, "prefix"), rapid.IntRange(0, 3).Draw(t, "limit")
	got, err := m.store.History(prefix, Rev{Epoch: 1, Rev: uint64(since)}, limit)
	if err != nil {
		t.Fatalf("history since %d: %v", since, err)
	}
	var want []Commit
	for _, commit := range m.commits[since:] {
		if touched := slices.ContainsFunc(commit.Effects, func(e Effect) bool { return covers(prefix, e.Entry.Key) }); touched {
			want = append(want, commit)
		}
	}
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("history of %q since %d, at most %d (-want +got):\n%s", prefix, since, limit, diff)
	}
}

func (m *machine) Check(t *rapid.T) {
	if diff := cmp.Diff(m.model.now(), entries(m.store.View(), "")); diff != "" {
		t.Fatalf("(-model +store):\n%s", diff)
	}
}

func entries(v View, prefix string) map[Key]Entry {
	all := map[Key]Entry{}
	for entry := range v.Under(prefix) {
		all[entry.Key] = entry
	}
	return all
}

// The store does what a few maps do, whatever is asked of it in whatever order,
// also over restarts, and with a history that is short.
func TestStoreIsTheModel(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := newMachine(t, filepath.Join(dir, strconv.Itoa(n)))
		defer func() { m.store.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write, "write again": m.write, "write more": m.write,
			"reopen": m.reopen, "follow": m.follow, "past": m.past, "history": m.history, "": m.Check,
		})
	})
}
