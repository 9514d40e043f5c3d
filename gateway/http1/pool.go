package http1

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxIdle bounds the idle connections kept to a destination; further ones
	// are closed when their response ends. It is above what a busy gateway has under
	// way to one destination: with less, connections are closed and made again all
	// the time, each at the cost of several requests. There are never more than were
	// needed at once, and idleFor ends them.
	maxIdle = 1024
	// idleFor is how long a connection waits for another request. It is below the
	// keep-alive timeouts of common servers (Node.js 5 s apart), so that we close
	// first and no request meets a connection that is just being closed.
	idleFor = 30 * time.Second
)

// linkPool holds the connections to one destination. It is safe for concurrent
// use. Its sweeper runs as long as there is a connection, idle or in use.
type linkPool struct {
	// tick counts sweeps: a clock that costs nothing to read.
	tick atomic.Int64
	// wake makes the sweeper look whether it is still needed. Its one place is
	// enough: a look serves everyone who asked before it.
	wake chan struct{}

	// mu guards what follows.
	mu       sync.Mutex
	idle     []*link // the one used last is at the end
	all      map[*link]struct{}
	closed   bool
	sweeping bool
}

func newLinkPool() *linkPool {
	return &linkPool{wake: make(chan struct{}, 1), all: map[*link]struct{}{}}
}

// add makes a link of a new connection, which is then in use.
func (p *linkPool) add(conn net.Conn) *link {
	l := newLink(p, conn)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[l] = struct{}{}
	if !p.sweeping {
		p.sweeping = true
		go p.sweep()
	}
	return l
}

// take gives the idle link that was used last, or nil. One on which something
// came while nothing was asked is dropped: it is the end of the connection, or
// would be taken for the next response.
func (p *linkPool) take() *link {
	for {
		l := p.pop()
		if l == nil || l.isQuiet() {
			return l
		}
		p.drop(l)
	}
}

func (p *linkPool) pop() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	l := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return l
}

// put gives back a link on which another request may be sent.
func (p *linkPool) put(l *link) {
	l.idleSince = p.tick.Load()
	if !p.push(l) {
		p.drop(l)
	}
}

func (p *linkPool) push(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || l.drained || len(p.idle) == maxIdle {
		return false
	}
	p.idle = append(p.idle, l)
	return true
}

// drop closes a link that is in use.
func (p *linkPool) drop(l *link) {
	_ = l.conn.Close() // whatever it says, the connection is gone
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, l)
	if len(p.all) == 0 {
		p.wakeSweeper()
	}
}

// close closes the idle links. Those in use are closed when they are given back.
func (p *linkPool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, l := range idle {
		p.drop(l)
	}
}

// drain closes the idle links whose other end keep refuses. Those in use are
// closed when they are given back.
func (p *linkPool) drain(keep func(end net.Addr) bool) (open int) {
	p.mu.Lock()
	for l := range p.all {
		l.drained = l.drained || !keep(l.conn.RemoteAddr())
	}
	var ended []*link
	p.idle = slices.DeleteFunc(p.idle, func(l *link) bool {
		if l.drained {
			ended = append(ended, l)
		}
		return l.drained
	})
	open = len(p.all) - len(ended)
	p.mu.Unlock()
	for _, l := range ended {
		p.drop(l)
	}
	return open
}

func (p *linkPool) wakeSweeper() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
