package memnet_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"grapevine/kv/memnet"
)

func packets(t *testing.T, h *memnet.Host, port int) net.PacketConn {
	t.Helper()
	c, err := h.ListenPacket(port)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// arrivals reads what comes in before the deadline.
func arrivals(t *testing.T, c net.PacketConn, within time.Duration) []string {
	t.Helper()
	var got []string
	c.SetReadDeadline(time.Now().Add(within))
	b := make([]byte, memnet.MaxPacketBytes)
	for {
		n, _, err := c.ReadFrom(b)
		if err != nil {
			if !isTimeout(err) {
				t.Fatal(err)
			}
			return got
		}
		got = append(got, string(b[:n]))
	}
}

func sendAll(t *testing.T, from, to net.PacketConn, count int) {
	t.Helper()
	for i := range count {
		if _, err := from.WriteTo(fmt.Appendf(nil, "%03d", i), to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPacketsArriveWithTheirSender(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		from, to := packets(t, a, 7946), packets(t, b, 0)
		from.WriteTo([]byte("hello"), to.LocalAddr())
		small := make([]byte, 4)
		got, addr, err := to.ReadFrom(small)
		if err != nil || string(small[:got]) != "hell" || addr.String() != hostA+":7946" {
			t.Errorf("got %q from %v, %v", small[:got], addr, err)
		}
		if _, ok := addr.(*net.UDPAddr); !ok {
			t.Errorf("address is a %T, want a *net.UDPAddr", addr)
		}
		if _, err := from.WriteTo(make([]byte, memnet.MaxPacketBytes+1), to.LocalAddr()); !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("packet too large: got %v", err)
		}
	})
}

func TestLossDuplicatesAndReordering(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		from, to := packets(t, a, 0), packets(t, b, 0)
		sendAll(t, from, to, 500)
		if got := arrivals(t, to, time.Second); len(got) != 500 || !slices.IsSorted(got) {
			t.Fatalf("a calm network: %d of 500 in order", len(got))
		}
		n.SetLoss(0.2)
		sendAll(t, from, to, 500)
		if got := arrivals(t, to, time.Second); len(got) < 350 || len(got) > 450 {
			t.Errorf("20 %% loss: %d of 500 arrived", len(got))
		}
		n.SetLoss(0)
		n.SetDuplicate(0.2)
		sendAll(t, from, to, 500)
		if got := arrivals(t, to, time.Second); len(got) < 550 || len(got) > 650 {
			t.Errorf("20 %% repeats: %d of 500 arrived", len(got))
		}
		n.SetDuplicate(0)
		n.SetDelay(time.Millisecond, 100*time.Millisecond)
		sendAll(t, from, to, 500)
		if got := arrivals(t, to, time.Second); len(got) != 500 || slices.IsSorted(got) {
			t.Errorf("jitter: %d of 500 arrived, in order: %v", len(got), slices.IsSorted(got))
		}
		n.SetLoss(1)
		sendAll(t, packets(t, b, 0), to, 3) // a host reaches itself
		if got := arrivals(t, to, time.Second); len(got) != 3 {
			t.Errorf("on one host: %d of 3 arrived", len(got))
		}
	})
}

func TestPacketsVanishWhereBlocked(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		from, to := packets(t, a, 0), packets(t, b, 0)
		n.SetDelay(10*time.Millisecond, 10*time.Millisecond)
		sendAll(t, from, to, 1) // under way when the way is cut
		n.Block(hostA, hostB)
		sendAll(t, from, to, 1)
		sendAll(t, to, from, 1)
		if got := arrivals(t, from, time.Second); len(got) != 1 {
			t.Errorf("the other direction: %d of 1 arrived", len(got))
		}
		n.Heal()
		if got := arrivals(t, to, time.Second); len(got) != 0 {
			t.Errorf("%q arrived", got)
		}
		sendAll(t, from, to, 1)
		if got := arrivals(t, to, time.Second); len(got) != 1 {
			t.Error("nothing arrives after Heal")
		}
	})
}

func TestPacketsWithoutReaderAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		from, to := packets(t, a, 0), packets(t, b, 0)
		sendAll(t, from, to, 5000)
		if got := arrivals(t, to, time.Second); len(got) != 1024 {
			t.Errorf("%d packets were kept", len(got))
		}
	})
}

func TestPacketConnCloseAndCrash(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network, a, b *memnet.Host) {
		c, other := packets(t, a, 7946), packets(t, b, 7946)
		if _, err := a.ListenPacket(7946); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("second on one port: got %v", err)
		}
		time.AfterFunc(time.Second, func() { c.Close() })
		if _, _, err := c.ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: got %v", err)
		}
		if _, err := other.WriteTo([]byte("x"), c.LocalAddr()); err != nil {
			t.Errorf("write to nobody: got %v", err)
		}
		b.Crash()
		if _, _, err := other.ReadFrom(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after the crash: got %v", err)
		}
		packets(t, b, 7946)
	})
}

// One seed, one run.
func TestSeedDecides(t *testing.T) {
	run := func(seed uint64) (got []string) {
		inBubble(t, func(t *testing.T, _ *memnet.Network, _, _ *memnet.Host) {
			n := memnet.New(seed)
			n.SetLoss(0.3)
			n.SetDuplicate(0.3)
			n.SetDelay(0, 10*time.Millisecond)
			from, to := packets(t, n.Host(hostA), 0), packets(t, n.Host(hostB), 0)
			sendAll(t, from, to, 200)
			got = arrivals(t, to, time.Second)
		})
		return got
	}
	first := run(7)
	if again := run(7); !slices.Equal(first, again) {
		t.Errorf("the same seed gave %v and %v", first, again)
	}
	if other := run(8); slices.Equal(first, other) {
		t.Error("another seed gave the same")
	}
}
