package gossip

import (
	"math/rand/v2"
	"sync"
	"time"
)

// signal tells any number of waiters that something changed. The zero value is
// ready. To miss nothing, take the channel first and then look.
type signal struct {
	mu    sync.Mutex // guards fired
	fired chan struct{}
}

// wait returns a channel that is closed by the next fire.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fired == nil {
		s.fired = make(chan struct{})
	}
	return s.fired
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fired != nil {
		close(s.fired)
		s.fired = nil
	}
}

// jitter spreads d by 20 % to both sides, so that nodes that began together do
// not stay together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// backoff gives growing pauses between attempts. The zero value is not usable.
type backoff struct {
	least, most time.Duration
	last        time.Duration
}

// next doubles the pause, up to the most; jittered.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.least), b.most)
	return jitter(b.last)
}

func (b *backoff) reset() { b.last = 0 }

// pause waits, and reports false if done was closed before it was over.
func pause(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
