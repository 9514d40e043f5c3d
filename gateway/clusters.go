package gateway

import (
	"cmp"
	"slices"
	"strings"
)

// LiveCluster is a live cluster as this node sees it.
type LiveCluster struct {
	ID             string               `json:"id" doc:"of the cluster; that of a route, when the route lists its backends itself"`
	Source         string               `json:"source" doc:"where its destinations come from, else its policy: operator, announced or static"`
	Balancing      string               `json:"balancing" doc:"how one of its destinations is chosen"`
	Breaker        *ForwardBreaker      `json:"breaker,omitempty" doc:"its circuit breaker; absent without one"`
	Panic          bool                 `json:"panic,omitempty" doc:"so few destinations are healthy that all are used"`
	InFlight       int64                `json:"inFlight" doc:"requests that it has from this node now"`
	MaxConcurrent  int                  `json:"maxConcurrent,omitempty" doc:"how many it may have; absent: any number"`
	MaxConnections int                  `json:"maxConnections,omitempty" doc:"how many each destination may have; absent: any number"`
	Destinations   []ForwardDestination `json:"destinations" doc:"which there are"`
}

// Clusters lists the live clusters by id: those that are named, and those that
// the backends of routes make.
func (t *Table) Clusters() []LiveCluster {
	list := []LiveCluster{}
	for source, c := range t.liveClusters {
		list = append(list, c.statusFrom(source))
	}
	slices.SortFunc(list, func(a, b LiveCluster) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Cluster gives one of them.
func (t *Table) Cluster(id string) (LiveCluster, bool) {
	for source, c := range t.liveClusters {
		if c.id == id {
			return c.statusFrom(source), true
		}
	}
	return LiveCluster{}, false
}

// ResetBreaker closes the breaker of a cluster on this node, and gives the state
// that it had: empty for a cluster that has none. found is false when there is no
// such cluster.
func (t *Table) ResetBreaker(id string) (before string, found bool) {
	for _, c := range t.liveClusters {
		if c.id != id {
			continue
		}
		if c.guard == nil {
			return "", true
		}
		return c.guard.breaker.Reset().String(), true
	}
	return "", false
}

// liveClusters yields each live cluster with its layer. A named one without
// destinations is the policy of a route's, which stands for it.
func (t *Table) liveClusters(yield func(source string, c *cluster) bool) {
	for key, c := range t.clusters.under("") {
		r := t.routes.get(routePrefix + strings.TrimPrefix(key, clusterPrefix))
		stands := r != nil && r.cluster != nil && r.cluster != c && r.cluster.id == c.id
		if !stands && !yield(c.planned.layer, c) {
			return
		}
	}
	for _, r := range t.routes.under("") {
		if c := r.cluster; c != nil && !c.planned.named && !yield(r.planned.layer, c) {
			return
		}
	}
}

func (c *cluster) statusFrom(source string) LiveCluster {
	l, policy := c.lineup.Load(), c.planned.policy
	s := LiveCluster{
		ID: c.id, Source: source, Balancing: c.planned.balancing(), Breaker: c.guard.explain(), Panic: l.panics, InFlight: c.inFlight(),
		MaxConcurrent: policy.MaxConcurrent, MaxConnections: policy.MaxConnections, Destinations: []ForwardDestination{},
	}
	for i, d := range c.destinations {
		s.Destinations = append(s.Destinations, d.explain(l.use(i, d)))
	}
	return s
}
