package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"grapevine/kv"
	"grapevine/kv/consensus"
)

// gate is a check that holds the first write until it is opened, so that others
// come to wait behind it. It notes where the store stood at each check.
type gate struct {
	store  *kv.Store
	open   chan struct{}
	checks atomic.Int64
	stood  []kv.Rev // checks come one at a time
}

func (g *gate) check(_, _ kv.View) error {
	if g.checks.Add(1) == 1 {
		<-g.open
	}
	g.stood = append(g.stood, g.store.View().Rev())
	return nil
}

// outcome is what one Propose gave.
type outcome struct {
	result kv.Result
	err    error
}

// propose runs Propose in a goroutine and returns when it waits.
func propose(ctx context.Context, log *consensus.Single, t kv.Txn) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		result, err := log.Propose(ctx, t)
		done <- outcome{result, err}
	}()
	synctest.Wait()
	return done
}

func put(key kv.Key) kv.Txn { return kv.Txn{Then: []kv.Op{kv.Put(key, nil)}} }

// Writes that wait together are merged together: each is checked on top of the
// one before, while the store still stands where it was, and one bad write takes
// no other with it.
func TestWaitingWritesShareOneMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		g := &gate{store: store, open: make(chan struct{})}
		log := consensus.NewSingle(store, g.check)

		first := propose(t.Context(), log, put("first"))
		var waiting []<-chan outcome
		for i := range 10 {
			waiting = append(waiting, propose(t.Context(), log, put(kv.Key(fmt.Sprint("k", i)))))
		}
		bad := propose(t.Context(), log, put("no//key"))
		taken := propose(t.Context(), log, kv.Txn{Compare: []kv.Compare{{Key: "k3", Target: kv.TargetAbsent}}, Then: []kv.Op{kv.Put("k3", nil)}})
		close(g.open)

		if got := <-first; got.err != nil || got.result.Rev.Rev != 1 {
			t.Errorf("first: %+v", got)
		}
		for i, done := range waiting {
			if got := <-done; got.err != nil || !got.result.Succeeded || got.result.Rev.Rev != uint64(i+2) {
				t.Errorf("write %d: %+v; want revision %d", i, got, i+2)
			}
		}
		var refusal *kv.KeyError
		if got := <-bad; !errors.As(got.err, &refusal) {
			t.Errorf("the bad write: %+v; want its own refusal", got)
		}
		if got := <-taken; got.err != nil || got.result.Succeeded || got.result.Rev.Rev != 11 {
			t.Errorf("the write that came second to k3: %+v; want not succeeded at 1.11", got)
		}
		for i, stood := range g.stood[1:] {
			if stood.Rev != 1 {
				t.Errorf("the store was at %s when waiting write %d was checked: not one merge", stood, i)
			}
		}
	})
}

// A caller that leaves while its write waits takes it along. One that leaves
// while its write is being made gets the outcome all the same.
func TestCallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		g := &gate{store: store, open: make(chan struct{})}
		log := consensus.NewSingle(store, g.check)

		ctx, cancel := context.WithCancel(t.Context())
		writing := propose(ctx, log, put("writing"))
		waiting := propose(ctx, log, put("waiting"))
		cancel()
		if got := <-waiting; !errors.Is(got.err, context.Canceled) {
			t.Errorf("waiting: %+v; want the context's error", got)
		}
		close(g.open)
		if got := <-writing; got.err != nil || got.result.Rev.Rev != 1 {
			t.Errorf("writing: %+v; want revision 1", got)
		}
		for _, attempt := range []func(context.Context, kv.Txn) (kv.Result, error){log.Propose, log.Trial} {
			if _, err := attempt(ctx, put("late")); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller that had left before: %v", err)
			}
		}
		if store.View().Len() != 1 {
			t.Errorf("%d keys; want the one that was being written", store.View().Len())
		}
	})
}

// More writes than fit into one batch are all answered, in order.
func TestManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		g := &gate{store: store, open: make(chan struct{})}
		log := consensus.NewSingle(store, g.check)
		var all []<-chan outcome
		for i := range 200 {
			all = append(all, propose(t.Context(), log, put(kv.Key(fmt.Sprint("k", i)))))
		}
		close(g.open)
		for i, done := range all {
			if got := <-done; got.err != nil || got.result.Rev.Rev != uint64(i+1) {
				t.Fatalf("write %d: %+v", i, got)
			}
		}
	})
}

// A check that panics refuses its write, and the next one is served.
func TestCheckThatPanics(t *testing.T) {
	store, log := single(t, func(_, candidate kv.View) error {
		if _, bad := candidate.Get("bad"); bad {
			panic("index out of range")
		}
		return nil
	})
	if _, err := log.Propose(t.Context(), put("bad")); err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("got %v; want a refusal that says why", err)
	}
	if _, err := log.Propose(t.Context(), put("good")); err != nil || store.View().Len() != 1 {
		t.Errorf("after it: %v, %d keys", err, store.View().Len())
	}
}

// When a batch does not fit on the disk, its small writes still do.
func TestFullDiskRefusesOnlyTheLarge(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small tmpfs can't be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		store, err := kv.Open(kv.Options{Path: filepath.Join(dir, "kv.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		g := &gate{store: store, open: make(chan struct{})}
		log := consensus.NewSingle(store, g.check)
		large := kv.Txn{}
		for i := range 4 {
			large.Then = append(large.Then, kv.Put(kv.Key(fmt.Sprint("large/", i)), make([]byte, kv.MaxValueBytes)))
		}
		first := propose(t.Context(), log, put("first"))
		before := propose(t.Context(), log, put("before"))
		full := propose(t.Context(), log, large)
		after := propose(t.Context(), log, put("after"))
		close(g.open)
		for name, done := range map[string]<-chan outcome{"first": first, "before": before, "after": after} {
			if got := <-done; got.err != nil {
				t.Errorf("%s: %v", name, got.err)
			}
		}
		if got := <-full; !errors.Is(got.err, kv.ErrDiskFull) {
			t.Errorf("large: %+v; want ErrDiskFull", got)
		}
		if store.View().Len() != 3 || store.View().Rev().Rev != 3 {
			t.Errorf("%d keys at %s; want the three small ones", store.View().Len(), store.View().Rev())
		}
	})
}

// When nothing can be written any more, nobody in the batch is told otherwise.
func TestClosedStoreRefusesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g := &gate{store: store, open: make(chan struct{})}
		log := consensus.NewSingle(store, g.check)
		absent := put("k")
		absent.Compare = []kv.Compare{{Key: "k", Target: kv.TargetAbsent}}
		all := []<-chan outcome{
			propose(t.Context(), log, put("first")),
			propose(t.Context(), log, put("k")),
			propose(t.Context(), log, absent), // fails for the one before, which will never be
		}
		store.Close()
		close(g.open)
		for i, done := range all {
			if got := <-done; !errors.Is(got.err, kv.ErrClosed) || got.result.Succeeded {
				t.Errorf("write %d: %+v; want ErrClosed", i, got)
			}
		}
	})
}
