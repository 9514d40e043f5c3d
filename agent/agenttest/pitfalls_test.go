package agenttest_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/agent"
	"grapevine/agent/agenttest"
	"grapevine/kv"
)

// Pitfall 11: who leaves, rejoins and writes at once is seen by all with what it wrote.
// Nobody makes up deletes for it.
func TestPitfall11LeaveRejoinWriteInOneTick(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "old", "1")
		awaitSeen(t, s, "old", "active", 5*time.Second)
		for round := range 3 {
			n.Stop()
			n.Start()
			announce(t, n, "new", fmt.Sprint(round))
			if err := owns(t, n).Withdraw(instances + "old"); err != nil {
				t.Fatal(err)
			}
			s.AwaitAll("the new value", 10*time.Second, func(other *agenttest.Simulated) bool {
				return other.Get(instances+"new") == fmt.Sprint(round) && sees(other, "new") == "active" && sees(other, "old") == ""
			})
		}
		during(t, s, time.Minute, func(other *agenttest.Simulated) error {
			if got := sees(other, "new"); got != "active" {
				return fmt.Errorf("the instance is %q", got)
			}
			return nil
		})
	})
}

// Pitfall 12: what a node that could not be reached owns is never gone, and is back as it
// was within a second of the node, with what it wrote meanwhile.
func TestPitfall12BackAfterABlip(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[4]
		announce(t, n, "one", "1")
		awaitSeen(t, s, "one", "active", 5*time.Second)
		s.Partition(n)
		during(t, s, 40*time.Second, func(other *agenttest.Simulated) error {
			if sees(other, "one") == "" {
				return errors.New("the instance is gone")
			}
			return nil
		})
		if got := sees(s.Nodes[0], "one"); got != "orphaned" {
			t.Errorf("after 40 s the instance is %q", got)
		}
		announce(t, n, "two", "2")
		s.Network.Heal()
		s.AwaitMembers(5)
		if took := awaitSeen(t, s, "one", "active", time.Second) + awaitSeen(t, s, "two", "active", time.Second); took > time.Second {
			t.Errorf("back after %v", took)
		}
	})
}

// Pitfall 20: a node that does not answer for ten seconds, as a stopped process, costs
// nobody an instance.
func TestPitfall20ABlipDeletesNothing(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "one", "1")
		awaitSeen(t, s, "one", "active", 5*time.Second)
		for range 3 {
			s.Partition(n)
			during(t, s, 10*time.Second, func(other *agenttest.Simulated) error {
				if sees(other, "one") == "" {
					return errors.New("the instance is gone")
				}
				return nil
			})
			s.Network.Heal()
			s.AwaitMembers(5)
			awaitSeen(t, s, "one", "active", time.Second)
		}
	})
}

// Pitfall 21: when two of five die nothing of theirs is taken away in haste: it may be
// this node that is alone.
func TestPitfall21MassDeathFreezes(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		for i, n := range s.Nodes {
			announce(t, n, fmt.Sprint(i), "1")
		}
		for i := range s.Nodes {
			awaitSeen(t, s, fmt.Sprint(i), "active", 5*time.Second)
		}
		alone := s.Nodes[4]
		s.Partition(alone)
		alone.Await("the guard", 40*time.Second, func() bool { return alone.Cluster.Owners().Frozen })
		during(t, s, 5*time.Minute, func(other *agenttest.Simulated) error {
			if other != alone {
				return nil
			}
			for i := range s.Nodes {
				if sees(alone, fmt.Sprint(i)) == "" {
					return fmt.Errorf("instance %d is gone", i)
				}
			}
			return nil
		})
		if s.Nodes[0].Cluster.Owners().Frozen {
			t.Error("who lost one of five froze too")
		}
		s.Network.Heal()
		s.AwaitMembers(5)
		for i := range s.Nodes {
			awaitSeen(t, s, fmt.Sprint(i), "active", 2*time.Second)
		}
		alone.Await("the guard's end", time.Minute, func() bool { return !alone.Cluster.Owners().Frozen })

		// Two that are really dead are let go once it is clear that the rest is fine.
		s.Nodes[3].Crash()
		s.Nodes[4].Crash()
		awaitSeen(t, s, "3", "orphaned", 30*time.Second)
		s.Nodes[0].Await("the guard", 20*time.Second, func() bool { return s.Nodes[0].Cluster.Owners().Frozen })
		<-time.After(65 * time.Second)
		for _, n := range s.Nodes[:3] {
			if sees(n, "3") == "" {
				t.Errorf("%s dropped an instance as if one node had died", n.Name)
			}
		}
		awaitSeen(t, s, "3", "", 2*time.Minute)
	})
}

// votes are the ids of the nodes that have a vote, as a node has it.
func votes(t *testing.T, by *agenttest.Simulated) (ids []string) {
	t.Helper()
	ctx, cancel := within(5 * time.Second)
	defer cancel()
	peers, err := by.Cluster.Peers(ctx)
	if err != nil {
		t.Fatalf("%s: %v", by.Name, err)
	}
	for _, p := range peers {
		if p.Role == "voter" {
			ids = append(ids, p.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// sevenOfFiveVoters is a cluster of seven, of which two stand by, and two voters that do not lead.
func sevenOfFiveVoters(t *testing.T, s *agenttest.Simulation) (leader *agenttest.Simulated, two []*agenttest.Simulated) {
	t.Helper()
	s.AwaitVoters(5)
	leader = s.AwaitLeader(10 * time.Second)
	leader.Await("two stand by", time.Minute, func() bool {
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		peers, err := leader.Cluster.Peers(ctx)
		return err == nil && len(peers) == 7
	})
	for _, n := range s.Nodes {
		if n != leader && len(two) < 2 && slices.Contains(votes(t, leader), n.ID) {
			two = append(two, n)
		}
	}
	return leader, two
}

// Pitfall 21, of votes: when two of five voters die none is removed in haste. Both are replaced after a minute by
// those that stand by, and neither goes while two are not well: should more die, their votes may
// be needed.
func TestPitfall21NoVoterGoesBeforeItsReplacement(t *testing.T) {
	simulate(t, 7, 0, func(t *testing.T, s *agenttest.Simulation) {
		leader, two := sevenOfFiveVoters(t, s)
		before := votes(t, leader)
		for _, n := range two {
			n.Crash()
		}
		died := time.Now()
		for time.Since(died) < 100*time.Second {
			<-time.After(2 * time.Second)
			now := votes(t, leader)
			if time.Since(died) < time.Minute && !slices.Equal(now, before) {
				t.Fatalf("after %v the voters are %q", time.Since(died), now)
			}
			for _, id := range before {
				if !slices.Contains(now, id) {
					t.Fatalf("after %v %s has no vote, while two are not well", time.Since(died), id)
				}
			}
		}
		leader.MustSet("app/k", "meanwhile")
		if got := votes(t, leader); len(got) != 7 {
			t.Fatalf("both are to be replaced by those that stood by: voters %q", got)
		}
		two[0].Start()
		s.AwaitVoters(5)
		if now := votes(t, leader); slices.Contains(now, two[1].ID) {
			t.Errorf("the one that is dead still votes: %q", now)
		}
		leader.MustSet("app/k", "last")
		s.AwaitEqual(5 * time.Second)
	})
}

// Two that are back within the minute have their votes as before, and nothing else has changed.
func TestPitfall21VotersThatComeBackKeepTheirVotes(t *testing.T) {
	simulate(t, 7, 0, func(t *testing.T, s *agenttest.Simulation) {
		leader, two := sevenOfFiveVoters(t, s)
		before := votes(t, leader)
		for _, n := range two {
			n.Crash()
		}
		<-time.After(40 * time.Second)
		for _, n := range two {
			n.Start()
		}
		for began := time.Now(); time.Since(began) < 90*time.Second; <-time.After(3 * time.Second) {
			if now := votes(t, leader); !slices.Equal(now, before) {
				t.Fatalf("after %v the voters are %q, not %q", time.Since(began), now, before)
			}
		}
	})
}

// Pitfall 23: a port of the gossip that somebody has is a clear error at the start, and no panic later: for TCP, and for
// UDP alone.
func TestPitfall23ThePortIsTaken(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for _, address := range []string{tcp.Addr().String(), udp.LocalAddr().String()} {
		config := agenttest.Config(t, 1)
		config.Gossip = address
		a := agent.New(config, io.Discard)
		if err := a.Open(); err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "already in use") {
			t.Errorf("%s: %v", address, err)
		}
	}
	// The data directory is free again, and its node starts elsewhere.
	agenttest.Run(t, agenttest.Config(t, 2))
}

// Bug case O05: what nobody announces again after its node was killed is gone in a bounded
// time, and never comes back, whatever is exchanged.
func TestO05ExpiredInstancesStayGone(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "back", "1")
		announce(t, n, "dead", "1")
		awaitSeen(t, s, "dead", "active", 5*time.Second)
		<-time.After(3 * time.Second) // it is on disk
		n.Crash()
		<-time.After(20 * time.Second)
		n.Start()
		announce(t, n, "back", "1") // its process lives, and announces again
		if got := sees(n, "dead"); got == "" {
			t.Error("what it had announced is not kept over a crash")
		}
		awaitSeen(t, s, "dead", "", 20*time.Second)
		s.Nodes[2].Crash()
		<-time.After(10 * time.Second)
		s.Nodes[2].Start()
		s.Partition(s.Nodes[0])
		<-time.After(30 * time.Second)
		s.Network.Heal()
		s.AwaitMembers(4)
		during(t, s, 3*time.Minute, func(other *agenttest.Simulated) error {
			if got := sees(other, "dead"); got != "" {
				return fmt.Errorf("it is back, and %s", got)
			}
			if got := sees(other, "back"); other == n && got != "active" {
				return fmt.Errorf("what was announced again is %q", got)
			}
			return nil
		})
	})
}

// Bug case O18: an owner whose disk was put back to an older state, and whose numbers
// would go backwards, takes a later incarnation than any that the others remember. A
// watcher gets its next change.
func TestO18OlderDiskIsHeard(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "one", "first")
		<-time.After(5 * time.Second)
		n.Stop()
		backup := copyOf(t, n.File("kv.db"))
		var last kv.OwnerMark
		for range 3 {
			n.Start()
			announce(t, n, "one", "later")
			announce(t, n, "two", "later")
			n.Await("announcing", 10*time.Second, func() bool { return owns(t, n).Mark().Incarnation > 0 })
			<-time.After(20 * time.Second)
			last = owns(t, n).Mark()
			n.Stop()
		}
		if err := os.WriteFile(n.File("kv.db"), backup, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := s.Nodes[0].Store.Watch(instances, kv.Rev{})
		if err != nil {
			t.Fatal(err)
		}
		n.Start()
		announce(t, n, "one", "after")
		s.AwaitAll("the change", 20*time.Second, func(other *agenttest.Simulated) bool { return other.Get(instances+"one") == "after" })
		if got := owns(t, n).Mark(); got.Incarnation <= last.Incarnation {
			t.Errorf("the incarnation is %d, the others had heard of %d", got.Incarnation, last.Incarnation)
		}
		for heard := false; !heard; {
			batch, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range batch.Events {
				heard = heard || string(e.Entry.Value) == "after"
			}
		}
	})
}
