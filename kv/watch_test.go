package kv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Many watchers, of several prefixes, follow a store that writes as fast as it
// can and keeps only a few revisions. Each sees every revision of its prefix once,
// whole and in order, or is told that it can't; each begins anew from the cursor
// now and then, as a client does that lost its connection.
func TestWatchersMissNothing(t *testing.T) {
	const revisions = 3000
	s := openStore(t, Options{HistoryRevs: 10})
	var watchers sync.WaitGroup
	var tally watchTally
	for i, prefix := range []string{"", "a", "a/", "a/1", "b", "none"} {
		for _, reconnectEvery := range []int{1, 7, revisions} {
			watchers.Go(func() {
				if err := tally.watchAll(t.Context(), s, prefix, reconnectEvery, revisions); err != nil {
					t.Errorf("watcher %d of %q that reconnects every %d: %v", i, prefix, reconnectEvery, err)
				}
			})
		}
	}
	for rev := range uint64(revisions) {
		commit, _, err := s.View().Resolve(Txn{Then: opsOf(rev + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Merge(commit); err != nil {
			t.Fatal(err)
		}
		if rev%25 < 5 { // a few revisions that watchers can follow, then more than are kept
			runtime.Gosched()
		}
	}
	watchers.Wait()
	batches, resets := tally.batches.Load(), tally.resets.Load()
	t.Logf("%d batches, %d resets", batches, resets)
	if batches < 100 || resets == 0 {
		t.Errorf("%d batches, %d resets: so few show nothing", batches, resets)
	}
}

// watchTally counts what the watchers of a test went through.
type watchTally struct{ batches, resets atomic.Int64 }

// opsOf is what revision rev does: every one touches a/last, some more. None
// deletes what is not there.
func opsOf(rev uint64) []Op {
	ops := []Op{Put("a/last", fmt.Append(nil, rev))}
	if rev%3 == 0 {
		ops = append(ops, Put("b", nil), Put(Key(fmt.Sprintf("a/%d", rev%2)), nil))
	}
	return ops
}

// watchAll follows until the last revision and checks each batch.
func (c *watchTally) watchAll(ctx context.Context, s *Store, prefix string, reconnectEvery int, last uint64) error {
	w, err := s.Watch(prefix, Rev{})
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		since := w.Rev()
		next := nextOf(prefix, since.Rev, last)
		if next == 0 {
			return nil
		}
		batch, err := w.Next(ctx)
		if n%reconnectEvery == 0 && err == nil {
			w, err = s.Watch(prefix, w.Rev())
		}
		if errors.Is(err, ErrCompacted) {
			c.resets.Add(1)
			if w, err = s.Watch(prefix, Rev{}); err != nil || w.Rev().Compare(since) < 0 {
				return fmt.Errorf("anew after %s: %v", since, err)
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := checkBatch(batch, prefix, next); err != nil {
			return fmt.Errorf("after %s: %w", since, err)
		}
		c.batches.Add(1)
	}
}

// nextOf is the first revision after rev that touches prefix, 0 if none does.
func nextOf(prefix string, rev, last uint64) uint64 {
	for rev++; rev <= last; rev++ {
		if slices.ContainsFunc(opsOf(rev), func(op Op) bool { return covers(prefix, op.Key) }) {
			return rev
		}
	}
	return 0
}

func checkBatch(batch Batch, prefix string, rev uint64) error {
	var want, got []Key
	for _, op := range opsOf(rev) {
		if covers(prefix, op.Key) {
			want = append(want, op.Key)
		}
	}
	slices.Sort(want)
	for _, event := range batch.Events {
		if event.Entry.ModRev != batch.Rev || event.Type != EventPut {
			return fmt.Errorf("event %+v in the batch of %s", event, batch.Rev)
		}
		got = append(got, event.Entry.Key)
	}
	if batch.Rev.Rev != rev || !slices.Equal(got, want) {
		return fmt.Errorf("came %s with %q; want %d with %q", batch.Rev, got, rev, want)
	}
	return nil
}

// A watcher of a quiet prefix sleeps, and its cursor goes on all the same, so
// that it can resume when the rest of the store has moved far.
func TestWatchOfQuietPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, Options{HistoryRevs: 2})
		w, err := s.Watch("quiet", Rev{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := w.Next(ctx)
			done <- err
		}()
		for range 10 {
			put(t, s, "loud", nil)
			synctest.Wait()
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Next: %v; want the context's error", err)
		}
		if w.Rev() != s.View().Rev() {
			t.Errorf("the cursor is at %s; want %s", w.Rev(), s.View().Rev())
		}
		put(t, s, "quiet", nil)
		if batch, err := w.Next(t.Context()); err != nil || batch.Rev != s.View().Rev() {
			t.Errorf("%+v, %v; want the revision after the break", batch, err)
		}
	})
}

// A store that was put back to an older state does not leave its watchers
// waiting for the revision they knew (O18).
func TestWatchOverRestoredFile(t *testing.T) {
	path, backup := filepath.Join(t.TempDir(), "kv.db"), filepath.Join(t.TempDir(), "backup.db")
	s := openStore(t, Options{Path: path})
	put(t, s, "a", []byte("1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copyFile(t, path, backup)
	s = openStore(t, Options{Path: path})
	put(t, s, "a", []byte("2"))
	w, err := s.Watch("", Rev{})
	if err != nil {
		t.Fatal(err)
	}
	known := w.Rev()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Path: backup})
	if _, err := s.Watch("", known); !errors.Is(err, ErrCompacted) {
		t.Errorf("a watch from the future: %v; want ErrCompacted", err)
	}
	if w, err = s.Watch("", Rev{}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", []byte("3"))
	batch, err := w.Next(t.Context())
	if err != nil || string(batch.Events[0].Entry.Value) != "3" {
		t.Errorf("got %+v, %v; want the change", batch, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatchFromElsewhere(t *testing.T) {
	s, err := Open(Options{HistoryRevs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 5 {
		put(t, s, "a", nil)
	}
	for _, since := range []Rev{{1, 1}, {1, 2}, {1, 6}, {2, 4}, {0, 4}} {
		var compacted *CompactedError
		if _, err := s.Watch("", since); !errors.As(err, &compacted) || compacted.Oldest != (Rev{1, 3}) {
			t.Errorf("since %s: %v; want compacted, oldest 1.3", since, err)
		}
	}
	w, err := s.Watch("", Rev{1, 3})
	if err != nil {
		t.Fatal(err)
	}
	for want := uint64(4); want <= 5; want++ {
		if batch, err := w.Next(t.Context()); err != nil || batch.Rev.Rev != want {
			t.Errorf("got %+v, %v; want revision %d", batch, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
}

// The signal is level-triggered: whoever takes it before the view misses
// nothing, however many changes there were.
func TestChanged(t *testing.T) {
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const writes = 200
	done := make(chan error, 1)
	go func() {
		for range writes {
			if err := tryPut(s, "a", nil); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		changed := s.Changed()
		if s.View().Rev().Rev == writes {
			break
		}
		<-changed
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
