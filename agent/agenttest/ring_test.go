package agenttest_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/agent/identity"
	"grapevine/kv/memnet"
)

// ringOf is the gossip keys as a node tells of them.
func ringOf(t *testing.T, n *agenttest.Simulated) api.Keyring {
	t.Helper()
	ctx, cancel := within(5 * time.Second)
	defer cancel()
	k, err := n.Cluster.Keyring(ctx)
	if err != nil {
		t.Fatalf("%s: %v", n.Name, err)
	}
	return k
}

// wantOneKey waits until the living nodes have the key of a generation, and no other.
func wantOneKey(t *testing.T, by *agenttest.Simulated, generation uint64, nodes int, within time.Duration) {
	t.Helper()
	by.Await(fmt.Sprintf("one key of generation %d on %d nodes", generation, nodes), within, func() bool {
		k := ringOf(t, by)
		return k.Generation == generation && k.Phase == api.KeyringDone && len(k.Keys) == 1 && len(k.Nodes) == nodes &&
			!slices.ContainsFunc(k.Nodes, func(n api.KeyringNode) bool { return !n.Ready || len(n.Has) != 1 || n.Has[0] != k.Keys[0] })
	}, func() any { return ringOf(t, by) })
}

func rotate(t *testing.T, n *agenttest.Simulated, patience time.Duration) api.Keyring {
	t.Helper()
	ctx, cancel := within(patience)
	defer cancel()
	k, err := n.Cluster.RotateKeys(ctx)
	if err != nil {
		t.Fatalf("%s: %v", n.Name, err)
	}
	return k
}

// The key is replaced under load, and nobody loses anybody.
func TestGossipKeyIsRotated(t *testing.T) {
	simulate(t, 3, 2, func(t *testing.T, s *agenttest.Simulation) {
		first := ringOf(t, s.Nodes[4])
		stop, lost := make(chan struct{}), make(chan string, 1)
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					close(lost)
					return
				case <-time.After(100 * time.Millisecond):
				}
				s.Nodes[i%5].MustSet(fmt.Sprintf("app/%d", i%7), fmt.Sprint(i))
				for _, n := range s.Nodes {
					if alive := n.Alive(); alive != 5 {
						select {
						case lost <- fmt.Sprintf("%s sees %d alive", n.Name, alive):
						default:
						}
					}
				}
			}
		}()
		for generation := uint64(1); generation <= 3; generation++ {
			if k := rotate(t, s.Nodes[1], 20*time.Second); k.Phase != api.KeyringDone || k.Generation != generation || k.Keys[0] == first.Keys[0] {
				t.Fatalf("after a rotation: %+v", k)
			}
			wantOneKey(t, s.Nodes[4], generation, 5, 5*time.Second)
		}
		<-time.After(5 * time.Second)
		close(stop)
		for what := range lost {
			t.Error(what)
		}
		s.AwaitEqual(2 * time.Second)
	})
}

// Who was cut off while the key was replaced, twice, so that it knows none of the keys
// that are left, becomes a member again, and so does who was down.
func TestRotationWithNodesAway(t *testing.T) {
	simulate(t, 3, 3, func(t *testing.T, s *agenttest.Simulation) {
		asleep, down, moved := s.Nodes[3], s.Nodes[4], s.Nodes[2]
		s.Partition(asleep)
		down.Crash()
		moved.Crash()
		by := s.Nodes[0]
		by.Await("they are dead", time.Minute, func() bool { return by.Alive() == 3 })
		for generation := uint64(1); generation <= 2; generation++ {
			rotate(t, by, 20*time.Second)
			wantOneKey(t, by, generation, 3, 10*time.Second)
			s.Nodes[5].MustSet("app/a", fmt.Sprint(generation))
		}
		s.Network.Heal()
		down.Start()
		moved.IP = "10.0.0.99"
		moved.Start()
		t.Logf("all are back after %v", s.AwaitAll("six members", 45*time.Second, func(n *agenttest.Simulated) bool { return n.Alive() == 6 }))
		s.AwaitEqual(5 * time.Second)
		wantOneKey(t, down, 2, 6, 30*time.Second)
		asleep.MustSet("app/b", "1")
	})
}

// The leader may be lost in the midst of it: the next one goes on.
func TestRotationOutlivesItsLeader(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		leader := s.AwaitLeader(10 * time.Second)
		if k := rotate(t, leader, 300*time.Millisecond); k.Phase == api.KeyringDone {
			t.Fatalf("it was over at once: %+v", k)
		}
		leader.Crash()
		var other *agenttest.Simulated
		for _, n := range s.Nodes {
			if n.Up() {
				other = n
			}
		}
		wantOneKey(t, other, 1, 3, time.Minute)
	})
}

// A phase waits for a node that lives and can't be asked, and an operator is told.
func TestRotationWaitsForTheLiving(t *testing.T) {
	simulate(t, 3, 1, func(t *testing.T, s *agenttest.Simulation) {
		leader, edge := s.AwaitLeader(10*time.Second), s.Nodes[3]
		s.Network.Block(leader.IP, edge.IP) // the others still hear it, so that it stays alive
		k := rotate(t, leader, 20*time.Second)
		if k.Phase != "add" {
			t.Fatalf("it did not wait: %+v", k)
		}
		for _, n := range k.Nodes {
			if n.Ready == (n.Node == edge.Name) {
				t.Errorf("%+v", n)
			}
		}
		<-time.After(2 * time.Minute)
		if alarms := leader.Cluster.Standing().Alarms; len(alarms) != 1 || !strings.Contains(alarms[0], edge.Name) {
			t.Errorf("alarms %q", alarms)
		}
		s.Network.Heal()
		wantOneKey(t, leader, 1, 4, time.Minute)
		if alarms := leader.Cluster.Standing().Alarms; len(alarms) != 0 {
			t.Errorf("afterwards: %q", alarms)
		}
	})
}

// Who is revoked does not get the next key, whomever it asks.
func TestRevocationReplacesTheKey(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(1)
		s := agenttest.Simulate(t, network, 3)
		var dir string
		out := s.Add().Joins(s.Nodes[0].Token("edge"))
		out.Change = func(o *cluster.Options) { dir = o.Dir }
		out.Start()
		s.AwaitMembers(4)
		ctx, cancel := within(30 * time.Second)
		defer cancel()
		if err := s.Nodes[1].Cluster.ForceLeave(ctx, out.Name, true); err != nil {
			t.Fatal(err)
		}
		wantOneKey(t, s.Nodes[0], 1, 3, 30*time.Second)
		<-time.After(time.Minute)
		id, err := identity.Open(identity.Options{Path: filepath.Join(dir, "identity"), Node: out.ID})
		if err != nil {
			t.Fatal(err)
		}
		if its := identity.GossipKeyID(id.GossipKeys()[0]); its == ringOf(t, s.Nodes[0]).Keys[0] {
			t.Error("it has the next key")
		}
		out.Stop()
		for _, n := range s.Nodes[:3] {
			raw, err := network.Host(out.IP).Dial(t.Context(), n.IP+":7946")
			if err != nil {
				t.Fatal(err)
			}
			conn, _, err := id.Client(t.Context(), raw, identity.ProtocolPeer, "")
			if err == nil {
				request, _ := http.NewRequest(http.MethodGet, "http://node/node/keys", nil)
				if err = request.Write(conn); err == nil {
					_, err = conn.Read(make([]byte, 1))
				}
			}
			raw.Close()
			if err == nil {
				t.Errorf("%s gives it an answer", n.Name)
			}
		}
	})
}
