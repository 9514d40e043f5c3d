package gossip

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"grapevine/kv"
)

// Real sockets, where time is real: three nodes on loopback.
func TestOnLoopback(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	leader, others := loopbackNode(t, "leader", Voter), []*loopback{loopbackNode(t, "one", Edge), loopbackNode(t, "two", Edge)}
	for _, n := range others {
		if err := n.peer.Join(ctx, leader.address); err != nil {
			t.Fatal(err)
		}
	}
	writer := &node{store: leader.store}
	for i := range 3 {
		began := time.Now()
		commit := writer.write(t, kv.Put("a", []byte{byte(i)}))
		for _, n := range others {
			n.await(t, ctx, commit.Rev)
		}
		t.Logf("revision %s is everywhere after %v", commit.Rev, time.Since(began))
	}
}

type loopback struct {
	address string
	store   *kv.Store
	peer    *Peer
}

func loopbackNode(t *testing.T, id NodeID, role Role) *loopback {
	t.Helper()
	packets, streams, spread := onePort(t)
	n := &loopback{address: packets.LocalAddr().String(), store: newStore(t)}
	advertise := netip.MustParseAddrPort(n.address)
	var dialer net.Dialer
	var err error
	n.peer, err = Open(Options{
		Cluster: "loopback", Boot: "1", Meta: Meta{ID: id, Role: role}, Advertise: advertise, Keys: [][]byte{make([]byte, KeyBytes)}, Packets: packets,
		Membership: Wire{streams, func(ctx context.Context, a string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", a) }},
		Spread: Wire{spread, func(ctx context.Context, a string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", spreadAddress(a))
		}},
		Streams: []Stream{Operators(n.store, verify)},
		Leader:  func() NodeID { return "leader" },
		Logger:  slog.New(slog.DiscardHandler),
		Timings: Timings{Probe: 100 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.peer.Close()
		n.store.Close()
	})
	return n
}

// onePort listens at one port: for packets and streams at 127.0.0.1, and to spread at
// 127.0.0.2, which the peers find by the address of the gossip. One that is free for packets may be
// taken for streams: then it tries another.
func onePort(t *testing.T) (packets net.PacketConn, streams, spread net.Listener) {
	t.Helper()
	var err error
	for range 100 {
		if packets, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		address := packets.LocalAddr().String()
		if streams, err = net.Listen("tcp", address); err != nil {
			packets.Close()
			continue
		}
		if spread, err = net.Listen("tcp", spreadAddress(address)); err != nil {
			packets.Close()
			streams.Close()
			continue
		}
		return packets, streams, spread
	}
	t.Fatalf("no port is free at both addresses: %v", err)
	return nil, nil, nil
}

// spreadAddress is where a test node spreads: the same port at 127.0.0.2.
func spreadAddress(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort("127.0.0.2", port)
}

func (n *loopback) await(t *testing.T, ctx context.Context, rev kv.Rev) {
	t.Helper()
	for {
		changed := n.store.Changed()
		if n.store.View().Rev() == rev {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("revision %s has not come, only %s", rev, n.store.View().Rev())
		}
	}
}
