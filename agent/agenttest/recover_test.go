package agenttest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/api"
)

// lose writes what one voter misses and the edge gets, and kills the other two. It
// returns the voter that is left, and those that are lost.
func lose(t *testing.T, s *agenttest.Simulation) (survivor *agenttest.Simulated, lost []*agenttest.Simulated) {
	t.Helper()
	s.AwaitVoters(3)
	leader := s.AwaitLeader(10 * time.Second)
	leader.MustSet("app/before", "1")
	s.AwaitEqual(5 * time.Second)
	for _, n := range s.Nodes[:3] {
		if n != leader && survivor == nil {
			survivor = n
		} else {
			lost = append(lost, n)
		}
	}
	s.Partition(survivor)
	leader.MustSet("app/only-the-edge", "2")
	edge := s.Nodes[3]
	edge.Await("what was written", 5*time.Second, func() bool { return edge.Get("app/only-the-edge") == "2" })
	for _, n := range lost {
		n.Crash()
	}
	s.Network.Heal()
	survivor.Await("to see the edge alone", time.Minute, func() bool { return survivor.Alive() == 2 })
	return survivor, lost
}

func recovers(t *testing.T, n *agenttest.Simulated) api.Recovery {
	t.Helper()
	ctx, cancel := within(30 * time.Second)
	defer cancel()
	plan, err := n.Cluster.Recover(ctx)
	if err != nil {
		t.Fatalf("recover: %v", err)
	}
	return plan
}

// refuses checks that a node does not recover, and says why.
func refuses(t *testing.T, n *agenttest.Simulated, why string) {
	t.Helper()
	ctx, cancel := within(10 * time.Second)
	defer cancel()
	_, err := n.Cluster.Recover(ctx)
	var refused *api.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, why) {
		t.Errorf("%s: recover: %v; want a refusal that says %q", n.Name, err, why)
	}
}

// Two of three voters are lost. The third fetches what an edge has, and leads alone in
// the next epoch; the edge follows; and so do the others, when one after the other
// comes back with its old disk.
func TestRecover(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		s.AwaitVoters(3)
		refuses(t, s.Nodes[0], "leads")
		refuses(t, s.Nodes[3], "edge for life")
		survivor, lost := lose(t, s)
		plan := recovers(t, survivor)
		if plan.From != s.Nodes[3].Name || plan.Epoch != 2 || len(plan.Unreachable) != 2 {
			t.Errorf("the plan was %+v", plan)
		}
		if got := survivor.Get("app/only-the-edge"); got != "2" {
			t.Errorf("what only the edge had is %q", got)
		}
		if rev := survivor.MustSet("app/after", "3"); rev.Epoch != 2 {
			t.Errorf("revision %s; want one of epoch 2", rev)
		}
		s.AwaitEqual(time.Minute)
		for _, n := range lost {
			n.Start()
			s.AwaitEqual(time.Minute)
		}
		s.AwaitVoters(3)
		s.AwaitLeader(10*time.Second).MustSet("app/later", "4")
		s.AwaitEqual(5 * time.Second)
		<-time.After(15 * time.Second)
		for _, n := range s.Nodes {
			if alarms := n.Cluster.Standing().Alarms; len(alarms) > 0 {
				t.Errorf("%s: %q", n.Name, alarms)
			}
		}
	})
}

// The lost majority was not lost: it comes back where it sees nobody else, and elects
// a leader. When it meets those who went on, nothing is mixed: it stops writing, and
// says what to do; the edge stays with those whom it follows. Done as it says, all are one
// cluster again.
func TestLostMajorityComesBack(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		survivor, lost := lose(t, s)
		recovers(t, survivor)
		survivor.MustSet("app/after", "3")
		edge := s.Nodes[3]
		edge.Await("the next epoch", time.Minute, func() bool { return edge.Get("app/after") == "3" })
		s.Partition(lost...)
		for _, n := range lost {
			n.Start()
		}
		lost[0].Await("a leader of the old epoch", 20*time.Second, func() bool { return lost[0].Leader() != "" })
		if rev := lost[0].MustSet("app/old", "4"); rev.Epoch != 1 {
			t.Errorf("revision %s; want one of epoch 1", rev)
		}
		s.Network.Heal()
		lost[0].Await("writes are refused", 2*time.Minute, func() bool {
			_, err := lost[0].Set("app/old", "5", time.Second)
			return err != nil && strings.Contains(err.Error(), "Stop all but one")
		})
		<-time.After(time.Minute)
		survivor.MustSet("app/after", "6")
		edge.Await("it follows", 5*time.Second, func() bool { return edge.Get("app/after") == "6" })
		if got := survivor.Get("app/old") + edge.Get("app/old"); got != "" {
			t.Errorf("writes of the old epoch came over: %q", got)
		}
		lost[0].Stop()
		s.AwaitEqual(2 * time.Minute)
		lost[0].Start()
		s.AwaitEqual(2 * time.Minute)
		s.AwaitVoters(3)
		s.AwaitLeader(10*time.Second).MustSet("app/later", "7")
		s.AwaitEqual(5 * time.Second)
	})
}
