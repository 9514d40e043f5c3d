package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/gateway"
)

// Breakers and health are each node's own. With --all every live node is asked, so that one which sees something else
// than the others shows.

func allFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "all", Usage: "ask every live node, since breakers and health are each node's own"}
}

// nodeClusters is what one node says of clusters.
type nodeClusters struct {
	Node     string                `json:"node"`
	Rev      string                `json:"rev,omitempty"`
	Problem  string                `json:"problem,omitempty"` // why it did not answer
	Clusters []gateway.LiveCluster `json:"clusters"`
}

// askAll asks every live node for its clusters, at the same time. Those that do not answer say why.
func (s *session) askAll(c *urfave.Context) ([]nodeClusters, error) {
	if c.IsSet("node") {
		return nil, usageError("--all asks every node, and --node one: give one of them")
	}
	names, err := s.liveNodes(c)
	if err != nil {
		return nil, err
	}
	answers := make([]nodeClusters, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() { answers[i] = s.askOne(c.Context, name) })
	}
	asking.Wait()
	return answers, nil
}

func (s *session) askOne(ctx context.Context, node string) nodeClusters {
	n := nodeClusters{Node: node, Clusters: []gateway.LiveCluster{}}
	var list api.ClusterList
	r := request{method: http.MethodGet, path: "/v1/clusters", query: url.Values{"node": {node}}}
	if err := s.agent.fetch(ctx, r, &list); err != nil {
		n.Problem = err.Error()
		return n
	}
	n.Rev, n.Clusters = list.Rev, list.Clusters
	return n
}

// unanswered says which nodes have not answered, and is what becomes of the command then.
func (s *session) unanswered(answers []nodeClusters) error {
	silent := 0
	for _, n := range answers {
		if n.Problem != "" {
			silent++
			s.say("node %s: %s", n.Node, n.Problem)
		}
	}
	if silent == 0 {
		return nil
	}
	return &failure{code: exitFailure, problem: fmt.Sprintf("%d of %d nodes did not answer", silent, len(answers))}
}

func (s *session) listAll(c *urfave.Context) error {
	answers, err := s.askAll(c)
	if err != nil {
		return err
	}
	name := func(n nodeClusters) string { return n.Node }
	err = printList(s.out, answers, name, func(w io.Writer) error {
		t := table{head: []string{"ID", "NODE", "BREAKER", "USED", "INFLIGHT", "NOT WELL"}, paint: paintBreaker(s.out.style)}
		for _, id := range clusterIDs(answers) {
			for _, n := range answers {
				if cl, there := n.cluster(id); there {
					t.rows = append(t.rows, []string{id, n.Node, breakerState(cl.Breaker), usageOf(cl), inFlight(cl.InFlight, cl.MaxConcurrent), unwell(cl)})
				}
			}
		}
		return t.write(w)
	})
	return errors.Join(err, s.unanswered(answers))
}

func (s *session) showAll(c *urfave.Context, id string) error {
	answers, err := s.askAll(c)
	if err != nil {
		return err
	}
	known := false
	for i := range answers {
		cl, there := answers[i].cluster(id)
		answers[i].Clusters = []gateway.LiveCluster{}
		if known = known || there; there {
			answers[i].Clusters = []gateway.LiveCluster{cl}
		}
	}
	if !known {
		_ = s.unanswered(answers) // it is said, and what follows is worse
		return fmt.Errorf("cluster %q: no node that answers has it; agent clusters list --all names them", id)
	}
	name := func(n nodeClusters) string { return n.Node }
	err = printList(s.out, answers, name, func(w io.Writer) error {
		t := table{head: []string{"DESTINATION", "NODE", "BREAKER", "INFLIGHT", "HEALTH", "USED", "WHY"}, paint: paintBreaker(s.out.style)}
		for _, address := range addressesIn(answers) {
			for _, n := range answers {
				t.rows = append(t.rows, n.rowsOf(address)...)
			}
		}
		return t.write(w)
	})
	return errors.Join(err, s.unanswered(answers))
}

func (n nodeClusters) rowsOf(address string) (rows [][]string) {
	for _, cl := range n.Clusters {
		for _, d := range cl.Destinations {
			if d.Address == address {
				rows = append(rows, []string{address, n.Node, breakerState(cl.Breaker), inFlight(d.InFlight, cl.MaxConnections), judgedHealth(d), d.Use, d.Why})
			}
		}
	}
	return rows
}

func (n nodeClusters) cluster(id string) (gateway.LiveCluster, bool) {
	for _, cl := range n.Clusters {
		if cl.ID == id {
			return cl, true
		}
	}
	return gateway.LiveCluster{}, false
}

// clusterIDs are the clusters of all nodes, in the order in which they name them.
func clusterIDs(answers []nodeClusters) []string {
	return namesIn(answers, func(cl gateway.LiveCluster) []string { return []string{cl.ID} })
}

func addressesIn(answers []nodeClusters) []string {
	return namesIn(answers, func(cl gateway.LiveCluster) (addresses []string) {
		for _, d := range cl.Destinations {
			addresses = append(addresses, d.Address)
		}
		return addresses
	})
}

func namesIn(answers []nodeClusters, of func(gateway.LiveCluster) []string) (names []string) {
	seen := map[string]bool{}
	for _, n := range answers {
		for _, cl := range n.Clusters {
			for _, name := range of(cl) {
				if !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// unwell names the destinations that get no requests, or only when nothing else is left.
func unwell(cl gateway.LiveCluster) string {
	var list []string
	for _, d := range cl.Destinations {
		if d.Health == "unhealthy" || d.Health == "ejected" {
			list = append(list, d.Address+" "+d.Health)
		}
	}
	return strings.Join(list, ", ")
}

// judgedHealth is a destination's health, with who has asked.
func judgedHealth(d gateway.ForwardDestination) string {
	if d.ByOthers {
		return d.Health + " by others"
	}
	return d.Health
}
