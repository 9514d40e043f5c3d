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

	mu   sync.Mutex // guards all below
	open map[*stream]struct{}
	// up is what dials live under, nil while there is to be no connection.
	up   context.Context
	down context.CancelFunc
}

// address is a host and port by which other nodes reach this one.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func newStreams(listener net.Listener, own string, dial Dial) *streams {
	s := &streams{Listener: listener, address: address(own), dial: dial}
	s.resume()
	return s
}

// resume allows connections.
func (s *streams) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = map[*stream]struct{}{}
	s.up, s.down = context.WithCancel(context.Background())
}

// cut ends all connections and dials, so that nobody waits for a peer that is
// silent, and allows no others until resume.
func (s *streams) cut() {
	s.mu.Lock()
	open := s.open
	s.open, s.up = nil, nil
	s.down()
	s.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
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
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	if up == nil {
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(up, timeout)
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
	if s.up == nil {
		conn.Close()
		return nil, net.ErrClosed
	}
	tracked := &stream{Conn: conn, of: s}
	s.open[tracked] = struct{}{}
	return tracked, nil
}

// Close closes the listener and every connection.
func (s *streams) Close() error {
	s.cut()
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
