package http1

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/gateway/exchange"
)

// The bounds of a Server whose fields are zero.
const (
	DefaultHeadTimeout  = 10 * time.Second
	DefaultIdleTimeout  = 2 * time.Minute
	DefaultBodyTimeout  = 30 * time.Second
	DefaultWriteTimeout = time.Minute
	DefaultTunnelIdle   = 10 * time.Minute
	DefaultMaxDrain     = 256 << 10
)

const (
	// lingerFor is how long a client that still sends is listened to after the
	// last answer, so that no reset takes the answer from it (RFC 9112 §9.6).
	lingerFor = 5 * time.Second
	// lingerShort is the same for a client that owes nothing, but may just be
	// sending another request.
	lingerShort = 500 * time.Millisecond
	// freshFor is how long a connection that never had a request outlives a
	// Shutdown: its first one may be under way.
	freshFor = 5 * time.Second
	// farewell bounds the writing of what a client is told before it is cut.
	farewell = time.Second
)

// Server serves HTTP/1.1 connections. Its fields must not be changed once it
// serves. A bound of zero is the default, and those of 5 seconds and more may
// be late by 200 ms.
type Server struct {
	// Handler answers; it must be set.
	Handler exchange.Handler
	// Refuse answers with a problem what is no request, of which x knows the peer
	// alone; nil is x.Fail. It may add fields and hooks.
	Refuse func(x *exchange.Exchange, p exchange.Problem)
	// Logger hears of panics and of accepting that fails; nil discards.
	Logger *slog.Logger

	// HeadTimeout is from a request's first byte, or from the begin of the
	// connection, to the end of its head.
	HeadTimeout time.Duration
	// IdleTimeout is the wait for another request.
	IdleTimeout time.Duration
	// BodyTimeout is the longest silence within a request's body.
	BodyTimeout time.Duration
	// WriteTimeout is for each 64 KiB that the client takes.
	WriteTimeout time.Duration
	// TunnelIdle is the longest silence of both sides of a tunnel.
	TunnelIdle time.Duration
	// MaxDrain is how many bytes of a body that nobody read are read to keep the
	// connection.
	MaxDrain int64

	clock    atomic.Int64 // coarse: nanoseconds since epoch
	date     atomic.Pointer[[]byte]
	draining atomic.Bool

	// mu guards what follows.
	mu        sync.Mutex
	conns     map[*conn]struct{}
	listeners map[net.Listener]struct{}
	epoch     time.Time
	dated     int64 // the second of date
	// stopSweeper ends the sweeper, which is there while there are connections.
	stopSweeper chan struct{}
	swept       chan struct{} // closed when the latest sweeper has ended
	empty       chan struct{} // closed when there are no connections; nil until somebody waits
}

func orDefault[T int64 | time.Duration](v, byDefault T) T {
	if v == 0 {
		return byDefault
	}
	return v
}

func (s *Server) headTimeout() time.Duration { return orDefault(s.HeadTimeout, DefaultHeadTimeout) }
func (s *Server) idleTimeout() time.Duration { return orDefault(s.IdleTimeout, DefaultIdleTimeout) }
func (s *Server) bodyTimeout() time.Duration { return orDefault(s.BodyTimeout, DefaultBodyTimeout) }
func (s *Server) writeTimeout() time.Duration {
	return orDefault(s.WriteTimeout, DefaultWriteTimeout)
}
func (s *Server) tunnelIdle() time.Duration { return orDefault(s.TunnelIdle, DefaultTunnelIdle) }
func (s *Server) maxDrain() int64           { return orDefault(s.MaxDrain, DefaultMaxDrain) }

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

// ServeConn serves one connection until it ends, and closes it. A TLS
// connection may make its handshake in the bound of its first head.
func (s *Server) ServeConn(conn net.Conn) {
	if c := s.admit(conn); c != nil {
		s.serveConn(c)
	}
}

// admit takes a connection, or closes it when the server does not serve any more.
func (s *Server) admit(netConn net.Conn) *conn {
	c := newConn(s, netConn)
	if !s.add(c) {
		netConn.Close()
		return nil
	}
	return c
}

func (s *Server) serveConn(c *conn) {
	defer s.remove(c)
	defer s.recoverConn()
	c.serve()
}

// recoverConn keeps a fault of our own to its connection. Handlers and bodies are
// recovered where they are called.
func (s *Server) recoverConn() {
	if cause := recover(); cause != nil {
		s.logger().Error("connection panicked", "err", cause, "stack", string(debug.Stack()))
	}
}

// add is false when the server does not serve any more.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	if s.conns == nil {
		s.conns = map[*conn]struct{}{}
	}
	s.conns[c] = struct{}{}
	s.startSweeper()
	c.born = s.clock.Load()
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) > 0 {
		return
	}
	close(s.stopSweeper)
	s.stopSweeper = nil
	if s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// ended is closed when there are no connections.
func (s *Server) ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	if len(s.conns) == 0 {
		close(s.empty)
		s.empty = nil
	}
	return empty
}

// Shutdown stops accepting, closes idle connections, and waits for the others to
// end with their response and for tunnels to end by themselves. When ctx ends
// first, WebSockets are told that the server goes away and tunnels are closed;
// if other connections are left, it returns ctx's error, and Close cuts them.
// Nothing can be served any more.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopAccepting()
	for _, c := range s.all() {
		c.closeIfIdle()
	}
	ended := s.ended()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.endTunnels()
	select {
	case <-ended:
		return nil
	case <-time.After(2 * farewell): // those that linger, or have a client that does not answer
		return ctx.Err()
	}
}

// endTunnels is told all tunnels at once.
func (s *Server) endTunnels() {
	var told sync.WaitGroup
	for _, c := range s.all() {
		if r := c.relay.Load(); r != nil {
			told.Go(r.goAway)
		}
	}
	told.Wait()
}

// Close stops accepting and cuts every connection. It does not wait for handlers,
// whose contexts end.
func (s *Server) Close() error {
	s.stopAccepting()
	for _, c := range s.all() {
		c.cut()
	}
	return nil
}

func (s *Server) stopAccepting() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		l.Close()
	}
	s.listeners = nil
}

func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}
