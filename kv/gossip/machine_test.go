package gossip

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"grapevine/kv"
	"grapevine/kv/memnet"
)

// act is one step of a run. Runs are drawn whole before they begin: then they can be
// made smaller, and a bubble holds nothing of rapid.
type act struct {
	name string
	node int
	n    int
	bits uint64 // who is on which side of a partition
}

func (a act) String() string { return fmt.Sprintf("%s(%d, %d, %x)", a.name, a.node, a.n, a.bits) }

var someAct = rapid.Custom(func(t *rapid.T) act {
	return act{
		name: rapid.SampledFrom([]string{
			"write", "write", "write", "writeMany", "crash", "powerOff", "restart", "restart", "leave", "partition", "block", "heal", "weather", "wait", "wait", "lead",
		}).Draw(t, "name"),
		node: rapid.IntRange(0, 63).Draw(t, "node"),
		n:    rapid.IntRange(0, 20).Draw(t, "n"),
		bits: rapid.Uint64().Draw(t, "bits"),
	}
})

// Whatever happened, when it is over all nodes are one cluster with one state, and
// nobody raised an alarm.
func TestWhateverHappensAllConverge(t *testing.T) {
	checks, most, acts := "12", 7, 12
	if long() {
		checks, most, acts = "150", 25, 30
	}
	before := flag.Lookup("rapid.checks").Value.String()
	flag.Set("rapid.checks", checks)
	defer flag.Set("rapid.checks", before)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(2, most).Draw(rt, "nodes")
		seed := rapid.Uint64().Draw(rt, "seed")
		run := rapid.SliceOfN(someAct, 1, acts).Draw(rt, "run")
		if problem := runActs(t, size, seed, run); problem != "" {
			rt.Fatalf("%s", problem)
		}
	})
}

// The whole of it once, with the number of nodes that the design names.
func TestTwentyFiveNodesConverge(t *testing.T) {
	withoutRace(t)
	var run []act
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"write", "weather", "crash", "write", "partition", "writeMany", "wait", "powerOff", "lead", "write", "heal", "restart", "block", "write", "restart", "wait"}
	for _, name := range names {
		run = append(run, act{name: name, node: r.IntN(64), n: r.IntN(20), bits: r.Uint64()})
	}
	if problem := runActs(t, 25, 7, run); problem != "" {
		t.Fatal(problem)
	}
}

// recorder keeps the first failure of a run.
type recorder struct{}

type failure string

func (recorder) Helper()             {}
func (recorder) Logf(string, ...any) {}
func (r recorder) Fatalf(format string, args ...any) {
	panic(failure(fmt.Sprintf(format, args...)))
}

func runActs(t *testing.T, size int, seed uint64, run []act) (problem string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("one", memnet.New(seed))
		c.net.SetDelay(200*time.Microsecond, 2*time.Millisecond)
		defer c.close()
		defer func() {
			if failed, ok := recover().(failure); ok {
				problem = string(failed)
			}
		}()
		r := recorder{}
		c.start(r, size)
		for _, a := range run {
			c.do(r, a)
		}
		c.settle(r)
	})
	return problem
}

// do performs an act as far as it makes sense now.
func (c *cluster) do(t tb, a act) {
	n := c.nodes[a.node%len(c.nodes)]
	switch a.name {
	case "write":
		c.leader().write(t, kv.Put(kv.Key(fmt.Sprintf("k%d", a.n)), fmt.Append(nil, a.bits)))
	case "writeMany":
		for i := range a.n * 40 { // up to more than is remembered
			c.leader().write(t, kv.Put(kv.Key(fmt.Sprintf("many%d", i%100)), fmt.Append(nil, a.bits, i)))
		}
	case "crash":
		n.stop()
	case "powerOff":
		c.net.Host(n.ip).PowerOff()
		n.stop()
	case "restart":
		for _, n := range c.nodes {
			if n.peer == nil {
				n.start(t)
				break
			}
		}
	case "leave":
		if n.peer != nil {
			n.peer.Leave(time.Second)
			n.stop()
		}
	case "partition":
		var sides [2][]string
		for i, n := range c.nodes {
			side := a.bits >> (i % 64) & 1
			sides[side] = append(sides[side], n.ip)
		}
		c.net.Partition(sides[0], sides[1])
	case "block":
		c.net.Block(n.ip, c.nodes[int(a.bits%uint64(len(c.nodes)))].ip)
	case "heal":
		c.net.Heal()
	case "weather":
		c.net.SetLoss(float64(a.n%4) / 10)
		c.net.SetDuplicate(float64(a.bits%4) / 10)
		c.net.SetDelay(time.Duration(a.n)*100*time.Microsecond, time.Duration(a.n)*5*time.Millisecond)
	case "wait":
		<-time.After(time.Duration(a.n*a.n) * 200 * time.Millisecond)
	case "lead":
		c.lead(t, n)
	}
}

// lead moves the leadership to a node that has everything, as Raft would.
func (c *cluster) lead(t tb, next *node) {
	if next.peer == nil || next.store.View().Head() != c.leader().store.View().Head() {
		return
	}
	before := c.leader()
	before.leads.Store(false)
	before.becomes(t, Edge)
	next.leads.Store(true)
	next.becomes(t, Voter)
	c.leads.Store(next)
}

// becomes changes the role of a node, now and at its next start.
func (n *node) becomes(t tb, role Role) {
	n.role = role
	if n.peer == nil {
		return
	}
	if err := n.peer.SetMeta(Meta{Name: "name", Role: role}); err != nil {
		t.Fatalf("%v", err)
	}
}

// settle ends all faults and waits until nothing is left of them.
func (c *cluster) settle(t tb) {
	c.net.Heal()
	c.net.SetLoss(0)
	c.net.SetDuplicate(0)
	c.net.SetDelay(200*time.Microsecond, 2*time.Millisecond)
	for _, n := range c.nodes {
		if n.peer == nil {
			n.start(t)
			if err := n.peer.contact([]string{c.nodes[0].address(), c.nodes[len(c.nodes)-1].address()}); err != nil {
				t.Logf("%v", err)
			}
		}
	}
	c.wantMembers(t, len(c.nodes), 45*time.Second)
	c.wantSame(t, 5*time.Second)
	c.leader().write(t, kv.Put("last", nil))
	c.wantSame(t, 2*time.Second)
	var alarms []string
	for _, n := range c.nodes {
		for _, a := range n.peer.Alarms() {
			alarms = append(alarms, fmt.Sprintf("%s: %s from %s", n.id(), a.Kind, a.Node))
		}
	}
	if len(alarms) > 0 {
		t.Fatalf("alarms: %s", strings.Join(alarms, "; "))
	}
}

// withoutRace skips what takes minutes with the race detector; make test and make long
// try it without.
func withoutRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("too long for the race detector")
	}
}
