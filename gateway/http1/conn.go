package http1

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
)

// The states of a connection.
const (
	fresh   int32 = iota // no request came so far
	idle                 // between requests
	busy                 // a request is there
	leaving              // closed by the server while it was fresh or idle
)

// conn is one client's connection. Its goroutine serves request after request;
// while it waits for one, it holds no buffer.
type conn struct {
	wire
	s      *Server
	peer   netip.AddrPort
	scheme string

	state atomic.Int32
	// waits is odd while a handler or a response's body is waited for.
	waits atomic.Uint32
	seen  uint32 // waits in the sweeper's last round
	born  int64  // by the coarse clock
	life  atomic.Pointer[life]
	relay atomic.Pointer[relay] // while a tunnel is open

	t *turn // nil while it waits for a request
	// takeTurn and dropTurn are bound once.
	takeTurn func() []byte
	dropTurn func()
}

func newConn(s *Server, netConn net.Conn) *conn {
	c := &conn{s: s, scheme: "http"}
	c.init(netConn, &s.clock)
	c.life.Store(newLife())
	c.takeTurn, c.dropTurn = c.take, c.drop
	if _, secure := netConn.(interface{ ConnectionState() tls.ConnectionState }); secure {
		c.scheme = "https"
	}
	// A peer that is no IP address (a unix socket) stays the zero AddrPort.
	if tcp, ok := netConn.RemoteAddr().(*net.TCPAddr); ok {
		peer := tcp.AddrPort()
		c.peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	}
	return c
}

// serve serves until the connection ends.
func (c *conn) serve() {
	defer c.conn.Close()
	defer c.drop()
	for c.awaitRequest() && c.serveRequest() {
	}
}

func (c *conn) take() []byte {
	if c.t == nil {
		c.t = takeTurn(c)
	}
	return c.t.page[:]
}

func (c *conn) drop() {
	if c.t != nil {
		c.t.release()
		c.t = nil
	}
}

// awaitRequest waits for a request's first byte.
func (c *conn) awaitRequest() bool {
	if c.t != nil && c.t.ahead() > 0 {
		return true // also in a Shutdown: nobody has told the client that no more is answered
	}
	resting, bound := fresh, c.s.headTimeout()
	if c.t != nil {
		resting, bound = idle, c.s.idleTimeout()
		c.drop()
		c.state.Store(idle)
		if c.s.draining.Load() { // who set that may have looked at us before
			return false
		}
	}
	c.armRead(bound)
	n, err := c.readInto(c.takeTurn, c.dropTurn)
	if !c.restRead() || err != nil || !c.state.CompareAndSwap(resting, busy) {
		return false
	}
	c.t.to = n
	return true
}

// serveRequest serves the request that has begun to come. again tells whether
// another one may follow.
func (c *conn) serveRequest() (again bool) {
	err := c.t.readHead()
	if err == nil {
		return c.t.exchange()
	}
	if refusal, is := err.(*Refusal); is { // never wrapped
		c.t.refuse(refusal)
	}
	return false
}

// beginWait and endWait stand around what may last until the upstream has
// something: only there somebody has to look whether the client is still there.
func (c *conn) beginWait() { c.waits.Add(1) }
func (c *conn) endWait()   { c.waits.Add(1) }

// renewLife gives the next exchange a context.
func (c *conn) renewLife() {
	if !c.life.Load().renew() {
		c.life.Store(newLife())
	}
}

// closeIfIdle closes the connection when it waits for another request.
func (c *conn) closeIfIdle() {
	if c.state.CompareAndSwap(idle, leaving) {
		c.conn.Close()
	}
}

// closeIfFresh closes the connection when it never had a request.
func (c *conn) closeIfFresh() {
	if c.state.CompareAndSwap(fresh, leaving) {
		c.conn.Close()
	}
}

// cut ends the connection and what is done for it.
func (c *conn) cut() {
	c.life.Load().end()
	if r := c.relay.Load(); r != nil {
		r.close()
	}
	bottom(c.conn).Close() // TLS would wait for its turn to say goodbye
}
