package http1

import "time"

// sweepEvery is the length of the sweeper's round. A client's leaving is noticed
// in the second round after it at the latest.
const sweepEvery = 100 * time.Millisecond

// startSweeper lets the sweeper run while there are connections. s.mu is held.
func (s *Server) startSweeper() {
	if s.stopSweeper != nil {
		return
	}
	if s.epoch.IsZero() {
		s.epoch = time.Now()
	}
	s.clock.Store(int64(time.Since(s.epoch)))
	s.tellDate(time.Now())
	before := s.swept
	s.stopSweeper, s.swept = make(chan struct{}), make(chan struct{})
	go s.sweepAll(s.stopSweeper, before, s.swept)
}

// sweepAll keeps the coarse clock, and looks after every connection, until stop is
// closed. It begins when the sweeper before it has ended: what a connection keeps
// for its sweeper is only one's.
func (s *Server) sweepAll(stop, before <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	if before != nil {
		<-before
	}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var all []*conn
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		now := int64(time.Since(s.epoch))
		s.clock.Store(now)
		clear(all)
		all = s.sweepable(all[:0])
		draining := s.draining.Load()
		for _, c := range all {
			c.sweep(now)
			c.watch()
			if draining && now-c.born > int64(freshFor) {
				c.closeIfFresh()
			}
		}
	}
}

// sweepable appends the connections.
func (s *Server) sweepable(all []*conn) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellDate(time.Now())
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// watch ends the exchange of a client that has left, once it has waited for a
// round: short waits cost no system call. Of a client that is idle for a round it
// asks once whether it had left already when it became so.
func (c *conn) watch() {
	wait := c.waits.Load()
	switch {
	case wait != c.seen:
	case wait&1 == 1:
		if c.hungUp() {
			c.life.Load().end()
		}
	case wait != c.asked && c.state.Load() == idle:
		if c.asked = wait; c.ended() {
			c.closeIfIdle()
		}
	}
	c.seen = wait
}
