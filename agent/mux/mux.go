package mux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// handshakeTimeout bounds the handshake of an accepted connection, and the wait
	// until somebody takes it.
	handshakeTimeout = 5 * time.Second
	// dialTimeout bounds Dial, whose context may end it sooner.
	dialTimeout = 10 * time.Second
	// strangerLife bounds a connection whose peer proved nothing. A join takes at
	// most half of it.
	strangerLife = time.Minute
	// maxOfNode bounds the connections that one node has opened here: it needs a few
	// dozen at most, and one that is not well must not take all descriptors.
	maxOfNode = 512
)

// Handshaker finds out who is on the other side of a connection. Both methods
// give the connection to go on with and the node's id; they give up when ctx
// ends, and leave closing conn to the caller.
type Handshaker interface {
	// Server settles which of the protocols an accepted connection speaks. The node
	// is "" for a peer that proved nothing and may be here all the same.
	Server(ctx context.Context, conn net.Conn, protocols []string) (shaken net.Conn, protocol, node string, err error)
	// Client asks for a protocol. A node that isn't "" is the only one that may answer.
	Client(ctx context.Context, conn net.Conn, protocol, node string) (shaken net.Conn, peer string, err error)
}

// Options are what a Mux is made of. Listener, Dial and Handshaker are required.
type Options struct {
	Listener   net.Listener
	Dial       func(ctx context.Context, address string) (net.Conn, error)
	Packets    net.PacketConn // nil: none
	Handshaker Handshaker
	Logger     *slog.Logger // nil: none
}

// Mux is one port.
type Mux struct {
	o        Options
	gate     *gate
	failures limiter
	life     context.Context // ends with Close
	end      context.CancelFunc
	workers  sync.WaitGroup // Serve, and a handshake each

	// mu guards what follows.
	mu        sync.Mutex
	closed    bool
	listeners map[string]*listener
	conns     map[*conn]struct{}
	accepted  map[string]int  // of conns, how many each node opened
	dropped   map[string]bool // nodes that have nothing to do here any more
}

// New makes a Mux, which owns the listener and the packets from then on. It
// accepts nothing before Serve.
func New(o Options) *Mux {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	life, end := context.WithCancel(context.Background())
	m := &Mux{
		o: o, gate: newGate(o.Logger), failures: limiter{logger: o.Logger}, life: life, end: end,
		listeners: map[string]*listener{}, conns: map[*conn]struct{}{}, accepted: map[string]int{}, dropped: map[string]bool{},
	}
	return m
}

// Addr is where the Mux listens.
func (m *Mux) Addr() net.Addr { return m.o.Listener.Addr() }

// Packets are the datagrams of the port, nil if it has none. Close closes them.
func (m *Mux) Packets() net.PacketConn { return m.o.Packets }

// Listener gives the listener of a protocol, and opens it if it isn't open. A
// protocol without an open listener is refused in the handshake. Whoever accepts
// must go on doing so: a connection that nobody takes within the handshake's time
// is closed.
func (m *Mux) Listener(protocol string) net.Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.listeners[protocol]; l != nil {
		return l
	}
	l := &listener{mux: m, protocol: protocol, arrivals: make(chan *conn), done: make(chan struct{})}
	if m.closed {
		close(l.done)
		return l
	}
	m.listeners[protocol] = l
	return l
}

// protocols are those that somebody listens to.
func (m *Mux) protocols() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.listeners {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Drop closes all connections with a node that was revoked, and those to come: its
// last handshake may have passed before anybody knew.
func (m *Mux) Drop(node string) {
	m.mu.Lock()
	m.dropped[node] = true
	m.mu.Unlock()
	for _, c := range m.connections(func(c *conn) bool { return c.node == node }) {
		c.cut()
	}
}

func (m *Mux) connections(that func(*conn) bool) (list []*conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		if that(c) {
			list = append(list, c)
		}
	}
	return list
}

// Close ends everything: listeners, handshakes, connections. It returns when all
// that the Mux started has ended.
func (m *Mux) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	// From here on nothing new is tracked; so what is closed below is all there is.
	m.end() // which ends the handshakes
	errs := []error{ignoreClosed(m.o.Listener.Close())}
	if m.o.Packets != nil {
		errs = append(errs, ignoreClosed(m.o.Packets.Close()))
	}
	for _, protocol := range m.protocols() {
		errs = append(errs, m.Listener(protocol).Close())
	}
	for _, c := range m.connections(func(*conn) bool { return true }) {
		c.cut()
	}
	m.workers.Wait()
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// track notes a connection after its handshake, so that Close and Drop find it.
func (m *Mux) track(c *conn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return net.ErrClosed
	case m.dropped[c.node]:
		return fmt.Errorf("node %s was revoked", c.node)
	case c.accepted && c.node != "" && m.accepted[c.node] >= maxOfNode:
		return fmt.Errorf("node %s has %d connections open already", c.node, maxOfNode)
	}
	m.conns[c] = struct{}{}
	if c.accepted {
		m.accepted[c.node]++
	}
	return nil
}

func (m *Mux) forget(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, tracked := m.conns[c]; !tracked {
		return
	}
	delete(m.conns, c)
	if c.accepted {
		if m.accepted[c.node]--; m.accepted[c.node] == 0 {
			delete(m.accepted, c.node)
		}
	}
}

// Dial opens a connection to any member of the cluster that speaks protocol at
// address.
func (m *Mux) Dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	return m.DialNode(ctx, protocol, address, "")
}

// DialNode opens a connection that only node may answer; "" is any member.
func (m *Mux) DialNode(ctx context.Context, protocol, address, node string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	raw, err := m.o.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", protocol, address, err)
	}
	shaken, peer, err := m.o.Handshaker.Client(ctx, raw, protocol, node)
	c := &conn{Conn: shaken, raw: raw, mux: m, node: peer, left: func() {}}
	if err == nil {
		err = m.track(c)
	}
	if err != nil {
		raw.Close() // it has failed already
		return nil, fmt.Errorf("%s at %s: %w", protocol, address, err)
	}
	return c, nil
}
