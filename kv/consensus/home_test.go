package consensus

import (
	"errors"
	"testing"

	"grapevine/kv"
)

// homeWith has entries from first to last of a term, and a snapshot if its index
// is not 0.
func homeWith(t *testing.T, first, last, term, snapshotIndex, snapshotTerm uint64) *home {
	t.Helper()
	h := &home{backend: newMemoryLog(), snapshots: &memorySnapshots{}}
	for index := first; index <= last && first > 0; index++ {
		if err := h.backend.StoreLog(entryAt(index, term)); err != nil {
			t.Fatal(err)
		}
	}
	if snapshotIndex > 0 {
		take(t, h.snapshots, snapshotIndex, snapshotTerm, "content")
	}
	return h
}

// What a crash leaves while a snapshot is being taken over is made whole.
func TestMend(t *testing.T) {
	for _, row := range []struct {
		name                              string
		first, last, term, index, snapped uint64 // entries and their term, the snapshot and its term
		rejoin                            bool
		wantFirst                         uint64
	}{
		{name: "nothing"},
		{name: "only a snapshot", index: 9, snapped: 2},
		{name: "own snapshot, older entries kept", first: 3, last: 20, term: 2, index: 9, snapped: 2, wantFirst: 3},
		{name: "own snapshot at the end", first: 3, last: 9, term: 2, index: 9, snapped: 2, wantFirst: 3},
		{name: "the log leads on", first: 10, last: 12, term: 2, index: 9, snapped: 2, wantFirst: 10},
		{name: "another's, over a log that parted", first: 3, last: 20, term: 2, index: 9, snapped: 4},
		{name: "another's, beyond the log", first: 3, last: 7, term: 2, index: 9, snapped: 4},
		{name: "a gap", first: 12, last: 20, term: 2, index: 9, snapped: 2, rejoin: true, wantFirst: 12},
		{name: "no snapshot", first: 12, last: 20, term: 2, rejoin: true, wantFirst: 12},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := homeWith(t, row.first, row.last, row.term, row.index, row.snapped)
			if err := h.mend(); errors.Is(err, ErrRejoin) != row.rejoin || err != nil && !row.rejoin {
				t.Errorf("got %v; want ErrRejoin %t", err, row.rejoin)
			}
			if first, _ := h.backend.FirstIndex(); first != row.wantFirst {
				t.Errorf("the log begins at %d; want %d", first, row.wantFirst)
			}
		})
	}
}

// storeAt is a store that stands at a raft index.
func storeAt(t *testing.T, index uint64) *kv.Store {
	t.Helper()
	store := memoryStore(t)
	t.Cleanup(func() { store.Close() })
	c, _, err := store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put("k", nil)}})
	c.Index = index
	if err == nil {
		err = store.Merge(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// A store that is ahead of log and snapshot was not written through them, unless it
// was so far when the node joined.
func TestAlign(t *testing.T) {
	for _, row := range []struct {
		name        string
		last, index uint64 // of the log and of the snapshot
		store       uint64
		joined      uint64
		rejoin      bool
	}{
		{name: "as far as the log", last: 20, index: 9, store: 20},
		{name: "ahead of the log", last: 20, index: 9, store: 21, rejoin: true},
		{name: "ahead of the snapshot", index: 9, store: 10, rejoin: true},
		{name: "it came with that", index: 9, store: 10, joined: 10},
		{name: "it came with less", index: 9, store: 12, joined: 10, rejoin: true},
		{name: "no state at all", store: 500},
	} {
		t.Run(row.name, func(t *testing.T) {
			first := uint64(0)
			if row.last > 0 {
				first = row.index + 1
			}
			h := homeWith(t, first, row.last, 2, row.index, 2)
			if err := h.align(storeAt(t, row.store), row.joined); errors.Is(err, ErrRejoin) != row.rejoin || err != nil && !row.rejoin {
				t.Errorf("got %v; want ErrRejoin %t", err, row.rejoin)
			}
		})
	}
}

// A server id is bound to its log: with another log, or another id, it is refused.
func TestIdentify(t *testing.T) {
	store := storeAt(t, 7)
	h := &home{backend: newMemoryLog(), snapshots: &memorySnapshots{}}
	if joined, err := h.identify(store, "n.1"); err != nil || joined != 7 {
		t.Fatalf("first: %d, %v", joined, err)
	}
	write(t, store, "later")
	if joined, err := h.identify(store, "n.1"); err != nil || joined != 7 {
		t.Errorf("again: %d, %v", joined, err)
	}
	if _, err := h.identify(store, "n.2"); err == nil || errors.Is(err, ErrRejoin) {
		t.Errorf("another id with the same log: %v", err)
	}
	empty := &home{backend: newMemoryLog(), snapshots: &memorySnapshots{}}
	if _, err := empty.identify(store, "n.1"); !errors.Is(err, ErrRejoin) {
		t.Errorf("the same id with an empty log: %v", err)
	}
	if _, err := empty.identify(store, "n.2"); err != nil {
		t.Errorf("another id with an empty log: %v", err)
	}
	if _, err := empty.identify(storeAt(t, 0), "n.2"); err != nil {
		t.Errorf("with an empty store: %v", err)
	}
	if err := store.SetLocal(markName, []byte("rubbish")); err != nil {
		t.Fatal(err)
	}
	if _, err := empty.identify(store, "n.2"); err == nil {
		t.Error("a mark that is none was taken")
	}
}

// Answers are remembered for one term, and not for ever.
func TestDecisions(t *testing.T) {
	d := newDecisions()
	d.begin(3)
	refusal := errors.New("no")
	d.add("a", kv.Result{}, refusal)
	d.add("a", kv.Result{Succeeded: true}, nil)
	if _, err, ok := d.find("a"); !ok || err != refusal {
		t.Errorf("a is %v, %t", err, ok)
	}
	d.begin(3)
	if _, _, ok := d.find("a"); !ok {
		t.Error("it was forgotten within the term")
	}
	for n := range maxDecisions {
		d.add(string(rune(n+1000)), kv.Result{}, nil)
	}
	if _, _, ok := d.find("a"); ok || len(d.byID) != maxDecisions {
		t.Errorf("a is remembered %t, of %d", ok, len(d.byID))
	}
	d.begin(4)
	if len(d.byID) != 0 {
		t.Error("the next term remembers")
	}
}
