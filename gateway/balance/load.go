package balance

import "sync/atomic"

// Load counts the requests that a destination has now, and, if it is told, how long
// they take there. It belongs to the destination, not to a Balancer, and must not
// be copied. The zero Load is ready.
type Load struct {
	n    atomic.Int64
	pace pace
}

// Begin counts a request. Each is followed by one End.
func (l *Load) Begin() { l.n.Add(1) }

// BeginWithin counts a request unless there are most already.
func (l *Load) BeginWithin(most int64) bool {
	for {
		n := l.n.Load()
		if n >= most {
			return false
		}
		if l.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// End counts it no longer.
func (l *Load) End() { l.n.Add(-1) }

// Now is the number of requests under way.
func (l *Load) Now() int64 { return l.n.Load() }
