package mux_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"grapevine/agent/identity"
	"grapevine/agent/mux"
	"grapevine/kv/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nodeID(n int) string { return fmt.Sprintf("01h%023d", n) }

// inBubble runs f in fake time over a network in memory.
func inBubble(t *testing.T, f func(t *testing.T, n *memnet.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memnet.New(1)) })
}

// port is a Mux of a node, which serves.
type port struct {
	*mux.Mux
	id   *identity.Identity
	addr string
	log  *lines
}

// open has a node serve at address:7946.
func open(t *testing.T, host *memnet.Host, address string, id *identity.Identity) *port {
	t.Helper()
	listener, err := host.Listen(7946)
	if err != nil {
		t.Fatal(err)
	}
	packets, err := host.ListenPacket(7946)
	if err != nil {
		t.Fatal(err)
	}
	log := new(lines)
	m := mux.New(mux.Options{Listener: listener, Dial: host.Dial, Packets: packets, Handshaker: id, Logger: logger(log)})
	served := make(chan error, 1)
	go func() { served <- m.Serve() }()
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &port{m, id, net.JoinHostPort(address, "7946"), log}
}

// pair is two voters of one cluster, on two hosts.
func pair(t *testing.T, n *memnet.Network) (a, b *port) {
	t.Helper()
	first, second := members(t)
	return open(t, n.Host("10.0.0.1"), "10.0.0.1", first), open(t, n.Host("10.0.0.2"), "10.0.0.2", second)
}

// members are two voters of one cluster.
func members(t *testing.T) (first, second *identity.Identity) {
	t.Helper()
	first, err := identity.Found(identity.Options{Node: nodeID(1)})
	if err != nil {
		t.Fatal(err)
	}
	return first, member(t, first, 2, identity.Voter)
}

// member makes another node of a cluster.
func member(t *testing.T, of *identity.Identity, n int, role identity.Role) *identity.Identity {
	t.Helper()
	data, err := of.Provision(nodeID(n), role)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.Open(identity.Options{Path: secretFile(t, data), Node: nodeID(n)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// echo serves a protocol by sending back what comes.
func (p *port) echo(t *testing.T, protocol string) {
	t.Helper()
	listener := p.Listener(protocol)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				io.Copy(conn, conn)
				conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		p.Close() // which ends the connections too
		conns.Wait()
	})
}

// wantEcho sends a line and wants it back.
func wantEcho(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := echoes(conn); err != nil {
		t.Error(err)
	}
}

func echoes(conn net.Conn) error {
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "hello" {
		return fmt.Errorf("echo %q: %w", b, err)
	}
	return nil
}

func dial(t *testing.T, from *port, protocol, address string) net.Conn {
	t.Helper()
	conn, err := from.Dial(t.Context(), protocol, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want it to hold %q", err, part)
		}
	}
}

func logger(l *lines) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// closedBy reports whether the other side has closed the connection within limit.
func closedBy(conn net.Conn, limit time.Duration) bool {
	conn.SetReadDeadline(time.Now().Add(limit))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}
