package memnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
)

// DialTimeout ends a dial that gets no answer, if its context does not before.
const DialTimeout = 30 * time.Second

// firstPort is where the ports begin that are picked for who asks for port 0.
const firstPort = 49152

// Host is one machine: an IP address with ports. It is up from the start.
type Host struct {
	net  *Network
	addr netip.Addr
	ip   string

	listeners map[int]*listener
	packets   map[int]*packetConn
	conns     []*conn // not closed yet, in the order they came
	port      int     // the last one picked
	down      bool
	loss      float64
	sent      Sent
}

// Sent is what a host has sent, without headers: packets, and pieces and bytes of streams.
type Sent struct {
	Packets, Writes uint64
	Bytes           uint64 // of both
}

// Sent counts from the beginning.
func (h *Host) Sent() Sent {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.sent
}

// SetLoss drops that share of the packets from and to this host, from 0 to 1, unless the
// network drops more.
func (h *Host) SetLoss(p float64) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.loss = p
}

func newHost(n *Network, addr netip.Addr) *Host {
	return &Host{
		net: n, addr: addr, ip: addr.String(), port: firstPort - 1,
		listeners: map[int]*listener{}, packets: map[int]*packetConn{},
	}
}

// Listen takes connections at a port; 0 picks one.
func (h *Host) Listen(port int) (net.Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.powerOn()
	if port == 0 {
		port = h.pick()
	}
	l := &listener{host: h, addr: h.tcp(port)}
	if h.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: l.addr, Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	h.listeners[port] = l
	return l, nil
}

// ListenPacket sends and takes packets at a port; 0 picks one.
func (h *Host) ListenPacket(port int) (net.PacketConn, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.powerOn()
	if port == 0 {
		port = h.pick()
	}
	c := &packetConn{host: h, addr: &net.UDPAddr{IP: h.addr.AsSlice(), Port: port}}
	if h.packets[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: c.addr, Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	h.packets[port] = c
	return c, nil
}

// Dial connects to an IP address and port, as "10.0.0.2:7946". Where nobody
// listens it is refused; where the way is blocked, or no host is up, it ends with
// the context or after DialTimeout.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("address %q: want IP:port", address)}
	}
	remote := &net.TCPAddr{IP: to.Addr().AsSlice(), Port: int(to.Port())}
	c, err := h.dial(ctx, to, remote)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: remote, Err: err}
	}
	return c, nil
}

func (h *Host) dial(ctx context.Context, to netip.AddrPort, remote *net.TCPAddr) (*conn, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.down {
		return nil, syscall.ENETDOWN
	}
	limit := time.Now().Add(DialTimeout)
	there, back := way{h.ip, to.Addr().String()}, way{to.Addr().String(), h.ip}
	if err := h.net.travel(ctx, there, limit); err != nil {
		return nil, err
	}
	l := h.net.hosts[there.to].listeners[int(to.Port())]
	if l == nil || len(l.queue) >= backlog {
		if err := h.net.travel(ctx, back, limit); err != nil {
			return nil, err
		}
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	near, far := connect(h, h.tcp(h.pick()), l.host, remote)
	l.queue = append(l.queue, far)
	l.changed.fire()
	if err := h.net.travel(ctx, back, limit); err != nil {
		near.abort()
		return nil, err
	}
	return near, nil
}

// travel waits as long as one message takes, and while the way is blocked.
func (n *Network) travel(ctx context.Context, w way, limit time.Time) error {
	arrival := time.Now().Add(n.delay(w))
	for {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case passed(limit):
			return os.ErrDeadlineExceeded
		case !passed(arrival):
			n.wait(&n.topology, ctx.Done(), earliest(arrival, limit))
		case n.open(w):
			return nil
		default:
			n.wait(&n.topology, ctx.Done(), limit)
		}
	}
}

// Crash kills the process: listeners, packet and stream connections are gone, and
// the peers of the streams are reset, since the machine lives. It may listen and
// dial again at once.
func (h *Host) Crash() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for len(h.conns) > 0 {
		h.conns[0].abort()
	}
	h.closePorts()
}

// PowerOff kills the machine: as Crash, but what it sent and has not arrived is
// lost, and its peers hear nothing any more, until it listens again and answers
// what belongs to no connection with a reset.
func (h *Host) PowerOff() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.net.rewireLocked(func() { h.down = true })
	for _, p := range h.net.pipes {
		if p.way.from == h.ip {
			p.dropUnderWay()
		}
	}
	for len(h.conns) > 0 {
		h.conns[0].vanish()
	}
	h.closePorts()
}

func (h *Host) closePorts() {
	for _, l := range h.listeners {
		l.close()
	}
	for _, c := range h.packets {
		c.close()
	}
}

// powerOn lets the peers of old connections learn that these are gone, as soon as
// they send something.
func (h *Host) powerOn() {
	if !h.down {
		return
	}
	h.net.rewireLocked(func() { h.down = false })
	for _, p := range h.net.pipes {
		if p.way.to == h.ip && p.to.gone && len(p.items) > 0 {
			p.to.refuse()
		}
	}
}

// pick finds a port that nothing here uses.
func (h *Host) pick() int {
	for {
		h.port++
		if h.port > 65535 {
			h.port = firstPort
		}
		if h.listeners[h.port] == nil && h.packets[h.port] == nil && !h.dialledFrom(h.port) {
			return h.port
		}
	}
}

func (h *Host) dialledFrom(port int) bool {
	for _, c := range h.conns {
		if c.local.Port == port {
			return true
		}
	}
	return false
}

func (h *Host) tcp(port int) *net.TCPAddr {
	return &net.TCPAddr{IP: h.addr.AsSlice(), Port: port}
}

// dropUnderWay loses the packets to this host of which the way is blocked now.
func (h *Host) dropUnderWay(now time.Time) {
	for _, c := range h.packets {
		c.dropUnderWay(now)
	}
}

func hostPort(addr net.Addr) (netip.AddrPort, error) {
	if udp, ok := addr.(*net.UDPAddr); ok {
		p := udp.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), nil
	}
	ip, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return netip.AddrPort{}, err
	}
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.AddrPort{}, err
	}
	p, err := strconv.ParseUint(port, 10, 16)
	return netip.AddrPortFrom(a, uint16(p)), err
}
