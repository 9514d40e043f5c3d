package limit

import (
	"sync/atomic"

	"grapevine/gateway/exchange"
)

// Gate counts what is inside. The zero Gate is empty and ready. It may be used by
// any number of goroutines, and must not be copied.
type Gate struct{ n atomic.Int64 }

// Enter lets one in, unless there are most of them already. Each that is let in
// is followed by one Leave.
func (g *Gate) Enter(most int64) bool {
	for {
		n := g.n.Load()
		if n >= most {
			return false
		}
		if g.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Leave lets one out.
func (g *Gate) Leave() { g.n.Add(-1) }

// Now is how many are inside.
func (g *Gate) Now() int64 { return g.n.Load() }

// Finished lets an exchange out that has ended.
func (g *Gate) Finished(*exchange.Exchange, error) { g.Leave() }
