package kv

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// shared is what stores share, as maps.
type shared struct {
	head Head
	keys map[Key]Entry
	done map[string]Result
}

func (s shared) clone() shared {
	s.keys, s.done = maps.Clone(s.keys), maps.Clone(s.done)
	return s
}

// replacing runs merges, restores and new epochs on a store and on maps.
type replacing struct {
	store   *Store
	options Options
	want    shared
	local   map[string][]byte
	kept    []saved
	views   []View // some that the store had

	watcher *Watcher
	watched map[Key]Entry
}

// saved is a snapshot and what it must bring back.
type saved struct {
	stream []byte
	want   shared
}

func newReplacing(t *rapid.T, path string) *replacing {
	m := &replacing{options: Options{Path: path}, local: map[string][]byte{}}
	m.open(t)
	m.want = shared{head: m.store.View().Head(), keys: map[Key]Entry{}, done: map[string]Result{}}
	m.watch(t)
	m.save(t)
	return m
}

func (m *replacing) open(t *rapid.T) {
	m.options.HistoryRevs = rapid.IntRange(1, 6).Draw(t, "history")
	store, err := Open(m.options)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.store = store
	m.store.disk.db.NoSync = true
}

func (m *replacing) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	m.open(t)
	m.watch(t)
}

// resolve makes a commit that can be merged, if the transaction changes anything.
func (m *replacing) resolve(t *rapid.T) (Commit, Result, bool) {
	txn := someTxn.Draw(t, "txn")
	txn.ID = rapid.SampledFrom([]string{"", "one", "two", "three"}).Draw(t, "id")
	commit, result, err := m.store.View().Resolve(txn)
	if err != nil {
		t.Fatal(err)
	}
	commit.Signature[0] = rapid.Byte().Draw(t, "signature")
	return commit, result, !commit.Rev.IsZero()
}

func (m *replacing) write(t *rapid.T) {
	commit, result, changes := m.resolve(t)
	if !changes {
		return
	}
	if err := m.store.Merge(commit); err != nil {
		t.Fatalf("merge: %v", err)
	}
	for _, effect := range commit.Effects {
		if delete(m.want.keys, effect.Entry.Key); !effect.Deleted {
			m.want.keys[effect.Entry.Key] = effect.Entry
		}
	}
	if commit.ID != "" {
		m.want.done[commit.ID] = result
	}
	m.want.head = Head{Rev: commit.Rev, EpochID: m.want.head.EpochID, Hash: commit.Hash, Signature: commit.Signature}
}

func (m *replacing) setLocal(t *rapid.T) {
	name, value := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"), rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "value")
	if err := m.store.SetLocal(name, value); err != nil {
		t.Fatal(err)
	}
	m.local[name] = append([]byte{}, value...)
}

func (m *replacing) save(t *rapid.T) {
	m.kept = append(m.kept, saved{stream: written(t, m.store.Snapshot()), want: m.want.clone()})
	m.views = append(m.views, m.store.View())
}

func (m *replacing) restore(t *rapid.T) {
	from := rapid.SampledFrom(m.kept).Draw(t, "snapshot")
	changed := m.store.Changed()
	if err := m.store.Restore(read(t, from.stream)); err != nil {
		t.Fatalf("restore: %v", err)
	}
	select {
	case <-changed:
	default:
		t.Fatal("a restore was not signalled")
	}
	m.want = from.want.clone()
}

func (m *replacing) newEpoch(t *rapid.T) {
	id := [16]byte{rapid.ByteRange(1, 255).Draw(t, "epoch id"), 1}
	if id == m.want.head.EpochID {
		return
	}
	if err := m.store.NewEpoch(id, nil); err != nil {
		t.Fatalf("new epoch: %v", err)
	}
	m.want.head = m.want.head.successor(id)
}

// fail lets a write fail on the disk, before it is written or after. Then the store
// is opened again, and has all of it or nothing.
func (m *replacing) fail(t *rapid.T) {
	late := rapid.Bool().Draw(t, "written")
	m.store.disk.commit = func(tx *bolt.Tx) error {
		if late {
			return errors.Join(tx.Commit(), syscall.EIO)
		}
		return errors.Join(tx.Rollback(), syscall.EIO)
	}
	before, next := m.store.View(), saved{}
	var err error
	switch rapid.SampledFrom([]string{"merge", "restore", "epoch"}).Draw(t, "failing") {
	case "merge":
		commit, _, changes := m.resolve(t)
		if !changes {
			m.store.disk.commit = (*bolt.Tx).Commit
			return
		}
		next.want.head = commit.Head(before.Head().EpochID)
		err = m.store.Merge(commit)
	case "restore":
		next = rapid.SampledFrom(m.kept).Draw(t, "snapshot")
		err = m.store.Restore(read(t, next.stream))
	case "epoch":
		next.want.head = before.Head().successor([16]byte{9, 9})
		err = m.store.NewEpoch([16]byte{9, 9}, nil)
	}
	if !errors.Is(err, ErrReadOnly) {
		t.Fatalf("got %v; want ErrReadOnly", err)
	}
	m.Check(t)
	m.reopen(t)
	if !late {
		return
	}
	if got := m.store.View().Head(); got != next.want.head {
		t.Fatalf("what was written has head %+v; want %+v", got, next.want.head)
	}
	if next.stream == nil { // the model goes back, and the store with it
		next = m.kept[0]
		if err := m.store.Restore(read(t, next.stream)); err != nil {
			t.Fatal(err)
		}
	}
	m.want = next.want.clone()
}

func (m *replacing) watch(t *rapid.T) {
	var err error
	if m.watcher, err = m.store.Watch("", Rev{}); err != nil {
		t.Fatal(err)
	}
	m.watched = entries(m.store.View(), "")
}

// follow replays what the watcher has. It is told that it missed something, or it
// missed nothing.
func (m *replacing) follow(t *rapid.T) {
	for {
		batch, err := m.watcher.advance(m.store.now.Load().history)
		if errors.Is(err, ErrCompacted) {
			m.watch(t)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Events) == 0 {
			break
		}
		for _, event := range batch.Events {
			if delete(m.watched, event.Entry.Key); event.Type == EventPut {
				m.watched[event.Entry.Key] = event.Entry
			}
		}
	}
	if diff := cmp.Diff(m.want.keys, m.watched); diff != "" {
		t.Fatalf("what the watcher saw is not the state (-state +watched):\n%s", diff)
	}
}

// differ asks what changed since some view: if it is known, all else is the same.
func (m *replacing) differ(t *rapid.T) {
	now, before := m.store.View(), rapid.SampledFrom(m.views).Draw(t, "view")
	changed, ok := now.ChangedSince(before)
	if !ok {
		return
	}
	old := entries(before, "")
	for key, entry := range entries(now, "") {
		if !slices.Contains(changed, key) && !cmp.Equal(old[key], entry) {
			t.Fatalf("%q is not among what changed from %s to %s, %q", key, before.Rev(), now.Rev(), changed)
		}
		delete(old, key)
	}
	for key := range old {
		if !slices.Contains(changed, key) {
			t.Fatalf("%q is gone and not among what changed, %q", key, changed)
		}
	}
}

func (m *replacing) Check(t *rapid.T) {
	if got := m.store.View().Head(); got != m.want.head {
		t.Fatalf("head %+v; want %+v", got, m.want.head)
	}
	if diff := cmp.Diff(m.want.keys, entries(m.store.View(), "")); diff != "" {
		t.Fatalf("(-model +store):\n%s", diff)
	}
	for _, id := range []string{"one", "two", "three"} {
		want, known := m.want.done[id]
		if got, ok := m.store.Committed(id); ok != known || !cmp.Equal(got, want) {
			t.Fatalf("id %q is %+v, %v; want %+v, %v", id, got, ok, want, known)
		}
	}
	if diff := cmp.Diff(m.local, maps.Collect(m.store.LocalUnder(""))); diff != "" {
		t.Fatalf("local values (-model +store):\n%s", diff)
	}
}

// Whatever is merged, restored, begun anew, failed or opened again, in whatever
// order, the store is what a few maps are.
func TestReplacedStoreIsTheModel(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := newReplacing(t, filepath.Join(dir, strconv.Itoa(n)))
		defer func() { m.store.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write, "write again": m.write, "write more": m.write, "local": m.setLocal, "save": m.save,
			"restore": m.restore, "epoch": m.newEpoch, "fail": m.fail, "reopen": m.reopen,
			"follow": m.follow, "follow again": m.follow, "differ": m.differ, "": m.Check,
		})
	})
}
