package agenttest_test

import (
	"net/http"
	"testing"

	"grapevine/agent/agenttest"
)

// A route that is written on one node is served by all.
func TestChangeIsServedEverywhere(t *testing.T) {
	nodes := agenttest.Start(t, 3)
	nodes[1].Set("gateway/routes/hello", `{"path":"/hello","respond":{"status":200,"body":"hi"}}`, "all")
	for _, n := range nodes {
		if status, body := n.Get("/hello"); status != http.StatusOK || body != "hi" {
			t.Errorf("%s: %d %q", n.Config.Node, status, body)
		}
	}
}

// Three nodes that may vote come to be three voters, and each node is told who
// leads.
func TestThreeNodesVote(t *testing.T) {
	nodes := agenttest.Start(t, 3)
	for _, n := range nodes {
		n.Await("three voters and a leader", func() bool { return n.Voters() == 3 && n.Leader() != "" })
	}
}

// When the leader stops, another one leads, and writes go on.
func TestLeaderStops(t *testing.T) {
	nodes := agenttest.Start(t, 3)
	nodes[0].Await("three voters", func() bool { return nodes[0].Voters() == 3 })
	nodes[0].Set("app/before", `"1"`, "all")
	nodes[0].Stop()
	nodes[1].Set("app/after", `"2"`, "all")
	first := nodes[0].Again()
	first.Await("what was written meanwhile", func() bool {
		status, _ := first.Call(http.MethodGet, "/v1/kv/app/after", nil, nil)
		return status == http.StatusOK
	})
	first.Await("three voters", func() bool { return first.Voters() == 3 })
}

// The leader may leave for good: another leads then, and nobody looks for it.
func TestLeaderLeaves(t *testing.T) {
	nodes := agenttest.Start(t, 3)
	nodes[1].Await("three voters and a leader", func() bool { return nodes[1].Voters() == 3 && nodes[1].Leader() != "" })
	leader, rest := nodes[0], nodes[1:]
	if leader.Leader() != leader.Config.Node {
		leader.MustCall(http.MethodPost, "/v1/raft/transfer-leadership", map[string]any{"node": leader.Config.Node}, nil)
		leader.Await("leadership", func() bool { return leader.Leader() == leader.Config.Node })
	}
	leader.MustCall(http.MethodPost, "/v1/leave", map[string]any{}, nil)
	for _, n := range rest {
		n.Await("two members and a leader among them", func() bool {
			return n.Alive() == 2 && n.Leader() != "" && n.Leader() != leader.Config.Node
		})
	}
	rest[0].Set("app/after", `"it goes on"`, "all")
}
