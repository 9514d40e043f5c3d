package consensus

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Dial connects to another node for one purpose: raft's streams, or calls.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// streams is how raft's transport reaches the network. It keeps hold of all
// connections, since the transport leaves those that it accepted open when it is
// closed.
type streams struct {
	net.Listener
	address address
	dial    Dial

	mu     sync.Mutex // guards open and closed
	open   map[*stream]struct{}
	closed bool
}

// address is a host and port by which other nodes reach this one.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func newStreams(listener net.Listener, own string, dial Dial) *streams {
	return &streams{Listener: listener, address: address(own), dial: dial, open: map[*stream]struct{}{}}
}

func (s *streams) Addr() net.Addr { return s.address }

func (s *streams) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return s.track(conn)
}

func (s *streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := s.dial(ctx, string(to))
	if err != nil {
		return nil, err
	}
	return s.track(conn)
}

func (s *streams) track(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	tracked := &stream{Conn: conn, of: s}
	s.open[tracked] = struct{}{}
	return tracked, nil
}

// Close closes the listener and every connection.
func (s *streams) Close() error {
	s.mu.Lock()
	open := s.open
	s.closed, s.open = true, nil
	s.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
	return s.Listener.Close()
}

// stream is a connection that its streams know of.
type stream struct {
	net.Conn
	of *streams
}

func (c *stream) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
