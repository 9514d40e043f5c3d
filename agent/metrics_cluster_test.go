package agent

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/kv/gossip"
)

// threeNodes is a cluster of which one node is dead, and one reached over TCP alone.
type threeNodes struct{}

func (threeNodes) Members() []api.Member {
	return []api.Member{
		{Node: "edge-1", Status: api.StatusAlive, Self: true},
		{Node: "edge-2", Status: api.StatusAlive, UDPBlocked: true},
		{Node: "edge-3", Status: api.StatusDead},
	}
}

func (threeNodes) Standing() api.Standing {
	return api.Standing{Alarms: []string{"UDP is blocked to edge-2"}}
}

func (threeNodes) Counts() gossip.Counts  { return gossip.Counts{} }
func (threeNodes) Owners() cluster.Owners { return cluster.Owners{} }

func TestMetricsTellOfBlockedUDP(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newClusterMetrics(threeNodes{}))
	err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP grapevine_cluster_alarms What an operator has to look at; agent status tells.
# TYPE grapevine_cluster_alarms gauge
grapevine_cluster_alarms 1
# HELP grapevine_cluster_members Nodes of the cluster that this one knows, by status (alive, suspect, dead, left).
# TYPE grapevine_cluster_members gauge
grapevine_cluster_members{status="alive"} 2
grapevine_cluster_members{status="dead"} 1
grapevine_cluster_members{status="left"} 0
grapevine_cluster_members{status="suspect"} 0
# HELP grapevine_cluster_udp_blocked_members Members that live and that this node reaches over TCP alone, since UDP is blocked on the way; agent reachability tells where.
# TYPE grapevine_cluster_udp_blocked_members gauge
grapevine_cluster_udp_blocked_members 1
`), "grapevine_cluster_udp_blocked_members", "grapevine_cluster_members", "grapevine_cluster_alarms")
	if err != nil {
		t.Error(err)
	}
}
