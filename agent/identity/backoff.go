package identity

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff gives the waits between attempts: each up to twice as long as the last
// one, with jitter, so that many nodes which lost the same peer don't come back
// at once. The zero Backoff is not usable.
type Backoff struct {
	// Least and Most bound the waits.
	Least, Most time.Duration
	next        time.Duration
}

// Wait waits, or returns the context's error if that ends first.
func (b *Backoff) Wait(ctx context.Context) error {
	b.next = min(max(2*b.next, b.Least), b.Most)
	return pause(ctx, b.next/2+rand.N(b.next/2+1))
}

// Reset has the next wait be a short one again.
func (b *Backoff) Reset() { b.next = 0 }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
