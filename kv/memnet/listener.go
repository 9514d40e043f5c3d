package memnet

import (
	"net"
	"os"
	"time"
)

// backlog is how many connections may wait to be accepted; more are refused.
const backlog = 256

type listener struct {
	host    *Host
	addr    *net.TCPAddr
	queue   []*conn
	by      time.Time
	closed  bool
	changed event
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Accept() (net.Conn, error) {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	for {
		switch {
		case l.closed:
			return nil, l.opError("accept", net.ErrClosed)
		case passed(l.by):
			return nil, l.opError("accept", os.ErrDeadlineExceeded)
		case len(l.queue) > 0:
			c := l.queue[0]
			l.queue = l.queue[1:]
			return c, nil
		}
		l.host.net.wait(&l.changed, nil, l.by)
	}
}

// SetDeadline bounds how long Accept waits, now and later.
func (l *listener) SetDeadline(t time.Time) error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	l.by = t
	l.changed.fire()
	return nil
}

// Close resets the connections that nobody accepted.
func (l *listener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	if l.closed {
		return l.opError("close", net.ErrClosed)
	}
	l.close()
	return nil
}

func (l *listener) close() {
	l.closed = true
	delete(l.host.listeners, l.addr.Port)
	for _, c := range l.queue {
		if !c.gone {
			c.abort()
		}
	}
	l.queue = nil
	l.changed.fire()
}

func (l *listener) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Addr: l.addr, Err: err}
}
