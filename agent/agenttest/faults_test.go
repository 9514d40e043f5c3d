package agenttest_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/api"
	"grapevine/kv/memnet"
)

// Without its leader a cluster writes again within 5 s, by itself.
func TestLeaderCrashes(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		for round := range 4 {
			leader := s.AwaitLeader(10 * time.Second)
			leader.Crash()
			survivor := s.Nodes[0]
			if survivor == leader {
				survivor = s.Nodes[3]
			}
			began := time.Now()
			if _, err := survivor.Set("app/round", fmt.Sprint(round), 5*time.Second); err != nil {
				t.Fatalf("round %d, %s without %s, after %v: %v", round, survivor.Name, leader.Name, time.Since(began), err)
			}
			s.AwaitEqual(2 * time.Second)
			leader.Start()
			s.AwaitEqual(5 * time.Second)
			if got := leader.Get("app/round"); got != fmt.Sprint(round) {
				t.Errorf("round %d: %s has %q", round, leader.Name, got)
			}
			s.AwaitMembers(4)
		}
	})
}

// A leader that stops hands over: nobody waits for an election.
func TestLeaderThatStopsHandsOver(t *testing.T) {
	simulate(t, 3, 0, func(t *testing.T, s *agenttest.Simulation) {
		leader := s.AwaitLeader(10 * time.Second)
		leader.Stop()
		next := s.AwaitLeader(500 * time.Millisecond)
		began := time.Now()
		next.MustSet("app/a", "1")
		if took := time.Since(began); took > 500*time.Millisecond {
			t.Errorf("the first write took %v", took)
		}
		leader.Start()
		s.AwaitEqual(5 * time.Second)
	})
}

// A minority serves on and writes nothing, whether it had the leader or not. After
// the partition it has what the majority wrote within 2 s.
func TestMinorityIsCutOff(t *testing.T) {
	for name, withLeader := range map[string]bool{"with the leader": true, "without the leader": false} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
				s.Nodes[4].MustSet("gateway/routes/a", respond("/a", "before"))
				s.AwaitEqual(2 * time.Second)
				leader := s.AwaitLeader(10 * time.Second)
				minority, majority := sides(s, leader, withLeader)
				s.Partition(minority...)
				<-time.After(20 * time.Second)

				before := minority[0].Gateway.Table()
				for _, n := range minority {
					began := time.Now()
					_, err := n.Set("gateway/routes/a", respond("/a", "minority"), 5*time.Second)
					var quorum *api.NoQuorumError
					if !errors.As(err, &quorum) {
						t.Errorf("%s writes: %v after %v, want no quorum", n.Name, err, time.Since(began))
					}
					if !n.Cluster.Standing().Stale {
						t.Errorf("%s does not say that what it serves may be old", n.Name)
					}
				}
				majority[0].MustSet("gateway/routes/a", respond("/a", "majority"))
				majority[0].MustSet("gateway/routes/b", respond("/b", "majority"))
				<-time.After(5 * time.Second)
				for _, n := range minority {
					if n.Gateway.Table().Hash() != before.Hash() || n.Gateway.Table().Len() != 1 {
						t.Errorf("%s serves %d routes of %s", n.Name, n.Gateway.Table().Len(), n.Gateway.Table().Rev())
					}
				}

				s.Network.Heal()
				s.AwaitEqual(2 * time.Second)
				if got := minority[0].Get("gateway/routes/a"); got != respond("/a", "majority") {
					t.Errorf("%s has %s", minority[0].Name, got)
				}
				s.AwaitLeader(10 * time.Second) // an edge asks who leads every 2.5 to 7.5 s
				s.AwaitMembers(5)
			})
		})
	}
}

// sides makes a minority of one voter and one other.
func sides(s *agenttest.Simulation, leader *agenttest.Simulated, withLeader bool) (minority, majority []*agenttest.Simulated) {
	for _, n := range s.Nodes {
		voter := n.Role() == "voter"
		_, has := roleIn(minority, voter)
		if !has && (!voter || (n == leader) == withLeader) {
			minority = append(minority, n)
		} else {
			majority = append(majority, n)
		}
	}
	return minority, majority
}

func roleIn(nodes []*agenttest.Simulated, voter bool) (*agenttest.Simulated, bool) {
	for _, n := range nodes {
		if (n.Role() == "voter") == voter {
			return n, true
		}
	}
	return nil, false
}

// All nodes lose power at the same time and come back.
func TestAllRestartAtOnce(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		s.Nodes[4].MustSet("gateway/routes/a", respond("/a", "a"))
		s.AwaitEqual(2 * time.Second)
		for _, n := range s.Nodes {
			n.Crash()
		}
		<-time.After(time.Minute)
		for _, n := range s.Nodes {
			n.Start()
			if n.Gateway.Table().Len() != 1 {
				t.Errorf("%s does not serve what it had", n.Name)
			}
		}
		s.AwaitLeader(10 * time.Second)
		s.AwaitMembers(5)
		s.Nodes[3].MustSet("app/b", "2")
		s.AwaitEqual(2 * time.Second)
	})
}

// A node that was away for long gets what it missed.
func TestNodeReturns(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		away := s.Nodes[4]
		s.Nodes[0].MustSet("app/gone", "1")
		s.AwaitEqual(2 * time.Second)
		away.Crash()
		for i := range 200 {
			s.Nodes[0].MustSet(fmt.Sprintf("app/%d", i), fmt.Sprint(i))
		}
		if _, err := s.Nodes[0].Delete("app/gone", 5*time.Second); err != nil {
			t.Fatal(err)
		}
		<-time.After(90 * time.Second)
		away.Start()
		s.AwaitEqual(5 * time.Second)
		if got := away.Get("app/gone"); got != "" {
			t.Errorf("a deleted key is back: %s", got)
		}
		s.AwaitMembers(5)
	})
}

// Packets get lost, one in five: changes arrive, and nobody is taken for dead for long.
func TestLossOfPackets(t *testing.T) {
	if os.Getenv("GRAPEVINE_LONG") == "" {
		t.Skip("its retries cost a minute of CPU with the race detector; GRAPEVINE_LONG=1 runs it")
	}
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(7)
		network.SetDelay(200*time.Microsecond, 2*time.Millisecond)
		network.SetLoss(0.2)
		s := agenttest.Simulate(t, network, 9)
		for i := range 50 {
			s.Nodes[i%9].MustSet(fmt.Sprintf("app/%d", i), fmt.Sprint(i))
			if took := s.AwaitEqual(5 * time.Second); took > 2*time.Second {
				t.Errorf("change %d reached all after %v", i, took)
			}
			<-time.After(time.Second)
		}
		s.AwaitMembers(9)
	})
}

// Where UDP is blocked all goes on over TCP, and an operator is told: by an alarm, and by the members.
func TestUDPIsBlocked(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		s.Network.SetLoss(1) // streams lose nothing
		alarmed := func(n *agenttest.Simulated) bool {
			return slices.ContainsFunc(n.Cluster.Standing().Alarms, func(a string) bool { return strings.HasPrefix(a, "UDP is blocked to ") })
		}
		t.Logf("all are told after %v", s.AwaitAll("an alarm", time.Minute, alarmed))
		s.AwaitAll("all others are marked", time.Minute, func(n *agenttest.Simulated) bool {
			blocked := 0
			for _, m := range n.Cluster.Members() {
				if m.UDPBlocked {
					blocked++
				}
			}
			return blocked == 3
		})
		s.Nodes[3].MustSet("gateway/routes/a", respond("/a", "a"))
		t.Logf("a change is served everywhere after %v", s.AwaitEqual(2*time.Second))
		s.AwaitMembers(4)
		s.Network.SetLoss(0)
		s.AwaitAll("no alarm", time.Minute, func(n *agenttest.Simulated) bool { return len(n.Cluster.Standing().Alarms) == 0 })
	})
}
