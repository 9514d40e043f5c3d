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
