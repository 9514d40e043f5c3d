package http1

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
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
	asked uint32 // waits when the sweeper last asked whether an idle client has left
	born  int64  // by the coarse clock
	life  atomic.Pointer[life]
	relay atomic.Pointer[relay] // while a tunnel is open

	firstLife life

	t *turn // nil while it waits for a request
	// ready is serveReady, bound once.
	ready func(fd uintptr) bool
	// next is how the latest wait for a request has ended.
	next next
}

// next is what a connection is to do.
type next int

const (
	// end: no request comes any more, or none may be served.
	end next = iota
	// read: the first of a request is there.
	read
	// wait for another request, of which some may be there.
	wait
	// hearOut: the client may still be sending, see linger.
	hearOut
	// breakOff: the client must see an error instead of an end.
	breakOff
)

func newConn(s *Server, netConn net.Conn) *conn {
	c := &conn{s: s, scheme: "http"}
	c.init(netConn, &s.clock)
	c.firstLife.init()
	c.life.Store(&c.firstLife)
	c.ready = c.serveReady
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
	for {
		switch c.await() {
		case end:
			return
		case read:
			c.next = c.serveRequest()
		}
		switch c.next {
		case end:
			return
		case hearOut:
			c.t.linger()
			return
		case breakOff:
			c.reset()
			return
		}
	}
}

func (c *conn) drop() {
	if c.t != nil {
		c.t.release()
		c.t = nil
	}
}

// await waits for a request's first byte. Where the connection has a descriptor,
// requests that are there as a whole are served within the wait, which ends when
// something else has to be done.
func (c *conn) await() next {
	if c.t != nil && c.t.ahead() > 0 {
		return read // also in a Shutdown: nobody has told the client that no more is answered
	}
	if !c.rests() {
		return end
	}
	if c.raw == nil {
		return c.awaitByte()
	}
	c.next = end
	if err := c.raw.Read(c.ready); err != nil {
		return end
	}
	return c.next
}

// rests makes the connection one that waits for a request. It is false when none
// may come any more.
func (c *conn) rests() bool {
	bound := c.s.headTimeout()
	if c.state.Load() != fresh {
		bound = c.s.idleTimeout()
		c.drop()
		c.state.Store(idle)
		if c.s.draining.Load() { // who set that may have looked at us before
			return false
		}
	}
	c.armRead(bound)
	return true
}

// works makes the connection one that has a request. It is false when that came
// too late.
func (c *conn) works() bool {
	return c.restRead() && (c.state.CompareAndSwap(idle, busy) || c.state.CompareAndSwap(fresh, busy))
}

// awaitByte reads one byte, as a wait without a buffer.
func (c *conn) awaitByte() next {
	n, _ := c.conn.Read(c.in.first[:])
	if n == 0 || !c.works() {
		return end
	}
	c.t = takeTurn(c)
	c.t.page[0], c.t.to = c.in.first[0], 1
	return read
}

// serveReady is called when something may have come on the descriptor, whose
// reading is its own meanwhile. It serves what needs no more of that, and returns
// false to wait for more. Then it is called again when something comes that was
// not there before: after a short read there is no need to try another one, which
// would find nothing. A client that closed its side together with its last request
// is not noticed so, but by the sweeper.
func (c *conn) serveReady(fd uintptr) (done bool) {
	t := takeTurn(c)
	n, errno := receive(fd, t.page[:], 0)
	switch {
	case errno == syscall.EAGAIN:
		t.release()
		return false
	case errno != 0 || n == 0 || !c.works():
		t.release()
		return true
	}
	c.t, t.to = t, n
	if !t.isWhole() {
		c.next = read
		return true
	}
	c.next = t.exchange()
	if c.next != wait || n == len(t.page) || t.ahead() > 0 {
		return true
	}
	c.next = end
	return !c.rests()
}

// serveRequest serves the request that has begun to come.
func (c *conn) serveRequest() next {
	err := c.t.readHead()
	if err == nil {
		return c.t.exchange()
	}
	if err == errLateHead && c.t.ahead() == 0 {
		return end // an empty line came, which is no request
	}
	if refusal, is := err.(*Refusal); is { // never wrapped
		return c.t.refuse(refusal)
	}
	return end
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

// cut ends the connection and what is done for it, and waits for neither.
func (c *conn) cut() {
	c.life.Load().end()
	if r := c.relay.Load(); r != nil {
		r.close()
	}
	if c.raw != nil { // to close it would wait for a handler that serveReady has called
		c.shut()
		return
	}
	bottom(c.conn).Close() // TLS would wait for its turn to say goodbye
}
