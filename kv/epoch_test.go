package kv

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A new epoch has the state of the one before, and a head that its leader signed.
func TestNewEpoch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path, HistoryRevs: 3})
	if err := s.Restore(grownStore(t, start, 5).Snapshot()); err != nil {
		t.Fatal(err)
	}
	next, _, err := s.View().Resolve(Txn{ID: "next", Then: []Op{Put("next", nil)}})
	if err != nil {
		t.Fatal(err)
	}
	next.Index = 77
	if err := s.Merge(next); err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch("", Rev{})
	if err != nil {
		t.Fatal(err)
	}
	before, old, changed := s.View(), everythingIn(t, s), s.Changed()
	var signed []byte
	sign := func(b []byte) [64]byte { signed = bytes.Clone(b); return [64]byte{9} }
	if err := s.NewEpoch([16]byte{8}, sign); err != nil {
		t.Fatal(err)
	}
	<-changed
	head := s.View().Head()
	if head.Rev != (Rev{2, 6}) || head.EpochID != ([16]byte{8}) || head.Index != 0 || head.Signature != ([64]byte{9}) || head.Hash == before.Head().Hash {
		t.Errorf("head %+v", head)
	}
	if !bytes.Equal(signed, head.SigningBytes()) {
		t.Errorf("signed was %x; the head has %x", signed, head.SigningBytes())
	}
	if keys, ok := s.View().ChangedSince(before); !ok || len(keys) != 0 {
		t.Errorf("changed are %q, %v", keys, ok)
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, ErrCompacted) {
		t.Errorf("Next: %v; want ErrCompacted", err)
	}
	late, err := before.Apply(next)
	if err == nil {
		t.Fatalf("%+v was applied twice", late.Head())
	}
	if err := s.Merge(next); !errors.Is(err, ErrOldEpoch) {
		t.Errorf("a commit of the old epoch: %v; want ErrOldEpoch", err)
	}
	for _, reopened := range []bool{false, true} {
		if reopened {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openStore(t, Options{Path: path, HistoryRevs: 3})
		}
		want := old
		want.Head, want.History = head, nil
		if got := everythingIn(t, s); !got.equal(want) {
			t.Errorf("reopened %v (-want +got):\n%s", reopened, cmp.Diff(want, got))
		}
	}
	put(t, s, "on", nil)
	if rev := s.View().Rev(); rev != (Rev{2, 7}) {
		t.Errorf("the next revision is %s", rev)
	}
}

// Two recoveries from one state differ, and the same one gives the same head.
func TestNewEpochsDiffer(t *testing.T) {
	beginOn := func(s *Store, id byte) Head {
		if err := s.NewEpoch([16]byte{id}, nil); err != nil {
			t.Fatal(err)
		}
		return s.View().Head()
	}
	begin := func(id byte) Head { return beginOn(grownStore(t, start, 2), id) }
	other := grownStore(t, start, 1)
	put(t, other, "other", nil)
	if beginOn(other, 1).Hash == begin(1).Hash {
		t.Error("the epochs on top of two histories have one hash")
	}
	if one, again, two := begin(1), begin(1), begin(2); one != again || one.Hash == two.Hash {
		t.Errorf("heads %+v, %+v, %+v", one, again, two)
	}
	for name, s := range map[string]*Store{
		"no id":       storeAt(genesis(1, [16]byte{1})),
		"the same id": storeAt(genesis(1, [16]byte{2})),
		"no number":   storeAt(genesis(math.MaxUint32, [16]byte{3})),
	} {
		id := map[string][16]byte{"the same id": {2}, "no number": {1}}[name]
		before := s.View().Head()
		if err := s.NewEpoch(id, nil); err == nil || s.View().Head() != before {
			t.Errorf("%s: %v, head %+v", name, err, s.View().Head())
		}
	}
}
