package reach

import (
	"math/rand/v2"
	"time"
)

const (
	// FirstPause and LongestPause bound the time between two attempts. A
	// restarted agent holds what it had announced for 15 s.
	FirstPause   = 100 * time.Millisecond
	LongestPause = 3 * time.Second
	// settled is how long a connection lasts after which the next attempt is a first one.
	settled = 5 * time.Second
)

// Backoff says how long to wait before the next attempt. The zero Backoff is at the first one.
type Backoff struct{ next time.Duration }

// Pause is random, so that all who lost one agent don't come back at once, and grows twofold:
// from 50 to 100 ms at first, from 1.5 to 3 s in the end.
func (b *Backoff) Pause() time.Duration {
	b.next = min(max(FirstPause, b.next), LongestPause)
	pause := b.next/2 + rand.N(b.next/2)
	b.next *= 2
	return pause
}

// Held begins anew after a connection that lasted for d, if that was long.
func (b *Backoff) Held(d time.Duration) {
	if d >= settled {
		b.next = 0
	}
}
