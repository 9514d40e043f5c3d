package memnet

import (
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// Limits of packets.
const (
	// MaxPacketBytes is the largest payload of UDP over IPv4.
	MaxPacketBytes = 65507
	// packetQueue is how many packets wait for a reader or are under way to it;
	// more are lost.
	packetQueue = 1024
)

type packetConn struct {
	host    *Host
	addr    *net.UDPAddr
	queue   []packet // by arrival
	by      time.Time
	closed  bool
	changed event
}

type packet struct {
	arrival time.Time
	way     way
	from    *net.UDPAddr
	bytes   []byte
}

func (c *packetConn) LocalAddr() net.Addr { return c.addr }

// ReadFrom gives one packet. What does not fit into b is lost, as with UDP.
func (c *packetConn) ReadFrom(b []byte) (int, net.Addr, error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	for {
		if c.closed {
			return 0, nil, c.opError("read", net.ErrClosed)
		}
		if passed(c.by) {
			return 0, nil, c.opError("read", os.ErrDeadlineExceeded)
		}
		var due time.Time
		if len(c.queue) > 0 {
			first := c.queue[0]
			if passed(first.arrival) {
				c.queue = c.queue[1:]
				return copy(b, first.bytes), first.from, nil
			}
			due = first.arrival
		}
		c.host.net.wait(&c.changed, nil, earliest(due, c.by))
	}
}

// WriteTo sends a packet, which may be lost without an error. It never waits.
func (c *packetConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	to, err := hostPort(addr)
	if err != nil {
		return 0, c.opError("write", err)
	}
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	switch {
	case c.closed:
		return 0, c.opError("write", net.ErrClosed)
	case len(b) > MaxPacketBytes:
		return 0, c.opError("write", os.NewSyscallError("sendto", syscall.EMSGSIZE))
	}
	n, w := c.host.net, way{c.host.ip, to.Addr().String()}
	c.host.sent.Packets++
	c.host.sent.Bytes += uint64(len(b))
	if !n.open(w) || n.chance(w, n.lost(w)) {
		return len(b), nil
	}
	c.deliver(w, int(to.Port()), b)
	if n.chance(w, n.repeat) {
		c.deliver(w, int(to.Port()), b)
	}
	return len(b), nil
}

// deliver puts a packet in line at its destination, if there is one with room.
func (c *packetConn) deliver(w way, port int, b []byte) {
	n := c.host.net
	p := packet{arrival: time.Now().Add(n.delay(w)), way: w, from: c.addr, bytes: slices.Clone(b)}
	to := n.hosts[w.to].packets[port]
	if to == nil || len(to.queue) >= packetQueue {
		return
	}
	at := len(to.queue)
	for at > 0 && to.queue[at-1].arrival.After(p.arrival) {
		at--
	}
	to.queue = slices.Insert(to.queue, at, p)
	to.changed.fire()
}

func (c *packetConn) dropUnderWay(now time.Time) {
	c.queue = slices.DeleteFunc(c.queue, func(p packet) bool {
		return p.arrival.After(now) && !c.host.net.open(p.way)
	})
}

// SetDeadline and SetReadDeadline bound ReadFrom.
func (c *packetConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *packetConn) SetReadDeadline(t time.Time) error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	c.by = t
	c.changed.fire()
	return nil
}

// SetWriteDeadline does nothing: WriteTo never waits.
func (c *packetConn) SetWriteDeadline(time.Time) error { return nil }

func (c *packetConn) Close() error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.close()
	return nil
}

func (c *packetConn) close() {
	c.closed = true
	c.queue = nil
	delete(c.host.packets, c.addr.Port)
	c.changed.fire()
}

func (c *packetConn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.addr, Err: err}
}
