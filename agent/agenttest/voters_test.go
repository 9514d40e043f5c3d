package agenttest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"grapevine/agent/agenttest"
)

// An operator's demotion sticks: over changes of the leader and of the members, until
// the node is promoted. Everybody sees it.
func TestDemotedNodeHasNoVote(t *testing.T) {
	simulate(t, 4, 0, func(t *testing.T, s *agenttest.Simulation) {
		s.AwaitVoters(3)
		leader := s.AwaitLeader(10 * time.Second)
		var out *agenttest.Simulated
		for _, n := range s.Nodes {
			if n != leader && n.Role() == "voter" {
				out = n
			}
		}
		must := func(change func(context.Context, string) error, of *agenttest.Simulated) {
			t.Helper()
			ctx, cancel := within(20 * time.Second)
			defer cancel()
			if err := change(ctx, of.ID); err != nil {
				t.Fatal(err)
			}
		}
		must(out.Cluster.Demote, out)
		s.AwaitAll("it is known as demoted", 10*time.Second, func(by *agenttest.Simulated) bool { return demoted(t, by, out) })
		leads := func(stage string) {
			t.Helper()
			<-time.After(30 * time.Second)
			s.AwaitVoters(3)
			if role := out.Role(); role == "voter" {
				t.Errorf("%s: the demoted node is a %s", stage, role)
			}
		}
		leads("after a while")
		ctx, cancel := within(20 * time.Second)
		defer cancel()
		if _, err := leader.Cluster.TransferLeadership(ctx, ""); err != nil {
			t.Fatal(err)
		}
		leads("under the next leader")
		out.Crash()
		out.Start()
		leads("after its restart")

		must(leader.Cluster.Promote, out)
		s.AwaitAll("it may vote", 10*time.Second, func(by *agenttest.Simulated) bool { return !demoted(t, by, out) })
	})
}

// demoted is what one node says of another, in both lists.
func demoted(t *testing.T, by, of *agenttest.Simulated) bool {
	t.Helper()
	ctx, cancel := within(time.Second)
	defer cancel()
	peers, err := by.Cluster.Peers(ctx)
	if err != nil {
		return false
	}
	inPeers, inMembers := true, false // who is no peer is not told of
	for _, p := range peers {
		if p.ID == of.ID {
			inPeers = p.Demoted
		}
	}
	for _, m := range by.Cluster.Members() {
		if m.ID == of.ID {
			inMembers = m.Demoted
		}
	}
	return inPeers && inMembers
}

// A voter that is restarted while others write keeps its place: its store takes
// nothing past its log while it stops.
func TestRestartsUnderWritesKeepTheVote(t *testing.T) {
	simulate(t, 3, 0, func(t *testing.T, s *agenttest.Simulation) {
		s.AwaitVoters(3)
		leader := s.AwaitLeader(10 * time.Second)
		var other *agenttest.Simulated
		for _, n := range s.Nodes {
			if n != leader {
				other = n
			}
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
					leader.MustSet("app/k", fmt.Sprint(i))
				}
			}
		}()
		for range 2 {
			<-time.After(2 * time.Second)
			other.Stop()
			<-time.After(time.Second)
			other.Start()
		}
		close(stop)
		<-stopped
		s.AwaitEqual(10 * time.Second)
		if aside, err := filepath.Glob(other.File("raft.old-*")); err != nil || len(aside) > 0 {
			t.Errorf("its log was put aside: %q, %v", aside, err)
		}
		s.AwaitVoters(3)
	})
}
