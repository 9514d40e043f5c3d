package agenttest_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/cluster"
	"grapevine/kv"
)

const instances = "gateway/instances/shop/"

// owns is the node as an owner of ephemeral keys.
func owns(t *testing.T, n *agenttest.Simulated) *kv.Own {
	t.Helper()
	own, err := n.Store.Own(kv.OwnerID(n.ID))
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func announce(t *testing.T, n *agenttest.Simulated, id, value string) {
	t.Helper()
	if err := owns(t, n).Put(kv.Key(instances+id), []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// sees tells how a node shows an instance: "", "active" or "orphaned".
func sees(n *agenttest.Simulated, id string) string {
	entry, there := n.Store.View().Get(kv.Key(instances + id))
	switch {
	case !there:
		return ""
	case entry.Own.Orphaned:
		return "orphaned"
	}
	return "active"
}

// awaitSeen waits until all nodes that are up show an instance so.
func awaitSeen(t *testing.T, s *agenttest.Simulation, id, want string, within time.Duration) time.Duration {
	t.Helper()
	return s.AwaitAll(id+" is "+want, within, func(n *agenttest.Simulated) bool { return sees(n, id) == want })
}

// during looks at all nodes again and again for a time.
func during(t *testing.T, s *agenttest.Simulation, d time.Duration, holds func(*agenttest.Simulated) error) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		for _, n := range s.Nodes {
			if err := holds(n); n.Up() && err != nil {
				t.Fatalf("%s: %v", n.Name, err)
			}
		}
	}
}

// Every node tells all others what it is, in a key of its own.
func TestNodesTellWhatTheyAre(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		for _, of := range s.Nodes {
			s.AwaitAll("facts of "+of.Name, 10*time.Second, func(n *agenttest.Simulated) bool {
				entry, there := n.Store.View().Get(kv.Key("gateway/nodes/" + of.ID))
				want := fmt.Sprintf(`{"name":%q,"version":"0.0.1","role":%q,"address":"%s:7946"}`, of.Name, of.Role(), of.IP)
				return there && string(entry.Value) == want && entry.By == of.ID && !entry.Own.Orphaned
			})
		}
		gone := s.Nodes[4]
		gone.Crash()
		s.AwaitAll("the dead node's facts are hidden", 2*time.Minute, func(n *agenttest.Simulated) bool {
			_, there := n.Store.View().Get(kv.Key("gateway/nodes/" + gone.ID))
			return !there
		})
	})
}

// An owner that is hidden is kept up to date: it comes back at once, and what it withdrew
// meanwhile does not.
func TestHiddenOwnersComeBack(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[4]
		announce(t, n, "one", "1")
		announce(t, n, "two", "1")
		awaitSeen(t, s, "two", "active", 5*time.Second)
		s.Partition(n)
		<-time.After(2 * time.Minute)
		for _, other := range s.Nodes[:4] {
			if got := sees(other, "one"); got != "" {
				t.Errorf("%s: two minutes later the instance is %q", other.Name, got)
			}
		}
		if err := owns(t, n).Withdraw(instances + "two"); err != nil {
			t.Fatal(err)
		}
		s.Network.Heal()
		s.AwaitMembers(5)
		awaitSeen(t, s, "one", "active", time.Second)
		awaitSeen(t, s, "two", "", time.Second)
	})
}

func copyOf(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// After a power cut of all, each node shows what the others had before it hears of them.
func TestAllLosePower(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		for i, n := range s.Nodes {
			announce(t, n, fmt.Sprint(i), "1")
		}
		for i := range s.Nodes {
			awaitSeen(t, s, fmt.Sprint(i), "active", 5*time.Second)
		}
		<-time.After(3 * time.Second)
		for _, n := range s.Nodes {
			n.Crash()
		}
		s.Nodes[0].Start()
		for i := range s.Nodes {
			if want, got := "orphaned", sees(s.Nodes[0], fmt.Sprint(i)); i > 0 && got != want {
				t.Errorf("instance %d is %q at the start", i, got)
			}
		}
		for i, n := range s.Nodes {
			if i > 0 {
				n.Start()
			}
			announce(t, n, fmt.Sprint(i), "1")
		}
		for i := range s.Nodes {
			awaitSeen(t, s, fmt.Sprint(i), "active", 30*time.Second)
		}
	})
}

// A node that stops to start again is held for: nobody sees its keys as less than before.
func TestGracefulRestartIsHeld(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "one", "1")
		awaitSeen(t, s, "one", "active", 5*time.Second)
		<-time.After(3 * time.Second)
		active := func(other *agenttest.Simulated) error {
			if got := sees(other, "one"); got != "active" {
				return fmt.Errorf("the instance is %q", got)
			}
			return nil
		}
		n.Stop()
		during(t, s, 25*time.Second, active)
		n.Start()
		announce(t, n, "one", "1")
		during(t, s, time.Minute, active)

		// One that does not come back is let go.
		n.Stop()
		awaitSeen(t, s, "one", "orphaned", 40*time.Second)
		awaitSeen(t, s, "one", "", 70*time.Second)
	})
}

// What a node that leaves owned goes with it, at once, and does not come back with it.
func TestLeavingTakesItsKeys(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "one", "1")
		awaitSeen(t, s, "one", "active", 5*time.Second)
		if err := n.Cluster.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.Stop()
		awaitSeen(t, s, "one", "", 2*time.Second)
	})
}

// Orphans at which nobody answers are not shown for as long as those at which somebody
// does.
func TestSilentOrphansAreDropped(t *testing.T) {
	simulate(t, 3, 0, func(t *testing.T, s *agenttest.Simulation) {
		asks := s.Nodes[0]
		asks.Stop()
		asks.Change = func(o *cluster.Options) {
			o.Answers = func(e kv.Entry) bool { return string(e.Value) == "lives" }
		}
		asks.Start()
		s.AwaitMembers(3)
		n := s.Nodes[1]
		announce(t, n, "lives", "lives")
		announce(t, n, "gone", "gone")
		awaitSeen(t, s, "gone", "active", 10*time.Second)
		n.Crash()
		awaitSeen(t, s, "gone", "orphaned", 30*time.Second)
		took := asks.Await("the silent one is dropped", 50*time.Second, func() bool { return sees(asks, "gone") == "" })
		if took < 25*time.Second || sees(asks, "lives") != "orphaned" || sees(s.Nodes[2], "gone") != "orphaned" {
			t.Errorf("after %v: the one that answers is %q", took, sees(asks, "lives"))
		}
	})
}

// incarnationOf is the one of another node that a node knows.
func incarnationOf(by, of *agenttest.Simulated) uint64 {
	for _, status := range by.Store.Owners() {
		if string(status.Owner) == of.ID {
			return status.Mark.Incarnation
		}
	}
	return 0
}

// A copy of a node's disk that is started elsewhere ends itself, and the node goes on.
func TestCopiedNodeIsFenced(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "one", "1")
		awaitSeen(t, s, "one", "active", 5*time.Second)
		first := incarnationOf(s.Nodes[0], n)
		n.Stop()
		double := s.Add()
		double.ID = n.ID
		for _, name := range []string{"kv.db", "identity"} {
			if err := os.WriteFile(double.File(name), copyOf(t, n.File(name)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n.Start()
		announce(t, n, "one", "1")
		s.Nodes[0].Await("the second start of the node", 20*time.Second, func() bool { return incarnationOf(s.Nodes[0], n) > first })
		awaitSeen(t, s, "one", "active", 10*time.Second)
		double.Start()
		var fenced *cluster.FencedError
		double.Await("the end of the copy", 20*time.Second, func() bool {
			err, ended := double.Ended()
			return ended && errors.As(err, &fenced)
		})
		if want := n.IP + ":7946"; fenced.Address != want || fenced.Node != n.ID {
			t.Errorf("fenced by %+v", fenced)
		}
		double.Crash()
		during(t, s, time.Minute, func(other *agenttest.Simulated) error {
			if err, ended := n.Ended(); ended {
				return fmt.Errorf("the node itself has ended: %w", err)
			}
			if got := sees(other, "one"); got != "active" {
				return fmt.Errorf("the instance is %q", got)
			}
			return nil
		})
		// A restart at once, with its former self in everybody's list, fences nobody.
		n.Crash()
		n.Start()
		<-time.After(20 * time.Second)
		if err, ended := n.Ended(); ended {
			t.Errorf("a restarted node has ended: %v", err)
		}
	})
}

// ownedBy is what a node has of an owner.
func ownedBy(by *agenttest.Simulated, owner string) (all string) {
	for _, e := range by.Store.OwnedBy(kv.OwnerID(owner)) {
		all += fmt.Sprintf("%s=%s\n", e.Key, e.Value)
	}
	return all
}

// A node and a copy of its disk that start apart, where neither hears of the other, announce under one id. When they meet
// one ends, and nobody keeps what that one had announced.
func TestCopyThatStartsApart(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		n := s.Nodes[3]
		announce(t, n, "old", "1")
		awaitSeen(t, s, "old", "active", 5*time.Second)
		<-time.After(3 * time.Second) // it is on disk
		n.Stop()
		double := s.Add()
		double.ID = n.ID
		for _, name := range []string{"kv.db", "identity"} {
			if err := os.WriteFile(double.File(name), copyOf(t, n.File(name)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.Partition(s.Nodes[2], double)
		n.Start()
		double.Start()
		announce(t, n, "three", "of the node")
		announce(t, n, "one", "of the node")
		for i := range 5 { // more than the other, so that it is further
			announce(t, double, "one", fmt.Sprint("of the copy ", i))
		}
		announce(t, double, "two", "of the copy")
		s.Nodes[0].Await("the node", 30*time.Second, func() bool { return s.Nodes[0].Get(instances+"one") == "of the node" })
		s.Nodes[2].Await("the copy", 30*time.Second, func() bool { return s.Nodes[2].Get(instances+"two") == "of the copy" })
		s.Network.Heal()
		var survivor *agenttest.Simulated
		s.Nodes[0].Await("the end of one", 2*time.Minute, func() bool {
			_, first := n.Ended()
			_, second := double.Ended()
			survivor = n
			if first {
				survivor = double
			}
			return first != second
		})
		if survivor == n {
			double.Crash()
		} else {
			n.Crash()
		}
		own := owns(t, survivor)
		announce(t, survivor, "one", "of the survivor")
		s.AwaitAll("all that the survivor did", time.Minute, func(by *agenttest.Simulated) bool {
			mark, _ := by.Store.OwnerMark(kv.OwnerID(n.ID))
			return mark == own.Mark()
		})
		s.AwaitAll("nothing else", 2*time.Second, func(by *agenttest.Simulated) bool {
			return ownedBy(by, n.ID) == ownedBy(survivor, n.ID)
		})
	})
}
