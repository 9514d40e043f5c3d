package http1

import (
	"bytes"
	"net"
	"net/http"
	"sync"
)

// tunnel is a connection that has switched to another protocol. What came behind
// the 101 is read first. Reading, writing and closing may each be done by another
// goroutine.
type tunnel struct {
	net.Conn
	early   bytes.Reader
	close   sync.Once
	pool    *linkPool
	link    *link
	unwatch func() bool
}

// acceptSwitch makes the connection the response's tunnel, if the protocol is the
// one that was asked for.
func (a *attempt) acceptSwitch() error {
	switch {
	case a.x.Request.Upgrade == "" || a.head.Upgrade != a.x.Request.Upgrade:
		return errSwitched
	case a.sender != nil:
		return errSwitchedEarly
	case !a.link.rest() || !a.link.reset():
		return errLinkEnded
	}
	t := &tunnel{Conn: a.link.conn, pool: a.u.pool, link: a.link, unwatch: a.unwatch}
	t.early.Reset(bytes.Clone(a.buf[a.from:a.to]))
	a.from = a.to
	a.link, a.unwatch = nil, nil
	a.body = NoBody
	a.fillResponse()
	a.x.Response.Status, a.x.Response.Tunnel = http.StatusSwitchingProtocols, t
	return nil
}

// Read reads the early bytes, then the connection.
func (t *tunnel) Read(p []byte) (int, error) {
	if t.early.Len() > 0 {
		return t.early.Read(p)
	}
	return t.Conn.Read(p)
}

// CloseWrite tells the destination that no more comes. A connection that can't
// be closed in halves is closed.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Close()
}

// Close closes the connection. It can be called again.
func (t *tunnel) Close() error {
	t.close.Do(func() {
		if t.unwatch != nil {
			t.unwatch()
		}
		t.pool.drop(t.link)
	})
	return nil
}
