package http1

import "time"

const (
	// tickLength is how late a coarse deadline may be, twice.
	tickLength = 250 * time.Millisecond
	// coarseFrom is from where on a deadline is coarse: kept by the sweeper, at
	// the cost of an atomic store. A shorter one is the connection's own.
	coarseFrom = 5 * time.Second
)

// ticks is d in sweeps, rounded up, plus the one that is under way: a coarse
// deadline is never early.
func ticks(d time.Duration) int64 { return int64((d+tickLength-1)/tickLength) + 1 }

// sweep closes links that are idle for too long or wait for too long, until
// there are none.
func (p *linkPool) sweep() {
	ticker := time.NewTicker(tickLength)
	defer ticker.Stop()
	var ended []*link
	for {
		select {
		case <-ticker.C:
			p.tick.Add(1)
		case <-p.wake:
		}
		var done bool
		if ended, done = p.expired(ended[:0]); done {
			return
		}
		for _, l := range ended {
			p.drop(l)
		}
		clear(ended)
	}
}

// expired takes out the idle links whose time is over, and ends the waits that
// are late. done is true when there is no link to watch.
func (p *linkPool) expired(ended []*link) (_ []*link, done bool) {
	now := p.tick.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		p.sweeping = false
		return nil, true
	}
	for l := range p.all {
		l.expire(now)
	}
	n := 0 // links lie in the order in which they became idle
	for n < len(p.idle) && now-p.idle[n].idleSince >= ticks(idleFor) {
		n++
	}
	ended = append(ended, p.idle[:n]...)
	kept := copy(p.idle, p.idle[n:])
	clear(p.idle[kept:])
	p.idle = p.idle[:kept]
	return ended, false
}
