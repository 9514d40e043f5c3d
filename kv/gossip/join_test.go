package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv"
	"grapevine/kv/memnet"
)

// Everybody starts at once and knows three others.
func TestJoinWave(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		const size = 25
		for range size {
			c.add(t)
		}
		c.leader().write(t, kv.Put("a", []byte("before anybody joined")))
		began := time.Now()
		var joining sync.WaitGroup
		for _, n := range c.nodes {
			n.start(t)
		}
		for _, n := range c.nodes[1:] {
			joining.Go(func() { n.join(t, c.nodes[0], c.nodes[1], c.nodes[2]) })
		}
		joining.Wait()
		c.wantMembers(t, size, 30*time.Second)
		t.Logf("all know all after %v", time.Since(began))
		c.wantSame(t, 30*time.Second)
		got := c.counts()
		t.Logf("all have all after %v; %d pulls were served, %d were told to come again, %d snapshots", time.Since(began), got.PullsServed, got.PullsBusy, got.Snapshots)
	})
}

// A node waits for its seeds as long as it takes.
func TestJoinTriesForEver(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		first, second := c.add(t), c.add(t)
		second.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := second.peer.Join(ctx, first.address(), second.address(), "no port"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("join of nobody: got %v", err)
		}
		starting := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(starting)
			<-time.After(10 * time.Minute)
			first.start(t)
		}()
		second.join(t, first)
		<-starting
		if took := time.Since(began); took < 10*time.Minute || took > 10*time.Minute+30*time.Second {
			t.Errorf("joined after %v", took)
		}
	})
}

// Two minutes are four times as long as memberlist remembers the dead.
func TestPitfall17LongPartitionHeals(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 9)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		var one, two []string
		for i, n := range c.nodes {
			if i < 8 {
				one = append(one, n.ip)
			} else {
				two = append(two, n.ip)
			}
		}
		c.net.Partition(one, two)
		c.leader().write(t, kv.Put("a", []byte("meanwhile")))
		<-time.After(2*time.Minute + 17*time.Second)
		if got := c.nodes[8].living(); got != 1 {
			t.Errorf("the lonely one sees %d living members", got)
		}
		c.net.Heal()
		took := c.wantMembers(t, 9, 35*time.Second)
		t.Logf("one cluster again after %v", took)
		c.wantSame(t, 2*time.Second)
	})
}

// Two halves, each of which is a cluster of its own for a while.
func TestPitfall17HalvesBecomeOneAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 8)
		c.leader().write(t, kv.Put("a", nil))
		c.wantSame(t, 10*time.Second)
		var one, two []string
		for i, n := range c.nodes {
			if i%2 == 0 {
				one = append(one, n.ip)
			} else {
				two = append(two, n.ip)
			}
		}
		c.net.Partition(one, two)
		c.leader().write(t, kv.Put("a", []byte("meanwhile")))
		<-time.After(2*time.Minute + 17*time.Second)
		c.net.Heal()
		t.Logf("one cluster again after %v", c.wantMembers(t, 8, 35*time.Second))
		c.wantSame(t, 2*time.Second)
	})
}

// Halves that are so large that a node remembers peers of its own half alone, and no
// seeds, as after a restart of every node.
func TestLargeHalvesBecomeOneAgain(t *testing.T) {
	withoutRace(t)
	inBubble(t, func(t *testing.T, c *cluster) {
		const n = 2 * (maxKnown + 2)
		c.start(t, n)
		var one, two []string
		for i, n := range c.nodes {
			n.peer.rejoins.mu.Lock()
			n.peer.rejoins.seeds = nil
			n.peer.rejoins.mu.Unlock()
			if i%2 == 0 {
				one = append(one, n.ip)
			} else {
				two = append(two, n.ip)
			}
		}
		c.net.Partition(one, two)
		<-time.After(2*time.Minute + 17*time.Second)
		c.net.Heal()
		t.Logf("one cluster again after %v", c.wantMembers(t, n, 35*time.Second))
	})
}

// Two clusters with one key, which know of each other and take over each other's
// addresses.
func TestPitfall19ClustersNeverMix(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		c.leader().write(t, kv.Put("of", []byte("one")))
		c.wantSame(t, 10*time.Second)
		other := newCluster("two", c.net)
		defer other.close()
		for i := range 3 {
			other.add(t).ip = fmt.Sprintf("10.0.7.%d", i+1)
		}
		for _, n := range other.nodes {
			n.start(t)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := other.leader().peer.Join(ctx, c.leader().address(), c.nodes[1].address()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("join of another cluster: got %v", err)
		}
		other.nodes[1].join(t, other.leader())
		other.nodes[2].join(t, other.leader())
		other.leader().write(t, kv.Put("of", []byte("two")))
		other.wantSame(t, 10*time.Second)

		// The second of the one dies, and one of the other cluster gets its address.
		c.nodes[1].stop()
		moved := other.nodes[1]
		moved.stop()
		moved.ip = c.nodes[1].ip
		moved.start(t)
		moved.join(t, other.leader())
		never(t, 2*time.Minute, "they mixed", func() bool {
			for _, n := range c.up() {
				for _, m := range n.peer.Members() {
					if strings.HasPrefix(string(m.ID), "two") {
						return true
					}
				}
			}
			return c.behind() != "" || other.behind() != "" || other.leader().living() != 3
		})
		for _, n := range append(c.up(), other.up()...) {
			if alarms := n.peer.Alarms(); len(alarms) != 0 {
				t.Errorf("%s: alarms %+v", n.id(), alarms)
			}
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		n := c.add(t)
		for want, change := range map[string]func(*Options){
			"node id":                func(o *Options) { o.Meta.ID = "UPPER" },
			"cluster id is empty":    func(o *Options) { o.Cluster = "" },
			"boot is empty":          func(o *Options) { o.Boot = "" },
			"advertised address":     func(o *Options) { o.Advertise = netip.MustParseAddrPort("0.0.0.0:1") },
			"gossip key has 5 bytes": func(o *Options) { o.Keys = [][]byte{[]byte("short")} },
			"3 gossip keys":          func(o *Options) { o.Keys = [][]byte{make([]byte, 32), make([]byte, 32), make([]byte, 32)} },
			"stream 1 is there twice": func(o *Options) {
				o.Streams = append(o.Streams, o.Streams[0])
			},
			"no connection for packets": func(o *Options) { o.Packets.Close(); o.Packets = nil },
			"no logger":                 func(o *Options) { o.Logger = nil },
		} {
			o := n.options(t)
			change(&o)
			if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			// What was given is closed: the next round could not listen else.
		}
	})
}

// A closed peer refuses, and closing twice does nothing.
func TestClosedPeer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 2)
		p := c.nodes[1].peer
		joining := make(chan error, 1)
		go func() { joining <- p.Join(context.Background(), "10.0.5.5:1") }()
		<-time.After(time.Second)
		p.Close()
		p.Close()
		if err := <-joining; !errors.Is(err, net.ErrClosed) {
			t.Errorf("join: got %v", err)
		}
		if err := p.Leave(time.Second); !errors.Is(err, net.ErrClosed) {
			t.Errorf("leave: got %v", err)
		}
		if err := p.SetMeta(exampleMeta()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("set meta: got %v", err)
		}
		p.ForceLeave("nobody")
	})
}

// memberlist alone leaves somebody out now and then, for half a minute or more.
func TestNobodyIsLeftOut(t *testing.T) {
	rounds := 15
	if os.Getenv("GRAPEVINE_LONG") != "" {
		rounds = 200
	}
	slowest := time.Duration(0)
	for seed := range rounds {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster("one", memnet.New(uint64(seed)))
			c.net.SetDelay(200*time.Microsecond, 2*time.Millisecond)
			c.net.SetLoss(0.2)
			defer c.close()
			for range 9 {
				c.add(t).start(t)
			}
			var joining sync.WaitGroup
			for _, n := range c.nodes[1:] {
				joining.Go(func() { n.join(t, c.leader()) })
			}
			joining.Wait()
			slowest = max(slowest, c.wantMembers(t, 9, 10*time.Second))
		})
	}
	t.Logf("all knew all after at most %v", slowest)
}
