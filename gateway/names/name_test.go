package names_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/gateway/names"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// zone answers lookups as it is told.
type zone struct {
	// mu guards what follows.
	mu        sync.Mutex
	addresses []netip.Addr
	ttl       time.Duration
	err       error
	asked     int
}

func (z *zone) Lookup(context.Context, string) ([]netip.Addr, time.Duration, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	return z.addresses, z.ttl, z.err
}

func (z *zone) set(ttl time.Duration, err error, addresses ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ttl, z.err, z.addresses = ttl, err, nil
	for _, a := range addresses {
		z.addresses = append(z.addresses, netip.MustParseAddr(a))
	}
}

func (z *zone) lookups() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked
}

// listening takes connections at each of addresses, on one port.
func listening(t *testing.T, addresses ...string) (port string) {
	port = "0"
	for _, a := range addresses {
		l, err := net.Listen("tcp", net.JoinHostPort(a, port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		_, port, _ = net.SplitHostPort(l.Addr().String())
	}
	return port
}

// pool holds connections as an upstream does.
type pool struct {
	// mu guards open.
	mu   sync.Mutex
	open []net.Conn
}

func (p *pool) drain(keep func(net.Addr) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = slices.DeleteFunc(p.open, func(c net.Conn) bool {
		if keep(c.RemoteAddr()) {
			return false
		}
		c.Close()
		return true
	})
	return len(p.open)
}

func (p *pool) ends() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		all = append(all, host)
	}
	slices.Sort(all)
	return all
}

func (p *pool) dial(t *testing.T, n *names.Name) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	conn, err := n.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, conn)
}

func named(t *testing.T, z *zone, port string) (*names.Name, *pool) {
	p := &pool{}
	n := names.New(names.Options{Host: "svc.example", Port: port, Resolver: z, Logger: slog.New(slog.DiscardHandler), Drain: p.drain})
	t.Cleanup(func() {
		n.Close()
		p.drain(func(net.Addr) bool { return false })
	})
	return n, p
}

// All addresses are used, in turn, and one that can't be reached is no loss.
func TestAllAddresses(t *testing.T) {
	z := &zone{}
	z.set(time.Minute, nil, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	n, p := named(t, z, listening(t, "127.0.0.1", "127.0.0.2")) // nobody at .3
	for range 8 {
		p.dial(t, n)
	}
	if got := fmt.Sprint(p.ends()); got != "[127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.2 127.0.0.2 127.0.0.2 127.0.0.2]" &&
		got != "[127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.2 127.0.0.2 127.0.0.2]" &&
		got != "[127.0.0.1 127.0.0.1 127.0.0.1 127.0.0.2 127.0.0.2 127.0.0.2 127.0.0.2 127.0.0.2]" {
		t.Errorf("connections to %s", got)
	}
	if z.lookups() != 1 {
		t.Errorf("%d lookups", z.lookups())
	}
}

// A name without an answer is an error that names it, also when the host is known
// and has no address.
func TestNoAnswer(t *testing.T) {
	z := &zone{}
	n, _ := named(t, z, "80")
	if _, err := n.Dial(t.Context()); err == nil || err.Error() != "lookup svc.example: no address" {
		t.Errorf("got %v", err)
	}
}
