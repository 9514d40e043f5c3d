package http1

import (
	"net/netip"
	"sync"

	"grapevine/gateway/exchange"
)

var _ exchange.Leash = (*life)(nil)

// Recall ends the exchanges under way that match says are to end, and returns how
// many it told. One that has no answer so far may still be given one; a response
// that has begun breaks off; a WebSocket is told that the server goes away, and
// has a second to say goodbye. by and client are what Exchange.Hold was given;
// exchanges that nobody holds go on. match must be quick, and must not call the
// server.
func (s *Server) Recall(match func(by any, client netip.Addr) bool) (recalled int) {
	var told sync.WaitGroup
	for _, c := range s.all() {
		if c.recall(match, &told) {
			recalled++
		}
	}
	told.Wait()
	return recalled
}

func (c *conn) recall(match func(by any, client netip.Addr) bool, told *sync.WaitGroup) bool {
	life, r := c.life.Load(), c.relay.Load()
	if !life.recall(match, r == nil) {
		return false
	}
	if r != nil { // a connection that has become a tunnel never has another exchange
		told.Go(r.goAway)
	}
	return true
}

// Hold: see exchange.Leash.
func (l *life) Hold(by any, client netip.Addr) {
	l.mu.Lock()
	l.by, l.client = by, client
	l.mu.Unlock()
}

// Recalled: see exchange.Leash.
func (l *life) Recalled() bool { return l.recalled.Load() }

// recall marks the exchange if it matches, and ends it if it is to be cut. It is
// under the lock with renew, so that it never ends the one that follows.
func (l *life) recall(match func(by any, client netip.Addr) bool, cut bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil || l.recalled.Load() || l.err != nil || !match(l.by, l.client) {
		return false
	}
	l.recalled.Store(true)
	if cut {
		l.endLocked()
	}
	return true
}
