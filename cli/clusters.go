package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/gateway"
)

func (p *program) clusters() *urfave.Command {
	return &urfave.Command{Name: "clusters", Usage: "look at the clusters of backends: breakers, health and load", Subcommands: []*urfave.Command{
		withNode(&urfave.Command{
			Name: "list", Usage: "list the live clusters, as the agent that answers sees them",
			Description: "BREAKER is - where the cluster asks for none, and USED how many of its destinations get requests.",
			Flags:       []urfave.Flag{allFlag()},
			Action:      p.runClustersList,
		}),
		withNode(&urfave.Command{
			Name: "show", Usage: "show the destinations of a cluster, and its breaker", ArgsUsage: "CLUSTER",
			Flags:  []urfave.Flag{allFlag()},
			Action: p.runClustersShow,
		}),
		withNode(&urfave.Command{
			Name: "reset-breaker", Usage: "close the circuit breaker of a cluster, on every live node", ArgsUsage: "CLUSTER",
			Description: "It opens again if the cluster goes on failing. With --node it is closed on that node alone.",
			Category:    changeCategory,
			Action:      p.runResetBreaker,
		}),
	}}
}

func (p *program) runClustersList(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	if c.Bool("all") {
		return s.listAll(c)
	}
	var list api.ClusterList
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/clusters"}, &list); err != nil {
		return err
	}
	name := func(cl gateway.LiveCluster) string { return cl.ID }
	return printList(s.out, list.Clusters, name, func(w io.Writer) error {
		if len(list.Clusters) == 0 {
			s.say("no clusters at revision %s", shortRev(list.Rev))
			return nil
		}
		return clusterTable(list.Clusters, s.out.style).write(w)
	})
}

func clusterTable(clusters []gateway.LiveCluster, style style) table {
	t := table{head: []string{"ID", "SOURCE", "BALANCING", "BREAKER", "USED", "INFLIGHT"}}
	for _, cl := range clusters {
		t.rows = append(t.rows, []string{cl.ID, cl.Source, cl.Balancing, breakerState(cl.Breaker), usageOf(cl), inFlight(cl.InFlight, cl.MaxConcurrent)})
	}
	t.paint = paintBreaker(style)
	return t
}

// usageOf is how many of the destinations get requests.
func usageOf(cl gateway.LiveCluster) string {
	used := 0
	for _, d := range cl.Destinations {
		if d.Use == "yes" {
			used++
		}
	}
	usage := fmt.Sprintf("%d/%d", used, len(cl.Destinations))
	if cl.Panic {
		usage += " (panic)"
	}
	return usage
}

func breakerState(b *gateway.ForwardBreaker) string {
	switch {
	case b == nil:
		return "-"
	case b.OpenForMs > 0:
		return fmt.Sprintf("open for %s", lasting(time.Duration(b.OpenForMs)*time.Millisecond))
	default:
		return b.State
	}
}

func paintBreaker(style style) func(string) string {
	return func(cell string) string {
		switch {
		case len(cell) >= 4 && cell[:4] == "open", cell == "unhealthy", cell == "ejected":
			return style.bad(cell)
		case cell == "half-open":
			return style.faint(cell)
		}
		return cell
	}
}

func inFlight(n int64, most int) string {
	if most > 0 {
		return fmt.Sprintf("%d/%d", n, most)
	}
	return fmt.Sprint(n)
}

func (p *program) runClustersShow(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	id := c.Args().First()
	if c.Bool("all") {
		return s.showAll(c, id)
	}
	var cl gateway.LiveCluster
	r := request{method: http.MethodGet, path: "/v1/clusters/" + segment(id), next: "agent clusters list"}
	if err := s.agent.fetch(c.Context, r, &cl); err != nil {
		return err
	}
	return printOne(s.out, cl, cl.ID, func(w io.Writer) error {
		if b := cl.Breaker; b != nil {
			s.say("breaker %s, %d calls went well and %d failed", breakerState(b), b.Successes, b.Failures)
		}
		t := table{head: []string{"DESTINATION", "WEIGHT", "INFLIGHT", "HEALTH", "USED", "WHY"}, paint: paintBreaker(s.out.style)}
		for _, d := range cl.Destinations {
			t.rows = append(t.rows, []string{d.Address, fmt.Sprint(d.Weight), inFlight(d.InFlight, cl.MaxConnections), judgedHealth(d), d.Use, d.Why})
		}
		return t.write(w)
	})
}

// runResetBreaker asks each live node in turn: a breaker is a node's own.
func (p *program) runResetBreaker(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	nodes, id := []string{""}, c.Args().First()
	if !c.IsSet("node") {
		if nodes, err = s.liveNodes(c); err != nil {
			return err
		}
	}
	var reset []api.BreakerState
	for _, node := range nodes {
		r := request{method: http.MethodPost, path: "/v1/clusters/reset-breaker", next: "agent clusters list", check: "agent clusters show " + id}
		if node != "" {
			r.query = url.Values{"node": {node}}
		}
		var state api.BreakerState
		if err := s.change(c.Context, r, api.BreakerReset{Cluster: id}, &state); err != nil {
			s.say("%d of %d nodes have it closed", len(reset), len(nodes))
			return err
		}
		reset = append(reset, state)
	}
	name := func(b api.BreakerState) string { return b.Node }
	return printList(s.out, reset, name, func(w io.Writer) error {
		t := table{head: []string{"NODE", "CLUSTER", "BEFORE", "NOW"}, paint: paintBreaker(s.out.style)}
		for _, b := range reset {
			t.rows = append(t.rows, []string{b.Node, b.Cluster, b.Before, "closed"})
		}
		return t.write(w)
	})
}

// liveNodes are the names of the nodes that live and run a gateway.
func (s *session) liveNodes(c *urfave.Context) (names []string, err error) {
	var list api.MemberList
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/members"}, &list); err != nil {
		return nil, err
	}
	for _, m := range list.Members {
		if (m.Status == api.StatusAlive || m.Status == api.StatusSuspect) && !m.NoGateway {
			names = append(names, m.Node)
		}
	}
	return names, nil
}
