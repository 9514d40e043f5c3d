package mux

import (
	"context"
	"net"
	"sync"
)

// listener gives the connections of one protocol. It has no queue: each
// handshake waits itself until its connection is taken.
type listener struct {
	mux      *Mux
	protocol string
	arrivals chan *conn
	done     chan struct{}
	once     sync.Once
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done: // first, so that a closed one accepts nothing
		return nil, l.closedError()
	default:
	}
	select {
	case c := <-l.arrivals:
		return c, nil
	case <-l.done:
		return nil, l.closedError()
	}
}

func (l *listener) closedError() error {
	return &net.OpError{Op: "accept", Net: l.protocol, Addr: l.Addr(), Err: net.ErrClosed}
}

// hand gives a connection to whoever accepts, and reports whether somebody did.
func (l *listener) hand(ctx context.Context, c *conn) bool {
	select {
	case l.arrivals <- c:
		return true
	case <-l.done:
	case <-ctx.Done():
	}
	return false
}

// Addr is the address of the port.
func (l *listener) Addr() net.Addr { return l.mux.Addr() }

// Close has the protocol refused from now on. Connections that were accepted live on.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.mux.mu.Lock()
		defer l.mux.mu.Unlock()
		if l.mux.listeners[l.protocol] == l {
			delete(l.mux.listeners, l.protocol)
			close(l.done)
		}
	})
	return nil
}
