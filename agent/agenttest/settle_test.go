package agenttest_test

import (
	"errors"
	"path/filepath"
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

// split is a cluster of three voters and an edge, whose folders are known.
type split struct {
	*agenttest.Simulation
	dirs map[*agenttest.Simulated]string
	t    *testing.T
}

func simulateSplit(t *testing.T, f func(t *testing.T, s *split)) {
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(1)
		network.SetDelay(200*time.Microsecond, 2*time.Millisecond)
		s := &split{agenttest.NewSimulation(t, network, "10.0.0"), map[*agenttest.Simulated]string{}, t}
		for i := range 4 {
			n := s.Add()
			n.Change = func(o *cluster.Options) { s.dirs[n] = o.Dir }
			if i > 0 {
				role := "voter"
				if i == 3 {
					role = "edge"
				}
				n.Joins(s.Nodes[0].Token(role))
			}
			n.Start()
			s.AwaitLeader(20 * time.Second)
		}
		s.AwaitMembers(4)
		s.AwaitVoters(3)
		s.Nodes[0].MustSet("app/a", `"all"`)
		s.Nodes[0].MustSet("app/b", `"all"`)
		s.AwaitEqual(2 * time.Second)
		f(t, s)
	})
}

// rewrites has a node that is down hold something that the cluster never decided on,
// with a voter's signature, as after a fault of its disk or of this program.
func (s *split) rewrites(n *agenttest.Simulated, change func(store *kv.Store, sign func([]byte) [64]byte)) {
	s.t.Helper()
	id, err := identity.Open(identity.Options{Path: filepath.Join(s.dirs[s.Nodes[0]], "identity"), Node: s.Nodes[0].ID})
	if err != nil {
		s.t.Fatal(err)
	}
	store, err := kv.Open(kv.Options{Path: filepath.Join(s.dirs[n], "kv.db")})
	if err != nil {
		s.t.Fatal(err)
	}
	change(store, id.Authority().Sign)
	if err := store.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// writes is a change of rewrites that adds a revision to the node's history.
func (s *split) writes(ops ...kv.Op) func(*kv.Store, func([]byte) [64]byte) {
	return func(store *kv.Store, sign func([]byte) [64]byte) {
		view := store.View()
		commit, _, err := view.Resolve(kv.Txn{Then: ops, At: time.Now()})
		if err == nil {
			commit.Index = view.Head().Index
			commit.Signature = sign(commit.Head(view.Head().EpochID).SigningBytes())
			err = store.Merge(commit)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func newEpoch(store *kv.Store, sign func([]byte) [64]byte) {
	if err := store.NewEpoch([16]byte{7}, sign); err != nil {
		panic(err)
	}
}

// awaitAlarm waits until the leader has an alarm about a node.
func (s *split) awaitAlarm(about *agenttest.Simulated) (leader *agenttest.Simulated, alarm api.Alarm) {
	s.t.Helper()
	leader = s.AwaitLeader(20 * time.Second)
	leader.Await("an alarm", 30*time.Second, func() bool {
		alarms, err := leader.Cluster.Alarms()
		if err != nil || len(alarms) == 0 {
			return false
		}
		alarm = alarms[0]
		return alarm.ID == about.ID
	})
	return leader, alarm
}

// An edge that is in a higher epoch than the cluster takes back what the cluster has.
func TestSettleAnEdge(t *testing.T) {
	simulateSplit(t, func(t *testing.T, s *split) {
		edge := s.Nodes[3]
		edge.Stop()
		s.rewrites(edge, newEpoch)
		s.rewrites(edge, s.writes(kv.Put("app/a", []byte(`"edge"`))))
		edge.Start()
		leader, alarm := s.awaitAlarm(edge)
		if alarm.Kind != "higher epoch elsewhere" || alarm.StopsWrites || alarm.Role != "edge" {
			t.Errorf("%+v", alarm)
		}
		leader.MustSet("app/c", "1") // an edge stops nothing

		ctx, cancel := within(30 * time.Second)
		defer cancel()
		d, err := leader.Cluster.Difference(ctx, edge.Name)
		if err != nil || d.Voter || len(d.Keys) != 2 || d.Keys[0] != (api.KeyDifference{Key: "app/a", Is: api.Different}) || d.Keys[1] != (api.KeyDifference{Key: "app/c", Is: api.OnlyHere}) {
			t.Errorf("%+v, %v", d, err)
		}
		var refused *api.RefusedError
		if _, err := leader.Cluster.Settle(ctx, edge.Name, api.KeepNode); !errors.As(err, &refused) || !strings.Contains(err.Error(), "no voter") {
			t.Errorf("what an edge holds is kept: %v", err)
		}
		if _, err := leader.Cluster.Settle(ctx, s.Nodes[1].Name, api.KeepCluster); !errors.As(err, &refused) {
			t.Errorf("a node without an alarm: %v", err)
		}
		got, err := s.Nodes[1].Cluster.Settle(ctx, edge.Name, api.KeepCluster)
		if err != nil || got.Node != edge.Name || got.Restart || got.Keys != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		s.AwaitEqual(10 * time.Second)
		leader.Await("no alarm", 10*time.Second, func() bool { alarms, _ := leader.Cluster.Alarms(); return len(alarms) == 0 })
		if kept, err := filepath.Glob(filepath.Join(s.dirs[edge], "lkg-*.snap")); err != nil || len(kept) != 1 {
			t.Errorf("kept %q, %v", kept, err)
		}
		edge.MustSet("app/a", `"again"`)
		s.AwaitEqual(2 * time.Second)
	})
}

// A voter holds a revision that nobody decided on: nothing is written until an operator
// has, and then all hold what he wanted.
func TestSettleAVoter(t *testing.T) {
	for _, keep := range []api.Keep{api.KeepCluster, api.KeepNode} {
		simulateSplit(t, func(t *testing.T, s *split) {
			leader := s.AwaitLeader(10 * time.Second)
			voter := s.Nodes[1]
			if voter == leader {
				voter = s.Nodes[2]
			}
			voter.Stop()
			s.rewrites(voter, s.writes(kv.Put("app/a", []byte(`"voter"`)), kv.Delete("app/b")))
			voter.Start()
			leader, alarm := s.awaitAlarm(voter)
			if !alarm.StopsWrites {
				t.Errorf("%+v", alarm)
			}
			if _, err := leader.Set("app/c", "1", 5*time.Second); err == nil || !strings.Contains(err.Error(), "agent alarms show "+voter.Name) {
				t.Errorf("it writes: %v", err)
			}
			ctx, cancel := within(time.Minute)
			defer cancel()
			var settled api.Settled
			done := make(chan error, 1)
			go func() {
				var err error
				settled, err = leader.Cluster.Settle(ctx, voter.Name, keep)
				done <- err
			}()
			select {
			case <-voter.Left():
				voter.Stop()
			case err := <-done:
				t.Fatalf("keep %s: %+v, %v", keep, settled, err)
			}
			if err := <-done; err != nil {
				t.Fatalf("keep %s: %v", keep, err)
			}
			want := `"all"`
			if keep == api.KeepNode {
				want = `"voter"`
			}
			if got := leader.Get("app/a"); got != want || !settled.Restart || (settled.Keys > 0) != (keep == api.KeepNode) || (leader.Get("app/b") == "") != (keep == api.KeepNode) {
				t.Errorf("keep %s: the leader has %s, %+v", keep, got, settled)
			}
			leader.MustSet("app/c", "1")
			voter.Start()
			// The edge may have heard of it first, and took what a voter had signed.
			<-time.After(10 * time.Second)
			alarms, err := leader.Cluster.Alarms()
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range alarms { // of several kinds, maybe
				if a.ID != s.Nodes[3].ID {
					t.Errorf("keep %s: an alarm about %+v", keep, a)
				}
			}
			if len(alarms) > 0 {
				if _, err := leader.Cluster.Settle(ctx, s.Nodes[3].ID, api.KeepCluster); err != nil {
					t.Errorf("keep %s: %v", keep, err)
				}
			}
			s.AwaitEqual(30 * time.Second)
			s.AwaitVoters(3)
			if got := voter.Get("app/a"); got != want {
				t.Errorf("keep %s: the voter has %s", keep, got)
			}
			voter.MustSet("app/d", "1")
			leader.Await("no alarm", 10*time.Second, func() bool { alarms, _ := leader.Cluster.Alarms(); return len(alarms) == 0 })
		})
	}
}
