package agenttest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/kv/memnet"
)

// inFakeTime runs f in a bubble, without the race detector: with it a minute of
// heartbeats takes one.
func inFakeTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	if raceEnabled {
		t.Skip("runs without the race detector: make test does both")
	}
	synctest.Test(t, f)
}

// simulate runs f in fake time with a cluster of n nodes that may vote, and edges, on
// a calm network.
func simulate(t *testing.T, n, edges int, f func(t *testing.T, s *agenttest.Simulation)) {
	t.Helper()
	inFakeTime(t, func(t *testing.T) {
		network := memnet.New(1)
		network.SetDelay(200*time.Microsecond, 2*time.Millisecond)
		s := agenttest.Simulate(t, network, n)
		if edges > 0 {
			s.Grow(edges, "edge")
		}
		f(t, s)
	})
}

// respond is a route that answers with a body.
func respond(path, body string) string {
	return fmt.Sprintf(`{"path":%q,"respond":{"status":200,"body":%q}}`, path, body)
}

// Nodes that join in a wave know each other, and hold and serve the same.
func TestWaveOfNodesConverges(t *testing.T) {
	for _, n := range []int{3, 9} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			simulate(t, n, 0, func(t *testing.T, s *agenttest.Simulation) {
				s.Nodes[n-1].MustSet("gateway/routes/a", respond("/a", "a"))
				if took := s.AwaitEqual(2 * time.Second); took > time.Second {
					t.Errorf("a change reached all after %v", took)
				}
			})
		})
	}
}
