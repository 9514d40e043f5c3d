package kv

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
)

// After a power cycle a node shows what it had of others, orphaned, and of itself,
// pending, before it hears of anybody.
func TestOwnedOutlivesAPowerCycle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	other, of := ownerStore(t, "b")
	announce(t, of, instance+"b1", "1")
	announce(t, of, instance+"b2", "1")
	if err := of.Drain(instance + "b2"); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Path: path})
	own, err := s.Own("a")
	if err != nil {
		t.Fatal(err)
	}
	first, err := own.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	s.SetOwner("b", OwnerActive)
	pull(t, s, other)
	announce(t, own, instance+"a1", "1")
	announce(t, own, instance+"a2", "1")
	announce(t, own, instance+"gone", "1")
	if err := errors.Join(s.KeepOwned(), own.Withdraw(instance+"gone"), s.KeepOwned()); err != nil {
		t.Fatal(err)
	}
	before := shown(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, Options{Path: path})
	if got := shown(s); !maps.Equal(got, before) || len(got) != 4 {
		t.Errorf("shows %v; had %v", got, before)
	}
	entry, _ := s.View().Get(instance + "b2")
	if !entry.Own.Orphaned || !entry.Own.Draining || entry.Own.Owner != "b" {
		t.Errorf("b2 is %+v", entry.Own)
	}
	if s.OwnerDigest() == 0 {
		t.Error("what was kept is not in the digest")
	}
	if own, err = s.Own("a"); err != nil {
		t.Fatal(err)
	}
	if len(own.Pending()) != 2 || own.Mark().Incarnation != 0 || len(shown(s)) != 4 {
		t.Errorf("pending are %q at %v", own.Pending(), own.Mark())
	}
	second, err := own.Begin(0)
	if err != nil || second <= first {
		t.Errorf("incarnation %d after %d: %v", second, first, err)
	}
	announce(t, own, instance+"a1", "1") // reclaimed as it was
	if err := own.DropPending(); err != nil {
		t.Fatal(err)
	}
	if _, there := s.View().Get(instance + "a2"); there || len(shown(s)) != 3 {
		t.Errorf("after the time to reclaim: %v", shown(s))
	}
	// The others see one swap and no gap.
	pull(t, other, s)
	if got, _ := markOf(other, "a"); got.Mark.Incarnation != second || got.Keys != 1 {
		t.Errorf("the other has %+v", got)
	}
}

// An incarnation is on disk before anybody may hear of it, and never given twice.
func TestIncarnationIsSyncedBeforeUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path})
	own, err := s.Own("a")
	if err != nil {
		t.Fatal(err)
	}
	s.disk.commit = func(tx *bolt.Tx) error { return errors.Join(errors.New("no disk"), tx.Rollback()) }
	if _, err := own.Begin(7); err == nil || own.Mark().Incarnation != 0 || s.MadeOwned() != nil || s.OwnerDigest() != 0 {
		t.Fatalf("without a disk: %v, at %v", err, own.Mark())
	}
	s.Close()
	s = openStore(t, Options{Path: path})
	if own, err = s.Own("a"); err != nil {
		t.Fatal(err)
	}
	eighth, err := own.Begin(7)
	if err != nil || eighth <= 7 {
		t.Fatalf("above 7: %d: %v", eighth, err)
	}
	s.Close() // without KeepOwned, as a crash
	s = openStore(t, Options{Path: path})
	if own, err = s.Own("a"); err != nil {
		t.Fatal(err)
	}
	if got, err := own.Begin(0); err != nil || got <= eighth {
		t.Fatalf("after %d: %d: %v", eighth, got, err)
	}
	if _, err := s.Own("b"); !errors.Is(err, ErrOtherOwner) {
		t.Errorf("a second owner: %v", err)
	}
}

// A floor is kept, so that a purged owner's keys stay gone after a restart too.
func TestFloorOutlivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	other, of := ownerStore(t, "b")
	announce(t, of, instance+"b", "1")
	s := openStore(t, Options{Path: path})
	pull(t, s, other)
	if err := s.KeepOwned(); err != nil {
		t.Fatal(err)
	}
	s.PurgeOwner("b")
	if err := errors.Join(s.KeepOwned(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Path: path})
	if got := shown(s); len(got) > 0 || s.OwnerDigest() != 0 {
		t.Errorf("shows %v", got)
	}
	if _, behind, err := s.OwnerDelta(other.OwnerVector()); behind || err != nil {
		t.Errorf("it wants what it has purged: %v", err)
	}
	pull(t, s, other)
	if got := shown(s); len(got) > 0 {
		t.Errorf("after a replay it shows %v", got)
	}
}

// A watcher hears of both planes, also of what changes only in what is believed.
func TestWatchOfOwned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, own := ownerStore(t, "a")
		announce(t, own, instance+"old", "0")
		w, err := s.Watch("gateway", Rev{})
		if err != nil {
			t.Fatal(err)
		}
		next := func() Batch {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			batch, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return batch
		}
		go func() {
			announce(t, own, instance+"one", "1")
		}()
		if b := next(); len(b.Events) != 1 || b.Events[0].Entry.Key != instance+"one" || b.Rev != s.View().Rev() {
			t.Errorf("got %+v", b)
		}
		put(t, s, "gateway/routes/r", nil)
		if err := own.Withdraw(instance+"one", instance+"old"); err != nil {
			t.Fatal(err)
		}
		if b := next(); b.Rev.Rev != 1 || b.Events[0].Entry.Key != "gateway/routes/r" {
			t.Errorf("got %+v", b)
		}
		if b := next(); len(b.Events) != 2 || b.Events[0].Type != EventDelete || b.Events[0].Entry.By != "a" {
			t.Errorf("got %+v", b)
		}
		// One that resumes gets what is there, and what has gone.
		announce(t, own, instance+"two", "2")
		if w, err = s.Watch(string(instance), Rev{Epoch: 1, Rev: 1}); err != nil {
			t.Fatal(err)
		}
		if b := next(); len(b.Events) != 3 || b.Events[2].Entry.Key != instance+"two" || b.Events[0].Type != EventDelete {
			t.Errorf("got %+v", b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if b, err := w.Next(ctx); err == nil {
			t.Errorf("nothing happened, and it got %+v", b)
		}
	})
}
