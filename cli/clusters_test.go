package cli

import (
	"slices"
	"strings"
	"testing"

	"grapevine/agent/api"
	"grapevine/gateway"
)

func TestClusters(t *testing.T) {
	booking := gateway.LiveCluster{
		ID: "booking", Source: "operator", Balancing: "roundRobin", InFlight: 3, MaxConcurrent: 10, MaxConnections: 5,
		Breaker: &gateway.ForwardBreaker{State: "open", OpenForMs: 12_000}, Destinations: []gateway.ForwardDestination{
			{Address: "http://10.0.0.1:80", Weight: 1, InFlight: 3, Health: "healthy", ByOthers: true, Use: "yes"},
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
		"DESTINATION         WEIGHT  INFLIGHT  HEALTH             USED  WHY\n"+
		"http://10.0.0.1:80  1       3/5       healthy by others  yes\n"+
		"http://10.0.0.2:80  1       0/5       ejected            last\n",
		"breaker open for 12s, 0 calls went well and 0 failed\n", "GET /v1/clusters/booking")
	s.checkAll(t, "clusters list --all", ""+
		"ID       NODE    BREAKER       USED  INFLIGHT  NOT WELL\n"+
		"booking  edge-1  open for 12s  1/2   3/10      http://10.0.0.2:80 ejected\n"+
		"booking  edge-3  open for 12s  1/2   3/10      http://10.0.0.2:80 ejected\n"+
		"root     edge-1  -             0/0   0\n"+
		"root     edge-3  -             0/0   0\n")
	s.checkAll(t, "clusters show booking --all", ""+
		"DESTINATION         NODE    BREAKER       INFLIGHT  HEALTH             USED  WHY\n"+
		"http://10.0.0.1:80  edge-1  open for 12s  3/5       healthy by others  yes\n"+
		"http://10.0.0.1:80  edge-3  open for 12s  3/5       healthy by others  yes\n"+
		"http://10.0.0.2:80  edge-1  open for 12s  0/5       ejected            last\n"+
		"http://10.0.0.2:80  edge-3  open for 12s  0/5       ejected            last\n")
	if r, _ := s.call("clusters show nothing --all"); r.exit != exitFailure || !strings.Contains(r.stderr, `cluster "nothing"`) {
		t.Errorf("of a cluster that there is not: %+v", r)
	}
	if r, _ := s.call("clusters list --all --node edge-1"); r.exit != exitUsage {
		t.Errorf("--all with --node: %+v", r)
	}
	s.check(t, "clusters reset-breaker booking --node edge-1", 0, ""+
		"NODE    CLUSTER  BEFORE  NOW\n"+
		"edge-1  booking  open    closed\n", "", `POST /v1/clusters/reset-breaker?node=edge-1 {"cluster":"booking"}`)
	s.check(t, "clusters reset-breaker booking -o name", 0, "edge-1\nedge-1\n", "",
		"GET /v1/members", `POST /v1/clusters/reset-breaker?node=edge-1 {"cluster":"booking"}`, `POST /v1/clusters/reset-breaker?node=edge-3 {"cluster":"booking"}`)
}

// checkAll is check for a command that asks all nodes at the same time.
func (s *prepared) checkAll(t *testing.T, line, stdout string) {
	t.Helper()
	r, asked := s.call(line)
	slices.Sort(asked)
	want := []string{"GET /v1/clusters?node=edge-1", "GET /v1/clusters?node=edge-3", "GET /v1/members"}
	if r.exit != 0 || r.stdout != stdout || !slices.Equal(asked, want) {
		t.Errorf("%s\nexit %d\nstdout:\n%swant:\n%s\nstderr:\n%s\nasked %q", line, r.exit, r.stdout, stdout, r.stderr, asked)
	}
}

// A node that does not answer is named, and keeps nobody from the others' answers.
func TestClustersOfNodesThatDoNotAnswer(t *testing.T) {
	s := newPrepared(t, map[string]any{
		"GET /v1/members":  api.MemberList{Members: []api.Member{{Node: "edge-1", Status: "alive"}, {Node: "door", Status: "alive", NoGateway: true}}},
		"GET /v1/clusters": &api.Problem{Status: 503, Code: "unreachable", Detail: "the node can't be reached"},
	})
	r, asked := s.call("clusters list --all")
	if r.exit == 0 || !strings.Contains(r.stderr, "node edge-1: ") || !strings.HasPrefix(r.stdout, "ID ") || len(asked) != 2 {
		t.Errorf("%+v, asked %q", r, asked)
	}
}
