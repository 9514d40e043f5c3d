package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"grapevine/kv"
)

// joinAll has all nodes join by the first at the same time, and tells how long it takes until
// each knows all others.
func (c *cluster) joinAll(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	var joining sync.WaitGroup
	for _, n := range c.nodes[1:] {
		joining.Go(func() {
			if err := n.peer.Join(context.Background(), c.leader().address()); err != nil {
				t.Errorf("%s: %v", n.id(), err)
			}
		})
	}
	joining.Wait()
	c.wantMembers(t, len(c.nodes), time.Minute)
	return time.Since(began)
}

// disturb plays faults that end before anybody is given up, each with changes meanwhile, and wants all
// equal soon after each.
func (s scene) disturb(t *testing.T, o *owners, living []*node) {
	c, r := o.cluster, rand.New(rand.NewPCG(s.seed, 7))
	for _, n := range c.nodes {
		c.net.Host(n.ip).SetLoss(0)
		if !slices.Contains(living, n) {
			n.stop()
		}
	}
	o.raise(t)
	c.wantMembers(t, s.size, time.Minute)
	for _, fault := range []struct {
		name       string
		begin, end func()
	}{
		{"the loss of a fifth of all packets", func() { c.net.SetLoss(lossyShare) }, func() { c.net.SetLoss(0) }},
		{"3 s in two halves", func() { c.halve(r) }, c.net.Heal},
		{"the restart of one in twenty", func() { c.stopSome(r, s.size/20) }, func() { o.raise(t) }},
	} {
		fault.begin()
		for i := range 6 {
			o.alter(t, r, fmt.Sprint(fault.name, i))
			<-time.After(500 * time.Millisecond)
		}
		fault.end()
		took := o.wantDigests(t, equalWithin)
		t.Logf("%d nodes, links of %v, after %s: equal within %v", s.size, s.link, fault.name, took)
		o.alter(t, r, "after "+fault.name)
		o.wantDigests(t, equalWithin)
		c.wantMembers(t, s.size, time.Minute)
	}
	// A minute is longer than it takes to give each other up. The halves look for each other again.
	c.halve(r)
	o.alter(t, r, "apart")
	<-time.After(time.Minute)
	o.alter(t, r, "apart for long")
	if living := c.leader().living(); living > s.size/2+1 {
		t.Errorf("a minute apart, and still %d are taken for alive", living)
	}
	c.net.Heal()
	found := c.wantMembers(t, s.size, 45*time.Second)
	t.Logf("%d nodes, links of %v, after a minute in two halves: all know each other after %v, and are equal %v later", s.size, s.link, found, o.wantDigests(t, equalWithin))
}

// alter lets the leader and some others change something.
func (o *owners) alter(t *testing.T, r *rand.Rand, what string) {
	o.leader().write(t, kv.Put("gateway/routes/shop", []byte(what)))
	for range 10 {
		if n := o.nodes[r.IntN(len(o.nodes))]; n.peer != nil && o.own[n] != nil {
			o.put(t, n, 1, what)
		}
	}
}

// halve cuts the network into two halves.
func (c *cluster) halve(r *rand.Rand) {
	var sides [2][]string
	for i, at := range r.Perm(len(c.nodes)) {
		sides[i%2] = append(sides[i%2], c.nodes[at].ip)
	}
	c.net.Partition(sides[0], sides[1])
}

// stopSome stops that many nodes, never the leader.
func (c *cluster) stopSome(r *rand.Rand, many int) {
	for _, at := range r.Perm(len(c.nodes) - 1)[:max(many, 1)] {
		c.nodes[at+1].stop()
	}
}

// raise starts who is down, and gives all who have none an incarnation.
func (o *owners) raise(t *testing.T) {
	t.Helper()
	for _, n := range o.nodes {
		down := n.peer == nil
		if down {
			n.start(t)
			n.join(t, o.leader())
		}
		if down || o.own[n] == nil {
			o.begin(t, n)
		}
	}
}

// wantDigests waits until all nodes that run have what the leader has, of both kinds of keys.
func (o *owners) wantDigests(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	o.wantSame(t, within)
	eventually(t, within-time.Since(began), "equal ephemeral keys", func() bool {
		return !slices.ContainsFunc(o.up(), func(n *node) bool { return n.store.OwnerDigest() != o.leader().store.OwnerDigest() })
	})
	return time.Since(began)
}

// TestRealMembership is TestPitfall22AThousandNodes with memberlist itself, encrypted, in the place of its double, at
// as many nodes as that costs little for: a hundred with GRAPEVINE_LONG, or GRAPEVINE_REAL of them. Its
// promises are the same, and faults come after it.
func TestRealMembership(t *testing.T) {
	withoutRace(t)
	size := 20
	if long() {
		size = 100
	}
	if n, err := strconv.Atoi(os.Getenv("GRAPEVINE_REAL")); err == nil {
		size = n
	}
	for _, tt := range scaleGoals {
		t.Run(tt.name, func(t *testing.T) {
			s := scene{size: size, seed: 1, link: tt.link, dead: 0.01, lossy: 0.01, changes: 5, broadcast: true, real: true}
			out := s.play(t)
			t.Logf("%d nodes that join at once know each other after %v", size, out.joined)
			if p99 := table(t, fmt.Sprintf("%d nodes, real membership, %s", size, tt.name), []outcome{out}); p99 > tt.goal {
				t.Errorf("p99 %v, goal %v", p99, tt.goal)
			}
		})
	}
}

// TestIdleCost measures what nodes send when nothing happens, memberlist included: its probes, and
// its exchanges of all members, which grow with their number.
func TestIdleCost(t *testing.T) {
	withoutRace(t)
	size := 20
	if long() {
		size = 100
	}
	if n, err := strconv.Atoi(os.Getenv("GRAPEVINE_REAL")); err == nil {
		size = n
	}
	inBubble(t, func(t *testing.T, c *cluster) {
		c.log = slog.New(slog.DiscardHandler)
		o := withOwners(c)
		for range size {
			c.add(t).start(t)
		}
		c.joinAll(t)
		o.raise(t)
		c.leader().write(t, kv.Put("a", nil))
		o.wantDigests(t, time.Minute)
		<-time.After(2 * time.Minute)
		const during = 5 * time.Minute
		before := sentBy(c.nodes)
		<-time.After(during)
		after := sentBy(c.nodes)
		each := float64(size) * during.Seconds()
		perSecond := float64(after.Bytes-before.Bytes) / each
		t.Logf("%d nodes: an idle one sends %.0f bytes and %.1f messages a second", size, perSecond,
			float64(after.Packets+after.Writes-before.Packets-before.Writes)/each)
		if perSecond > 1024 {
			t.Errorf("%.0f bytes a second, want at most 1024", perSecond)
		}
	})
}
