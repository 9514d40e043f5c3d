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
