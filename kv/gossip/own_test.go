package gossip

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"grapevine/kv"
	"grapevine/kv/memnet"
)

// owners are the nodes of a cluster as owners of ephemeral keys.
type owners struct {
	*cluster
	own map[*node]*kv.Own
}

func withOwners(c *cluster) *owners {
	o := &owners{c, map[*node]*kv.Own{}}
	c.change = func(n *node, options *Options) { options.Planes = []Plane{Own(n.store)} }
	return o
}

// begin is what a node does when it has started. Everybody is believed to live: here it
// is about what spreads, not about what is shown.
func (o *owners) begin(t tb, n *node) *kv.Own {
	t.Helper()
	own, err := n.store.Own(kv.OwnerID(n.id()))
	if err == nil {
		_, err = own.Begin(0)
	}
	if err != nil {
		t.Fatalf("%s: %v", n.id(), err)
	}
	for _, other := range o.nodes {
		n.store.SetOwner(kv.OwnerID(other.id()), kv.OwnerActive)
	}
	o.own[n] = own
	return own
}

func (o *owners) start(t tb, size int) {
	o.cluster.start(t, size)
	for _, n := range o.nodes {
		o.begin(t, n)
	}
}

func instanceKey(n *node, i int) kv.Key {
	return kv.Key(fmt.Sprintf("gateway/instances/route/%s-%d", n.id(), i))
}

func (o *owners) put(t tb, n *node, i int, value string) {
	t.Helper()
	if err := o.own[n].Put(instanceKey(n, i), []byte(value)); err != nil {
		t.Fatalf("%s: %v", n.id(), err)
	}
}

// everything is what a node shows of ephemeral keys.
func everything(n *node) string {
	var b strings.Builder
	for e := range n.store.View().Under("gateway/") {
		fmt.Fprintf(&b, "%s=%s %v %v\n", e.Key, e.Value, e.Own.Mark, e.Own.Draining)
	}
	return b.String()
}

// wantEqual waits until all that run show what the owners have.
func (o *owners) wantEqual(t tb, within time.Duration) time.Duration {
	t.Helper()
	return eventually(t, within, "equal ephemeral keys", func() bool {
		for _, n := range o.up() {
			if n.store.OwnerDigest() != o.up()[0].store.OwnerDigest() || everything(n) != everything(o.up()[0]) {
				return false
			}
			for _, owner := range o.up() {
				if got, want := status(n, owner), status(owner, owner); got.Mark != want.Mark || got.Keys != want.Keys {
					return false
				}
			}
		}
		return true
	})
}

func status(n, owner *node) kv.OwnerStatus {
	for _, s := range n.store.Owners() {
		if s.Owner == kv.OwnerID(owner.id()) {
			return s
		}
	}
	return kv.OwnerStatus{}
}

// What a node announces, drains and withdraws is seen everywhere after some hops.
func TestAnnouncementsSpread(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		o := withOwners(c)
		o.start(t, 9)
		<-time.After(10 * time.Second)
		o.wantEqual(t, 5*time.Second)
		slowest := time.Duration(0)
		for i, n := range o.nodes {
			o.put(t, n, i, "1")
			slowest = max(slowest, o.wantEqual(t, time.Second))
			if err := o.own[n].Drain(instanceKey(n, i)); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, o.wantEqual(t, time.Second))
			if err := o.own[n].Withdraw(instanceKey(n, i)); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, o.wantEqual(t, time.Second))
		}
		if slowest > 10*time.Millisecond {
			t.Errorf("an announcement took %v", slowest)
		}
		for i := range 3000 { // more than is kept to be pushed
			o.put(t, o.nodes[2], i, "many")
		}
		t.Logf("3,000 at once: %v", o.wantEqual(t, 5*time.Second))
	})
}

// ownAct does an act about ephemeral keys; false if it is about something else.
func (o *owners) ownAct(t tb, a act) bool {
	n := o.nodes[a.node%len(o.nodes)]
	own := o.own[n]
	var err error
	switch a.name {
	case "announce":
		err = own.Put(instanceKey(n, a.n), fmt.Append(nil, a.bits))
	case "announceMany":
		for i := range a.n * 10 {
			o.put(t, n, i, fmt.Sprint(a.bits))
		}
	case "drain":
		err = own.Drain(instanceKey(n, a.n))
	case "withdraw":
		err = own.Withdraw(instanceKey(n, a.n))
	case "withdrawAll":
		err = own.WithdrawAll()
	case "hold":
		err = own.Hold()
	case "rehome": // another node's key, so that two own it
		err = own.Put(instanceKey(o.nodes[int(a.bits%uint64(len(o.nodes)))], a.n), []byte("two"))
	case "restart":
		for _, n := range o.nodes {
			if n.peer == nil {
				n.start(t)
				o.begin(t, n)
				break
			}
		}
	default:
		return false
	}
	if err != nil {
		t.Fatalf("%s of %s: %v", a.name, n.id(), err)
	}
	return true
}

var someOwnAct = rapid.Custom(func(t *rapid.T) act {
	return act{
		name: rapid.SampledFrom([]string{
			"announce", "announce", "announce", "announceMany", "drain", "withdraw", "withdrawAll", "hold", "rehome", "write",
			"crash", "powerOff", "restart", "restart", "partition", "block", "heal", "weather", "wait", "wait",
		}).Draw(t, "name"),
		node: rapid.IntRange(0, 63).Draw(t, "node"),
		n:    rapid.IntRange(0, 20).Draw(t, "n"),
		bits: rapid.Uint64().Draw(t, "bits"),
	}
})

func runOwnActs(t *testing.T, size int, seed uint64, run []act) (problem string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("one", memnet.New(seed))
		c.net.SetDelay(200*time.Microsecond, 2*time.Millisecond)
		defer c.close()
		defer func() {
			if failed, ok := recover().(failure); ok {
				problem = string(failed)
			}
		}()
		r, o := recorder{}, withOwners(c)
		o.start(r, size)
		for _, a := range run {
			if !o.ownAct(r, a) {
				c.do(r, a)
			}
		}
		var down []*node
		for _, n := range c.nodes {
			if n.peer == nil {
				down = append(down, n)
			}
		}
		c.settle(r)
		for _, n := range down {
			o.begin(r, n)
		}
		o.wantEqual(r, 5*time.Second)
		o.put(r, c.nodes[0], 99, "last")
		o.wantEqual(r, 2*time.Second)
	})
	return problem
}

// Whatever happened, when it is over all nodes show what the owners have.
func TestWhateverHappensOwnersConverge(t *testing.T) {
	checks, most, acts := 12, 7, 16
	if os.Getenv("GRAPEVINE_LONG") != "" {
		checks, most, acts = 150, 25, 40
	}
	r := rand.New(rand.NewPCG(3, 1))
	for i := range checks {
		run := rapid.SliceOfN(someOwnAct, 1, acts).Example(int(r.Uint32() >> 1))
		size, seed := 2+r.IntN(most-1), r.Uint64()
		if problem := runOwnActs(t, size, seed, run); problem != "" {
			t.Fatalf("run %d, %d nodes, network %d: %s\n%v", i, size, seed, problem, run)
		}
	}
}

// The same with the number of nodes that the design names.
func TestTwentyFiveOwnersConverge(t *testing.T) {
	withoutRace(t)
	var run []act
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{
		"announceMany", "weather", "crash", "announce", "rehome", "partition", "announceMany", "withdraw", "wait", "powerOff", "withdrawAll",
		"write", "heal", "restart", "block", "drain", "announce", "restart", "wait", "hold",
	}
	for _, name := range names {
		run = append(run, act{name: name, node: r.IntN(64), n: r.IntN(20), bits: r.Uint64()})
	}
	if problem := runOwnActs(t, 25, 7, run); problem != "" {
		t.Fatal(problem)
	}
}

// Pitfall 13 of the design: what is withdrawn while
// others can't hear it, for however long, stays withdrawn.
func TestPitfall13DeletedWhilePartitionedStaysDeleted(t *testing.T) {
	withoutRace(t)
	inBubble(t, func(t *testing.T, c *cluster) {
		o := withOwners(c)
		o.start(t, 5)
		owner := c.nodes[4]
		for i := range 20 {
			o.put(t, owner, i, "1")
		}
		o.wantEqual(t, 5*time.Second)
		c.net.Partition([]string{c.nodes[0].ip, c.nodes[1].ip, c.nodes[2].ip}, []string{c.nodes[3].ip, owner.ip})
		for i := range 19 {
			if err := o.own[owner].Withdraw(instanceKey(owner, i)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Hour)
		c.net.Heal()
		c.wantMembers(t, 5, time.Minute)
		o.wantEqual(t, 5*time.Second)
		for _, n := range c.nodes {
			if got := status(n, owner).Keys; got != 1 {
				t.Errorf("%s has %d keys of the owner", n.id(), got)
			}
		}
	})
}

// Bug case O28: twenty nodes that all restart within three seconds, at random, all see
// each other alive again, and what each has announced since, round after round.
func TestO28MassRestart(t *testing.T) {
	size, rounds := 10, 2
	if os.Getenv("GRAPEVINE_LONG") != "" {
		size, rounds = 20, 20
	}
	inBubble(t, func(t *testing.T, c *cluster) {
		o := withOwners(c)
		o.start(t, size)
		r := rand.New(rand.NewPCG(28, 1))
		for round := range rounds {
			for _, i := range r.Perm(size) {
				n := c.nodes[i]
				<-time.After(time.Duration(r.IntN(int(3*time.Second) / size)))
				n.stop()
				n.start(t)
				o.begin(t, n)
				o.put(t, n, 1, fmt.Sprint(round))
			}
			c.wantMembers(t, size, 30*time.Second)
			o.wantEqual(t, 5*time.Second)
			for _, n := range c.nodes {
				if entry, _ := c.nodes[0].store.View().Get(instanceKey(n, 1)); string(entry.Value) != fmt.Sprint(round) {
					t.Fatalf("round %d: of %s there is %q", round, n.id(), entry.Value)
				}
			}
		}
	})
}
