package consensus

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Dial connects to another node for one purpose: raft's streams, or calls.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// streams is how raft's transport reaches the network. It keeps hold of all
// connections, since the transport leaves those that it accepted open when it is
// closed.
//
// A connection begins with the id of the server that it is for: one byte of length,
// and the id. Whoever goes by another id by now closes it. raft's calls do not say
// whom they are for, and a node that lost its log is at the address of the server
// that it was: raft would let it vote in that one's name (as long as it knows of no
// configuration), for a leader that lacks what that one has agreed to. The same
// keeps the servers of an epoch that was given up from those of the next.
type streams struct {
	net.Listener
	address address
	dial    Dial
	server  func() string // this node's id in raft

	mu    sync.Mutex // guards all below
	open  map[*stream]struct{}
	dials map[*dialing]struct{} // under way
	// up is what dials live under, nil while there is to be no connection.
	up   context.Context
	down context.CancelFunc
}

// address is a host and port by which other nodes reach this one.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func newStreams(listener net.Listener, own string, dial Dial, server func() string) *streams {
	s := &streams{Listener: listener, address: address(own), dial: dial, server: server, dials: map[*dialing]struct{}{}}
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
	return s.track(&stream{Conn: conn, of: s, accepted: true})
}

func (s *streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	server, address, ok := strings.Cut(string(to), addressMark)
	if !ok || len(server) > maxServerID {
		return nil, fmt.Errorf("raft: %q is no server id with an address", to)
	}
	ctx, end := s.begin(place{server, address}, timeout)
	if ctx == nil {
		return nil, net.ErrClosed
	}
	defer end()
	conn, err := s.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return s.track(&stream{Conn: conn, of: s, to: place{server, address}, greeting: append([]byte{byte(len(server))}, server...)})
}

// place is a server where it was when it was dialled.
type place struct{ server, address string }

// former tells whether it is a server's, which is elsewhere now.
func (p place) former(server, address string) bool { return p.server == server && p.address != address }

// dialing is a dial under way.
type dialing struct {
	to     place
	cancel context.CancelFunc
}

// begin gives what a dial lives under, until end; nil while there is to be no connection.
func (s *streams) begin(to place, timeout time.Duration) (ctx context.Context, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up == nil {
		return nil, nil
	}
	d := &dialing{to: to}
	ctx, d.cancel = context.WithTimeout(s.up, timeout)
	s.dials[d] = struct{}{}
	return ctx, func() {
		d.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.dials, d)
	}
}

// leave ends what goes to a server at other addresses than its present one: raft would wait
// there for an answer, for as long as a call may take, before it looks at the address again.
func (s *streams) leave(server, address string) {
	s.mu.Lock()
	for d := range s.dials {
		if d.to.former(server, address) {
			d.cancel()
		}
	}
	var former []net.Conn
	for conn := range s.open {
		if conn.to.former(server, address) {
			former = append(former, conn.Conn)
		}
	}
	s.mu.Unlock()
	for _, conn := range former {
		conn.Close()
	}
}

// addressMark stands between a server's id and its address, on the way from the
// transport to Dial; maxServerID is what a greeting has room for.
const (
	addressMark = "@"
	maxServerID = 255
)

// addressOf is where to find a server, for Dial.
func addressOf(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + addressMark + string(address))
}

func (s *streams) track(tracked *stream) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up == nil {
		tracked.Conn.Close()
		return nil, net.ErrClosed
	}
	s.open[tracked] = struct{}{}
	return tracked, nil
}

// drop closes the connections that others made: they make new ones.
func (s *streams) drop() {
	s.mu.Lock()
	var accepted []net.Conn
	for conn := range s.open {
		if conn.accepted {
			accepted = append(accepted, conn.Conn)
		}
	}
	s.mu.Unlock()
	for _, conn := range accepted {
		conn.Close()
	}
}

// Close closes the listener and every connection.
func (s *streams) Close() error {
	s.cut()
	return s.Listener.Close()
}

// stream is a connection that its streams know of.
type stream struct {
	net.Conn
	of       *streams
	accepted bool
	to       place // unless it was accepted
	// greeting goes before what is written first. It is for the goroutine that writes,
	// and greeted for the one that reads.
	greeting []byte
	greeted  bool
}

func (c *stream) Write(b []byte) (int, error) {
	if c.greeting == nil {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(append(c.greeting, b...))
	n = max(0, n-len(c.greeting))
	c.greeting = nil
	return n, err
}

// Read gives the end of a connection that is for another server: there is nothing
// to tell it.
func (c *stream) Read(b []byte) (int, error) {
	if c.accepted && !c.greeted {
		if err := c.readGreeting(); err != nil {
			return 0, err
		}
		c.greeted = true
	}
	return c.Conn.Read(b)
}

func (c *stream) readGreeting() error {
	length := make([]byte, 1)
	if _, err := io.ReadFull(c.Conn, length); err != nil {
		return err
	}
	server := make([]byte, length[0])
	if _, err := io.ReadFull(c.Conn, server); err != nil {
		return err
	}
	if string(server) != c.of.server() {
		return io.EOF
	}
	return nil
}

func (c *stream) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
