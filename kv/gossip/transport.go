package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxPacketBytes is the largest packet that is read. memberlist sends packets of
	// at most 1,400 bytes and a label.
	maxPacketBytes = 64 << 10
	// maxStreamsOpen is how many streams others may have open to memberlist here.
	// More are refused: each costs memory until its deadline.
	maxStreamsOpen = 128
	// acceptPause is how long to wait after an accept or a read failed, as it does
	// when there are no file descriptors left.
	acceptPause = 50 * time.Millisecond
)

// transport carries memberlist's packets and streams over what the Peer was given.
type transport struct {
	o        *Options
	counters *counters
	packets  chan *memberlist.Packet
	streams  chan net.Conn
	ctx      context.Context // over after Shutdown
	stop     context.CancelFunc
	group    sync.WaitGroup

	mu     sync.Mutex // guards what is below
	conns  map[*guarded]bool
	opened int // of conns, those that others opened
	closed bool
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

func newTransport(o *Options, c *counters) *transport {
	t := &transport{
		o: o, counters: c,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		conns: map[*guarded]bool{},
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.group.Go(t.readPackets)
	t.group.Go(t.accept)
	return t
}

func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *transport) StreamCh() <-chan net.Conn           { return t.streams }

func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.o.Advertise.Addr().AsSlice(), int(t.o.Advertise.Port()), nil
}

// readPackets ends when the connection is closed.
func (t *transport) readPackets() {
	b := make([]byte, maxPacketBytes)
	for {
		n, from, err := t.o.Packets.ReadFrom(b)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !pause(t.ctx.Done(), acceptPause) {
				return
			}
			continue
		}
		if !soundPacket(b[:n], t.o.Cluster, len(t.o.Keys) > 0) {
			t.counters.packetsBad.add(1)
			continue
		}
		packet := &memberlist.Packet{Buf: append([]byte(nil), b[:n]...), From: from, Timestamp: time.Now()}
		select {
		case t.packets <- packet:
		case <-t.ctx.Done():
			return
		}
	}
}

// accept ends when the listener is closed.
func (t *transport) accept() {
	for {
		conn, err := t.o.Membership.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !pause(t.ctx.Done(), acceptPause) {
				return
			}
			continue
		}
		stream := t.guard(conn, true)
		if stream == nil {
			t.counters.streamsRefused.add(1)
			conn.Close()
			continue
		}
		select {
		case t.streams <- stream:
		case <-t.ctx.Done():
			return // Shutdown closes the stream
		}
	}
}

func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("address %q: want IP:port", addr)
	}
	_, err = t.o.Packets.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

func (t *transport) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, addr.Addr)
}

func (t *transport) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(addr.Addr, timeout)
}

func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	conn, err := t.o.Membership.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	stream := t.guard(conn, false)
	if stream == nil {
		conn.Close()
		return nil, net.ErrClosed
	}
	return stream, nil
}

// guard takes a connection into care: nil if there are too many, or it is too late.
func (t *transport) guard(conn net.Conn, opened bool) *guarded {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || opened && t.opened >= maxStreamsOpen {
		return nil
	}
	g := &guarded{Conn: conn, transport: t, opened: opened}
	if opened {
		t.opened++
	}
	t.conns[g] = true
	return g
}

func (t *transport) release(g *guarded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conns[g] && g.opened {
		t.opened--
	}
	delete(t.conns, g)
}

// Shutdown ends the transport's goroutines, and those of memberlist that wait on
// a stream.
func (t *transport) Shutdown() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.stop()
	open := make([]net.Conn, 0, len(t.conns))
	for g := range t.conns {
		open = append(open, g.Conn)
	}
	t.mu.Unlock()
	err := errors.Join(t.o.Packets.Close(), t.o.Membership.Listener.Close())
	for _, conn := range open {
		conn.Close()
	}
	t.group.Wait()
	return err
}
