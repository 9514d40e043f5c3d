package identity

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff gives the waits between attempts: each up to twice as long as the last
// one, with jitter, so that many nodes which lost the same peer don't come back
// at once.
type backoff struct {
	least, most time.Duration // bound the waits
	next        time.Duration
}

// wait waits, or returns the context's error if that ends first.
func (b *backoff) wait(ctx context.Context) error {
	b.next = min(max(2*b.next, b.least), b.most)
	return pause(ctx, b.next/2+rand.N(b.next/2+1))
}

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
