package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/kv/consensus"
)

// A change is made by the leader, on the configuration that it was meant for, and
// only if it makes sense.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 31, 1)
		defer c.stop()
		c.begin()
		leader := c.nodes[0]
		leader.mustPut("a", "1")
		second := c.add()
		second.start()
		if second.raft.InRaft() || second.raft.Role() != consensus.RoleNone {
			t.Errorf("before it is added its role is %s", second.raft.Role())
		}
		add := consensus.Change{Kind: consensus.AddLearner, Server: second.server, Address: second.asServer(false).Address}
		if err := second.raft.Change(t.Context(), add, 0); !errors.As(err, new(*consensus.NotLeaderError)) {
			t.Errorf("by one that does not lead: %v", err)
		}
		_, first := leader.raft.Configuration()
		change := func(kind consensus.ChangeKind, server string, previous uint64) error {
			step := add
			step.Kind, step.Server = kind, server
			return leader.raft.Change(t.Context(), step, previous)
		}
		if err := change(consensus.AddLearner, second.server, first); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"twice":                     change(consensus.AddLearner, second.server, 0),
			"on an old configuration":   change(consensus.Promote, second.server, first),
			"demoting a learner":        change(consensus.Demote, second.server, 0),
			"promoting a voter":         change(consensus.Promote, leader.server, 0),
			"promoting one of no place": change(consensus.Promote, "n9", 0),
		} {
			if err == nil {
				t.Errorf("%s: it was done", name)
			}
		}
		c.agree()
		if second.raft.Role() != consensus.RoleLearner {
			t.Errorf("its role is %s", second.raft.Role())
		}
		for _, kind := range []consensus.ChangeKind{consensus.Promote, consensus.Demote, consensus.Promote, consensus.Remove} {
			_, index := leader.raft.Configuration()
			if err := change(kind, second.server, index); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		leader.mustPut("b", "2")
		if peers := leader.raft.Peers(); len(peers) != 1 || !peers[0].Leader || peers[0].Role != consensus.RoleVoter {
			t.Errorf("peers %+v", peers)
		}
	})
}

// watched is what members of a cluster have heard of each other.
type watched struct {
	mu    sync.Mutex // guards all
	all   []consensus.Member
	since map[string]time.Time
}

// hear notes that a node is up, or is not any more.
func (w *watched) hear(n *node, up bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since[n.name] = time.Now()
	at := slices.IndexFunc(w.all, func(m consensus.Member) bool { return m.Node == n.name })
	if at < 0 {
		at = len(w.all)
		w.all = append(w.all, consensus.Member{Node: n.name, Server: n.server, Address: n.asServer(true).Address, Votes: true})
	}
	w.all[at].Alive = up
}

func (w *watched) members() []consensus.Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.all)
	for n := range all {
		all[n].Since = time.Since(w.since[all[n].Node])
	}
	return all
}

// reconcile runs the reconciler of a node until the function it returns is called.
func (n *node) reconcile(w *watched) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	raft := n.raft
	go func() {
		defer close(ended)
		raft.Reconcile(ctx, w.members)
	}()
	return func() { cancel(); <-ended }
}

// roles gives the number of voters and learners as a node sees them.
func (n *node) roles() (voters, learners int) {
	for _, peer := range n.raft.Peers() {
		if peer.Role == consensus.RoleVoter {
			voters++
			continue
		}
		learners++
	}
	return voters, learners
}

// A cluster grows from one to seven nodes, loses some, and has the voters that it
// should have at each step, without an operator.
func TestReconcilerLeadsTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 32, 1)
		defer c.stop()
		c.begin()
		w := &watched{since: map[string]time.Time{}}
		var stops []func()
		stopped := map[*node]func(){}
		follow := func(n *node) {
			w.hear(n, true)
			stop := sync.OnceFunc(n.reconcile(w))
			stops, stopped[n] = append(stops, stop), stop
		}
		defer func() {
			for _, stop := range stops {
				stop()
			}
		}()
		follow(c.nodes[0])
		check := func(size, voters, learners int) {
			t.Helper()
			c.eventually(fmt.Sprintf("%d nodes: %d voters, %d learners", size, voters, learners), func() bool {
				v, l := c.leader().roles()
				return v == voters && l == learners
			})
			c.leader().mustPut("size", fmt.Sprint(size))
			c.agreeIn()
		}
		check(1, 1, 0)
		for size, want := range [][2]int{{1, 1}, {3, 0}, {3, 1}, {3, 2}, {3, 2}, {5, 2}} {
			n := c.add()
			n.start()
			follow(n)
			began := time.Now()
			check(size+2, want[0], want[1])
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%d nodes: it took %v", size+2, took)
			}
		}
		kill := func(n *node) {
			stopped[n]()
			n.kill()
			w.hear(n, false)
		}
		isVoter := func(n *node) bool {
			return slices.ContainsFunc(c.leader().raft.Peers(), func(p consensus.Peer) bool {
				return p.Node == n.name && p.Role == consensus.RoleVoter
			})
		}
		// Two voters of five die at once. Nobody is removed for 50 s; then both are
		// replaced by those that stand by, and only when all is well again one goes.
		var dead []*node
		for _, n := range c.others(c.leader()) {
			if len(dead) < 2 && isVoter(n) {
				dead = append(dead, n)
			}
		}
		for _, n := range dead {
			kill(n)
		}
		for range 50 {
			<-time.After(time.Second)
			if v, _ := c.leader().roles(); v != 5 {
				t.Fatalf("%d voters while two are dead", v)
			}
		}
		<-time.After(20 * time.Second)
		c.eventually("both are replaced", func() bool { v, l := c.leader().roles(); return v == 7 && l == 0 })
		<-time.After(time.Minute)
		if v, _ := c.leader().roles(); v != 7 {
			t.Errorf("%d voters: one was removed while two are dead", v)
		}
		dead[0].start()
		follow(dead[0])
		c.eventually("the dead one is gone, and the surplus", func() bool { v, l := c.leader().roles(); return v == 5 && l == 1 })
		c.agreeIn()
	})
}

// agreeIn waits until the stores of all nodes that are up and in raft are at one
// head.
func (c *cluster) agreeIn() {
	c.t.Helper()
	want := c.leader().store.View().Head().Hash
	c.eventually("one head", func() bool {
		for _, n := range c.nodes {
			if n.raft != nil && n.raft.InRaft() && n.store.View().Head().Hash != want {
				return false
			}
		}
		return true
	})
}

// While a write is under way the leader does not say that it has all: a follower may
// have applied it already, which is no reason for an alarm.
func TestHasAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 33, 3)
		defer c.stop()
		signed := false
		c.change = func(n *node, o *consensus.Options) {
			o.Sign = func([]byte) [64]byte {
				signed = true
				if n.raft.HasAll() {
					t.Errorf("%s says that it has all, and makes a write", n.name)
				}
				return [64]byte{1}
			}
		}
		c.begin()
		leader := c.leader()
		leader.mustPut("a", "1")
		synctest.Wait()
		if !signed || !leader.raft.HasAll() {
			t.Error("after the write the leader does not say that it has all")
		}
		for _, n := range c.nodes {
			if n != leader && n.raft.HasAll() {
				t.Errorf("%s does not lead, and says that it has all", n.name)
			}
		}
	})
}
