package cli

import (
	"testing"

	"grapevine/agent/api"
	"grapevine/gateway"
)

func TestClusters(t *testing.T) {
	booking := gateway.LiveCluster{
		ID: "booking", Source: "operator", Balancing: "roundRobin", InFlight: 3, MaxConcurrent: 10, MaxConnections: 5,
		Breaker: &gateway.ForwardBreaker{State: "open", OpenForMs: 12_000}, Destinations: []gateway.ForwardDestination{
			{Address: "http://10.0.0.1:80", Weight: 1, InFlight: 3, Health: "healthy", Use: "yes"},
			{Address: "http://10.0.0.2:80", Weight: 1, Health: "ejected", Use: "last"},
		},
	}
	list := api.ClusterList{Rev: "1.7", Clusters: []gateway.LiveCluster{
		booking, {ID: "root", Source: "static", Balancing: "random", Destinations: []gateway.ForwardDestination{}},
	}}
	members := api.MemberList{Members: []api.Member{
		{Node: "edge-1", Status: "alive"}, {Node: "edge-2", Status: "dead"}, {Node: "edge-3", Status: "suspect"},
	}}
	s := newPrepared(t, map[string]any{
		"GET /v1/clusters": list, "GET /v1/clusters/booking": booking, "GET /v1/members": members,
		"POST /v1/clusters/reset-breaker": api.BreakerState{Node: "edge-1", Cluster: "booking", Before: "open"},
	})
	s.check(t, "clusters list", 0, ""+
		"ID       SOURCE    BALANCING   BREAKER       USED  INFLIGHT\n"+
		"booking  operator  roundRobin  open for 12s  1/2   3/10\n"+
		"root     static    random      -             0/0   0\n", "", "GET /v1/clusters")
	s.check(t, "clusters list -o name", 0, "booking\nroot\n", "", "GET /v1/clusters")
	s.check(t, "clusters show booking", 0, ""+
		"DESTINATION         WEIGHT  INFLIGHT  HEALTH   USED  WHY\n"+
		"http://10.0.0.1:80  1       3/5       healthy  yes\n"+
		"http://10.0.0.2:80  1       0/5       ejected  last\n",
		"breaker open for 12s, 0 calls went well and 0 failed\n", "GET /v1/clusters/booking")
	s.check(t, "clusters reset-breaker booking --node edge-1", 0, ""+
		"NODE    CLUSTER  BEFORE  NOW\n"+
		"edge-1  booking  open    closed\n", "", `POST /v1/clusters/reset-breaker?node=edge-1 {"cluster":"booking"}`)
	s.check(t, "clusters reset-breaker booking -o name", 0, "edge-1\nedge-1\n", "",
		"GET /v1/members", `POST /v1/clusters/reset-breaker?node=edge-1 {"cluster":"booking"}`, `POST /v1/clusters/reset-breaker?node=edge-3 {"cluster":"booking"}`)
}
