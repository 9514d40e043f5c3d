package names

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Resolver looks up the addresses of a host. ttl is how long they hold, 0 where
// that is not known.
type Resolver interface {
	Lookup(ctx context.Context, host string) (addresses []netip.Addr, ttl time.Duration, err error)
}

const (
	// minAge and maxAge bound how long an answer counts, whatever its TTL: the one
	// spares the servers of names, the other bounds how long a change takes.
	minAge = 5 * time.Second
	maxAge = 30 * time.Second
	// lookupBound is the longest wait for an answer, that of resolv.conf's
	// defaults being two tries of 5 s.
	lookupBound = 10 * time.Second
	// avoidFor is how long an address that could not be reached comes after the
	// others.
	avoidFor = 10 * time.Second
)

// Options are what a name is made with. Resolver, Logger and Drain are required.
type Options struct {
	Host, Port string
	Resolver   Resolver
	Logger     *slog.Logger
	// Drain ends the connections whose other end keep refuses, once nothing is under
	// way on them, and tells how many connections there are left, those included.
	Drain func(keep func(net.Addr) bool) (open int)
}

// Name is a host that connections are made to.
type Name struct {
	Options
	dialer  net.Dialer
	turn    atomic.Uint32
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	// mu guards what follows.
	mu    sync.Mutex
	known []netip.Addr // the last good answer; replaced, never changed
	until time.Time    // how long it counts
	err   error        // of the last lookup
	// looking is closed when the lookup under way has ended; nil without one.
	looking chan struct{}
	avoid   map[netip.Addr]time.Time
	timer   *time.Timer // of the next lookup
	closed  bool
}

// New makes a name that is looked up at its first dial.
func New(o Options) *Name {
	n := &Name{Options: o, dialer: net.Dialer{KeepAlive: 15 * time.Second}, avoid: map[netip.Addr]time.Time{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Close ends the lookups. A dial after it goes to what is known.
func (n *Name) Close() {
	n.mu.Lock()
	n.closed = true
	if n.timer != nil {
		n.timer.Stop()
	}
	n.mu.Unlock()
	n.cancel()
	n.running.Wait()
}

// addresses gives those of the host. It waits for a lookup when what is known
// does not count any more.
func (n *Name) addresses(ctx context.Context) ([]netip.Addr, error) {
	n.mu.Lock()
	if !n.closed && time.Now().After(n.until) {
		done := n.lookUp()
		n.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		n.mu.Lock()
	}
	defer n.mu.Unlock()
	if len(n.known) == 0 {
		return nil, n.err
	}
	return n.known, nil
}

// lookUp begins a lookup unless one is under way. It is called with mu. The lookup
// belongs to nobody in particular: a client that leaves must not end it for the
// others.
func (n *Name) lookUp() (done <-chan struct{}) {
	if n.looking == nil {
		n.looking = make(chan struct{})
		n.running.Go(n.look)
	}
	return n.looking
}

func (n *Name) look() {
	ctx, cancel := context.WithTimeout(n.ctx, lookupBound)
	defer cancel()
	addresses, ttl, err := n.Resolver.Lookup(ctx, n.Host)
	if err == nil && len(addresses) == 0 {
		err = &net.DNSError{Err: "no address", Name: n.Host, IsNotFound: true}
	}
	if n.learn(addresses, ttl, err) {
		n.Drain(belongs(addresses))
	}
}

// learn takes the outcome of a lookup and tells whether the host has other
// addresses than before.
func (n *Name) learn(addresses []netip.Addr, ttl time.Duration, err error) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.looking)
	n.looking = nil
	if n.closed {
		return false
	}
	age := minAge
	if err == nil {
		age = min(max(cmp.Or(ttl, maxAge), minAge), maxAge)
		changed = n.take(addresses)
	}
	n.report(err)
	n.until = time.Now().Add(age)
	n.timer = time.AfterFunc(age, n.again)
	return changed
}

// take makes addresses the known ones.
func (n *Name) take(addresses []netip.Addr) (changed bool) {
	before := n.known
	n.known = addresses
	same := len(before) == len(addresses)
	for _, address := range addresses {
		same = same && slices.Contains(before, address)
	}
	if same || before == nil {
		return false
	}
	n.Logger.Info("hostname has other addresses", "host", n.Host, "from", before, "to", addresses)
	maps.DeleteFunc(n.avoid, func(address netip.Addr, _ time.Time) bool { return !slices.Contains(addresses, address) })
	return true
}

// report says once that lookups fail, and once that they don't any more.
func (n *Name) report(err error) {
	failed := n.err != nil
	n.err = err
	switch {
	case err != nil && !failed:
		n.Logger.Warn("hostname can't be looked up: the last good answer holds", "host", n.Host, "err", err, "addresses", n.known)
	case err == nil && failed:
		n.Logger.Info("hostname can be looked up again", "host", n.Host, "addresses", n.known)
	}
}

// again looks the name up while there are connections.
func (n *Name) again() {
	if n.Drain(func(net.Addr) bool { return true }) == 0 {
		return // the next dial will
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.lookUp()
	}
}

// belongs tells whether the other end of a connection is one of addresses.
func belongs(addresses []netip.Addr) func(net.Addr) bool {
	return func(end net.Addr) bool {
		port, err := netip.ParseAddrPort(end.String())
		return err != nil || slices.Contains(addresses, port.Addr().Unmap())
	}
}
