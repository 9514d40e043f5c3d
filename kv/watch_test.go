package kv

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// A watcher waits for the next revision that concerns it, resumes from any that
// is kept, and is told when one is not (O18).
func TestWatch(t *testing.T) {
	s, err := Open(Options{HistoryRevs: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Watch("app", Rev{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for i := range 100 {
			if err := tryPut(s, "other", nil); err != nil {
				done <- err
				return
			}
			if err := tryPut(s, Key(fmt.Sprintf("app/%d", i)), nil); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	last, resets := Rev{}, 0
	for last.Rev < 200 {
		batch, err := w.Next(t.Context())
		if errors.Is(err, ErrCompacted) {
			resets++
			if w, err = s.Watch("app", Rev{}); err != nil {
				t.Fatal(err)
			}
			if last = w.Rev(); last.Rev == 200 {
				break
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if batch.Rev.Compare(last) <= 0 || batch.Rev != w.Rev() || len(batch.Events) != 1 || batch.Events[0].Entry.Key != Key(fmt.Sprintf("app/%d", batch.Rev.Rev/2-1)) {
			t.Fatalf("after %s came %+v", last, batch)
		}
		last = batch.Rev
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d resets", resets)
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
