package agenttest_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/agent/identity"
	"grapevine/kv"
	"grapevine/kv/memnet"
)

func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// Two clusters on one network never mix, not even when one gets addresses that the
// other had.
func TestTwoClustersNeverMix(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(1)
		network.SetDelay(200*time.Microsecond, 2*time.Millisecond)
		one := agenttest.Simulate(t, network, 3)
		two := agenttest.NewSimulation(t, network, "10.0.1")
		two.Grow(2, "voter")
		one.Nodes[0].MustSet("app/who", `"one"`)
		two.Nodes[0].MustSet("app/who", `"two"`)
		two.AwaitEqual(2 * time.Second)

		// The third node of the first cluster goes, and one of the second has its address.
		one.AwaitEqual(2 * time.Second)
		one.Nodes[2].Crash()
		heir := two.Add().Joins(two.Nodes[0].Token("voter"))
		heir.IP = one.Nodes[2].IP
		heir.Start()
		// Somebody points it at the other cluster, besides.
		heir.Await("to be in its cluster", 10*time.Second, func() bool { return heir.Alive() == 3 })
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		if err := heir.Cluster.Join(ctx, []string{one.Nodes[0].IP + ":7946"}); err == nil {
			t.Error("a node of another cluster answers as one of ours")
		}
		<-time.After(2 * time.Minute)
		for who, s := range map[string]*agenttest.Simulation{`"one"`: one, `"two"`: two} {
			for _, n := range s.Nodes {
				if !n.Up() {
					continue
				}
				if got := n.Get("app/who"); got != who {
					t.Errorf("%s %s: app/who is %s", who, n.Name, got)
				}
				for _, m := range n.Cluster.Members() {
					if !isOf(s, m.ID) {
						t.Errorf("%s %s knows %s at %s", who, n.Name, m.ID, m.Address)
					}
				}
				if alarms := n.Cluster.Standing().Alarms; len(alarms) > 0 {
					t.Errorf("%s %s: %q", who, n.Name, alarms)
				}
			}
		}
	})
}

func isOf(s *agenttest.Simulation, id string) bool {
	for _, n := range s.Nodes {
		if n.ID == id {
			return true
		}
	}
	return false
}

// Who is revoked gets nothing any more, and does not come back.
func TestRevokedNodeIsShutOut(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		out := s.Nodes[3]
		s.Nodes[0].MustSet("app/a", "1")
		s.AwaitEqual(2 * time.Second)
		ctx, cancel := within(10 * time.Second)
		defer cancel()
		if err := s.Nodes[1].Cluster.ForceLeave(ctx, out.Name, true); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		s.Nodes[0].MustSet("app/secret", "2")
		<-time.After(time.Minute)
		if got := out.Get("app/secret"); got != "" {
			t.Errorf("it has what was written later: %s", got)
		}
		if _, err := out.Set("app/a", "3", 10*time.Second); err == nil {
			t.Error("it still writes")
		}
		for _, n := range s.Nodes[:3] {
			if alive := n.Alive(); alive != 3 {
				t.Errorf("%s sees %d alive", n.Name, alive)
			}
		}
		out.Crash()
		out.Start()
		<-time.After(time.Minute)
		if got := out.Get("app/secret"); got != "" {
			t.Errorf("after a restart it has what was written later: %s", got)
		}
		if alive := s.Nodes[0].Alive(); alive != 3 {
			t.Errorf("after its restart %s sees %d alive", s.Nodes[0].Name, alive)
		}
	})
}

// Nodes leave, among them the leader; each goes from the list of members and from raft.
func TestLeave(t *testing.T) {
	simulate(t, 4, 1, func(t *testing.T, s *agenttest.Simulation) {
		for _, n := range []*agenttest.Simulated{s.AwaitLeader(10 * time.Second), edgeOf(s)} {
			ctx, cancel := within(10 * time.Second)
			if err := n.Cluster.Leave(ctx); err != nil {
				t.Fatalf("%s: %v", n.Name, err)
			}
			cancel()
			<-n.Left()
			n.Stop()
			s.AwaitAll("it is gone", 10*time.Second, func(other *agenttest.Simulated) bool {
				return status(other, n) == api.StatusLeft || status(other, n) == ""
			})
			s.AwaitAll("it votes no more", 10*time.Second, func(other *agenttest.Simulated) bool { return !isPeer(other, n) })
		}
		s.AwaitLeader(10*time.Second).MustSet("app/a", "1")
		s.AwaitEqual(2 * time.Second)

		// Who left stays away until it is told to return.
		left := s.Nodes[0]
		for _, n := range s.Nodes {
			if !n.Up() {
				left = n
			}
		}
		left.Joins(identity.Token{}).Change = func(o *cluster.Options) { o.Join = nil }
		left.Start()
		<-time.After(time.Minute)
		if _, err := left.Set("app/a", "2", time.Second); err == nil || !strings.Contains(err.Error(), "has left") {
			t.Errorf("it writes: %v", err)
		}
	})
}

func edgeOf(s *agenttest.Simulation) *agenttest.Simulated {
	for _, n := range s.Nodes {
		if n.Up() && n.Role() != "voter" {
			return n
		}
	}
	return nil
}

func status(by, of *agenttest.Simulated) string {
	for _, m := range by.Cluster.Members() {
		if m.ID == of.ID {
			return m.Status
		}
	}
	return ""
}

func isPeer(by, of *agenttest.Simulated) bool {
	ctx, cancel := within(time.Second)
	defer cancel()
	peers, err := by.Cluster.Peers(ctx)
	for _, p := range peers {
		if p.ID == of.ID {
			return true
		}
	}
	return err != nil
}

// A dead node is taken out by the others, a living one is not.
func TestForceLeave(t *testing.T) {
	simulate(t, 4, 0, func(t *testing.T, s *agenttest.Simulation) {
		dead := s.Nodes[0]
		ctx, cancel := within(5 * time.Minute)
		defer cancel()
		var refused *api.RefusedError
		if err := s.Nodes[1].Cluster.ForceLeave(ctx, dead.Name, false); !errors.As(err, &refused) {
			t.Errorf("a living node: %v", err)
		}
		dead.Crash()
		by := s.Nodes[1]
		by.Await("it is dead", time.Minute, func() bool { return status(by, dead) == api.StatusDead })
		if err := by.Cluster.ForceLeave(ctx, dead.Name, false); err != nil {
			t.Fatal(err)
		}
		s.AwaitAll("it is gone", 10*time.Second, func(n *agenttest.Simulated) bool {
			return status(n, dead) != api.StatusDead && !isPeer(n, dead)
		})
		var missing *api.NotFoundError
		if err := by.Cluster.ForceLeave(ctx, "nobody", false); !errors.As(err, &missing) {
			t.Errorf("a node that is not there: %v", err)
		}
	})
}

// A node that has a cluster of its own, and keys, joins another only if it is told
// to give them up.
func TestAdopt(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(1)
		one := agenttest.Simulate(t, network, 2)
		one.Nodes[0].MustSet("app/who", `"one"`)
		other := agenttest.NewSimulation(t, network, "10.0.1")
		other.Grow(1, "voter")
		n := other.Nodes[0]
		n.MustSet("app/who", `"other"`)
		n.MustSet("app/mine", "1")
		n.Stop()
		n.Joins(one.Nodes[0].Token("voter"))
		if err := n.TryStart(); err == nil || !strings.Contains(err.Error(), "--adopt") {
			t.Fatalf("without --adopt: %v", err)
		}
		n.Change = func(o *cluster.Options) { o.Adopt = true }
		n.Start()
		bare := make(chan bool, 1)
		go func(store *kv.Store) { // what it serves at every moment
			for {
				changed := store.Changed()
				who, _ := store.View().Get("app/who")
				if string(who.Value) != `"other"` {
					bare <- len(who.Value) == 0
					return
				}
				<-changed
			}
		}(n.Store)
		n.Await("the other cluster's keys", 10*time.Second, func() bool { return n.Get("app/who") == `"one"` })
		if <-bare {
			t.Error("for a moment it served nothing")
		}
		if got := n.Get("app/mine"); got != "" {
			t.Errorf("it still has its own key: %s", got)
		}
		for _, member := range one.Nodes {
			member.Await("the newcomer", 10*time.Second, func() bool { return member.Alive() == 3 })
		}
		one.AwaitVoters(3) // it has become one of them
		n.MustSet("app/who", `"all"`)
		one.Nodes[1].Await("the change", 5*time.Second, func() bool { return one.Nodes[1].Get("app/who") == `"all"` })
		// The same flags do no harm at the next start.
		n.Stop()
		n.Start()
		n.MustSet("app/again", "1")
		one.Nodes[0].Await("the change", 5*time.Second, func() bool { return one.Nodes[0].Get("app/again") == "1" })
	})
}

// A crash after it has become a member of the other cluster, and before it has that
// one's state, leaves a node that serves its own and goes on where it was.
func TestAdoptionOutlivesACrash(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(1)
		one := agenttest.Simulate(t, network, 2)
		one.Nodes[0].MustSet("app/who", `"one"`)
		other := agenttest.NewSimulation(t, network, "10.0.1")
		other.Grow(1, "voter")
		n := other.Nodes[0]
		n.MustSet("app/who", `"other"`)
		n.Stop()
		dials := 0
		n.Joins(one.Nodes[0].Token("edge")).Change = func(o *cluster.Options) {
			dial := o.Port.Dial
			o.Adopt, o.Port.Dial = true, func(ctx context.Context, address string) (net.Conn, error) {
				if dials++; dials > 1 {
					return nil, errors.New("cut off")
				}
				return dial(ctx, address)
			}
		}
		n.Start()
		n.Await("to be let in", 10*time.Second, func() bool {
			_, err := n.Set("app/who", `"x"`, time.Millisecond)
			return err != nil && strings.Contains(err.Error(), "in place of its own")
		})
		<-time.After(time.Minute)
		if got := n.Get("app/who"); got != `"other"` {
			t.Errorf("before it has the state it serves %s", got)
		}
		n.Crash()
		n.Change = func(o *cluster.Options) { o.Join = nil }
		n.Start()
		n.Await("the other cluster's keys", 30*time.Second, func() bool { return n.Get("app/who") == `"one"` })
		n.MustSet("app/who", `"all"`)
		one.Nodes[1].Await("the change", 5*time.Second, func() bool { return one.Nodes[1].Get("app/who") == `"all"` })
		if alarms := one.Nodes[0].Cluster.Standing().Alarms; len(alarms) > 0 {
			t.Errorf("alarms %q", alarms)
		}
	})
}

// A token for edges makes no voter, whatever the node asks for.
func TestEdgeTokenMakesNoVoter(t *testing.T) {
	simulate(t, 3, 0, func(t *testing.T, s *agenttest.Simulation) {
		edge := s.Add().Joins(s.Nodes[0].Token("edge")).Start()
		edge.Await("to be in", 10*time.Second, func() bool { return edge.Alive() == 4 })
		if edge.Role() != "edge" {
			t.Errorf("it is a %s", edge.Role())
		}
		ctx, cancel := within(30 * time.Second)
		defer cancel()
		var refused *api.RefusedError
		if err := s.Nodes[0].Cluster.Promote(ctx, edge.ID); !errors.As(err, &refused) {
			t.Errorf("it gets a vote: %v", err)
		}
		<-time.After(time.Minute)
		if edge.Role() != "edge" || isPeer(s.Nodes[0], edge) {
			t.Error("it has a part in raft")
		}
		edge.MustSet("app/a", "1") // it may write, as everybody

		bold := s.Add().Joins(s.Nodes[0].Token("edge"))
		bold.Change = func(o *cluster.Options) { o.Role = identity.Voter }
		bold.Start()
		bold.Await("to be refused", 30*time.Second, func() bool { _, ended := bold.Ended(); return ended })
		if err, _ := bold.Ended(); err == nil || !strings.Contains(err.Error(), "edge") {
			t.Errorf("it asks for a vote, and is told %v", err)
		}
	})
}
