package memnet

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Network connects hosts. A new one has no delay and loses nothing.
type Network struct {
	seed uint64

	// mu guards everything below, and all state of hosts, listeners and
	// connections. Nobody waits while holding it.
	mu       sync.Mutex
	hosts    map[string]*Host
	links    map[way]*rand.Rand
	blocked  map[way]bool
	pipes    []*pipe // of connections with an end that is in use
	min, max time.Duration
	loss     float64
	repeat   float64
	resends  time.Duration
	topology event // a way was blocked or healed, or a host went or came
}

// way is the direction from one host to another.
type way struct{ from, to string }

// New returns a network of which all chances are drawn from seed.
func New(seed uint64) *Network {
	return &Network{
		seed:    seed,
		hosts:   map[string]*Host{},
		links:   map[way]*rand.Rand{},
		blocked: map[way]bool{},
	}
}

// Host returns the host at an IP address and makes it if there is none yet. It
// panics if ip is not an address.
func (n *Network) Host(ip string) *Host {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		panic(fmt.Sprintf("memnet: host %q: not an IP address", ip))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[addr.String()]
	if h == nil {
		h = newHost(n, addr)
		n.hosts[h.ip] = h
	}
	return h
}

// SetDelay makes whatever is sent from now on take between min and max. Packets
// may overtake each other, the bytes of a stream never do. A host reaches
// itself at once.
func (n *Network) SetDelay(min, max time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.min, n.max = min, max
}

// SetLoss drops that share of the packets, from 0 to 1. Streams lose nothing, see
// SetRetransmit.
func (n *Network) SetLoss(p float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = p
}

// SetRetransmit makes streams feel losses as those of TCP do: what would have been lost
// arrives d later, and 2d after that if it is lost again. 0, as at first, means never.
func (n *Network) SetRetransmit(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resends = d
}

// SetDuplicate delivers that share of the packets twice, from 0 to 1.
func (n *Network) SetDuplicate(p float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.repeat = p
}

// Block cuts one direction in silence: packets vanish, also those under way; what
// is written to a stream stays under way until Heal; a dial times out.
func (n *Network) Block(from, to string) {
	n.rewire(func() { n.blocked[way{canonical(from), canonical(to)}] = true })
}

// Partition cuts every host of a group off from every host of the other groups,
// in both directions, in addition to what is cut already. Hosts in no group keep
// reaching all.
func (n *Network) Partition(groups ...[]string) {
	n.rewire(func() {
		for i, group := range groups {
			for _, other := range slices.Concat(groups[:i:i], groups[i+1:]) {
				n.cut(group, other)
			}
		}
	})
}

// Heal ends every Block and Partition.
func (n *Network) Heal() {
	n.rewire(func() { clear(n.blocked) })
}

func (n *Network) cut(group, other []string) {
	for _, from := range group {
		for _, to := range other {
			n.blocked[way{canonical(from), canonical(to)}] = true
		}
	}
}

// rewire changes which ways are open. What had arrived before stays arrived; what
// could not arrive until now sets out anew.
func (n *Network) rewire(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rewireLocked(change)
}

func (n *Network) rewireLocked(change func()) {
	now := time.Now()
	for _, p := range n.pipes {
		p.land(now)
	}
	change()
	for _, p := range n.pipes {
		p.resend(now)
	}
	for _, h := range n.hosts {
		h.dropUnderWay(now)
	}
	n.topology.fire()
}

// open reports whether anything gets through. Holders of mu call it, as all below.
func (n *Network) open(w way) bool {
	from, to := n.hosts[w.from], n.hosts[w.to]
	return from != nil && !from.down && to != nil && !to.down && !n.blocked[w]
}

// link is the source of chances of one direction. Each has its own, so that the
// order in which different hosts send does not matter.
func (n *Network) link(w way) *rand.Rand {
	r := n.links[w]
	if r == nil {
		h := fnv.New64a()
		h.Write([]byte(w.from + ">" + w.to))
		r = rand.New(rand.NewPCG(n.seed, h.Sum64()))
		n.links[w] = r
	}
	return r
}

func (n *Network) delay(w way) time.Duration {
	if w.from == w.to || n.max <= 0 {
		return 0
	}
	if n.max <= n.min {
		return n.min
	}
	return n.min + time.Duration(n.link(w).Int64N(int64(n.max-n.min)+1))
}

// lost is the share of what is lost between two hosts.
func (n *Network) lost(w way) float64 {
	loss := n.loss
	for _, ip := range []string{w.from, w.to} {
		if h := n.hosts[ip]; h != nil {
			loss = max(loss, h.loss)
		}
	}
	return loss
}

// retransmission is how much later than without losses something arrives on a stream.
func (n *Network) retransmission(w way) (late time.Duration) {
	const most = 6 // Linux gives up after 15, minutes later
	for again := n.resends; again > 0 && again < n.resends<<most && n.chance(w, n.lost(w)); again *= 2 {
		late += again
	}
	return late
}

// chance is true with probability p.
func (n *Network) chance(w way, p float64) bool {
	return p > 0 && w.from != w.to && n.link(w).Float64() < p
}

// canonical is the one spelling of an address.
func canonical(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		panic(fmt.Sprintf("memnet: host %q: not an IP address", ip))
	}
	return addr.String()
}

// event wakes those who wait for a change of something that Network.mu guards.
type event struct{ woken chan struct{} }

func (e *event) fire() {
	if e.woken != nil {
		close(e.woken)
		e.woken = nil
	}
}

// wait gives mu back until e fires, done is closed or it is until; the zero time
// is never. The caller has to look again at what it waits for.
func (n *Network) wait(e *event, done <-chan struct{}, until time.Time) {
	if e.woken == nil {
		e.woken = make(chan struct{})
	}
	woken := e.woken
	n.mu.Unlock()
	defer n.mu.Lock()
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-woken:
	case <-done:
	case <-alarm:
	}
}

// earliest is the first of the times that are not zero.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// passed reports whether a deadline is over; the zero time never is.
func passed(deadline time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(deadline)
}
