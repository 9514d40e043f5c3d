package gateway

import (
	"fmt"
	"strings"
	"time"
)

// Readiness says whether a node should get traffic, and what decides. It names no
// address: anybody who reaches the proxy may ask.
type Readiness struct {
	Status      string             `json:"status"`           // ready or not_ready
	Reason      string             `json:"reason,omitempty"` // why it is not
	Draining    bool               `json:"draining"`         // the node is about to stop
	Table       *ReadyTable        `json:"table,omitempty"`  // nil: none is loaded
	Require     *ReadyRequire      `json:"require,omitempty"`
	Maintenance []ReadyMaintenance `json:"maintenance,omitempty"` // which makes no node unready
}

// ReadyTable is the live table.
type ReadyTable struct {
	Rev     string    `json:"rev"`
	Hash    string    `json:"hash"`
	BuiltAt time.Time `json:"builtAt"`
	Routes  int       `json:"routes"`
}

// ReadyRequire is what gateway/config/ready requires.
type ReadyRequire struct {
	Policy   string         `json:"policy"` // all or any
	Clusters []ReadyCluster `json:"clusters"`
}

// ReadyCluster is one required cluster.
type ReadyCluster struct {
	ID           string `json:"id"`
	Ready        bool   `json:"ready"`
	Destinations int    `json:"destinations"`
	Live         int    `json:"live"` // of them, as far as this node knows
	Reason       string `json:"reason,omitempty"`
}

// ReadyMaintenance is a maintenance that is on.
type ReadyMaintenance struct {
	Cluster string     `json:"cluster"` // empty: the whole gateway
	Scope   string     `json:"scope"`   // all or node
	Until   *time.Time `json:"until,omitempty"`
}

const (
	statusReady    = "ready"
	statusNotReady = "not_ready"
)

// readiness says whether the node should get traffic: nobody has begun to drain
// it, a table is live, it knows what its cluster serves, and the clusters that
// gateway/config/ready requires have a live destination.
func (g *Gateway) readiness(t *Table) (bool, string) {
	switch {
	case g.draining.Load():
		return false, "the node is draining"
	case t == nil:
		return false, "no route table is loaded"
	}
	if why := g.waiting(); why != "" {
		return false, why
	}
	return t.required()
}

// details are readiness with all that it follows from.
func (g *Gateway) details(t *Table) Readiness {
	ready, reason := g.readiness(t)
	r := Readiness{Status: statusReady, Reason: reason, Draining: g.draining.Load()}
	if !ready {
		r.Status = statusNotReady
	}
	if t == nil {
		return r
	}
	r.Table = &ReadyTable{Rev: t.Rev().String(), Hash: t.Hash(), BuiltAt: t.BuiltAt(), Routes: t.Len()}
	if config := &t.plan.settings.ready; len(config.Require) > 0 {
		r.Require = &ReadyRequire{Policy: policyOf(config.Policy)}
		for _, id := range config.Require {
			r.Require.Clusters = append(r.Require.Clusters, t.readyCluster(string(id)))
		}
	}
	for _, m := range t.Maintenance() {
		if m.State == MaintenanceOn {
			r.Maintenance = append(r.Maintenance, ReadyMaintenance{m.Cluster, m.Scope, m.Until})
		}
	}
	return r
}

func policyOf(policy string) string {
	if policy == "" {
		return "all"
	}
	return policy
}

// required tells whether the required clusters are there, by the policy.
func (t *Table) required() (bool, string) {
	config := &t.plan.settings.ready
	var missing []string
	for _, id := range config.Require {
		if c := t.readyCluster(string(id)); !c.Ready {
			missing = append(missing, fmt.Sprintf("%s (%s)", id, c.Reason))
		}
	}
	if len(missing) == 0 || config.Policy == "any" && len(missing) < len(config.Require) {
		return true, ""
	}
	return false, "required without a live destination: " + strings.Join(missing, ", ")
}

// readyCluster looks at the cluster of exactly this id: a named one, or the one
// that the backends of the route of this id make. Maintenance does not count.
func (t *Table) readyCluster(id string) ReadyCluster {
	r := ReadyCluster{ID: id}
	c := t.findCluster(id)
	if c == nil {
		r.Reason = "there is no such cluster"
		return r
	}
	r.Destinations, r.Live = len(c.destinations), c.live()
	switch {
	case r.Live > 0:
		r.Ready = true
	case r.Destinations == 0:
		r.Reason = "it has no destination"
	default:
		r.Reason = "none of its destinations is healthy or degraded"
	}
	return r
}

// findCluster gives the live cluster of an id that has destinations, else a named
// one without, else nil.
func (t *Table) findCluster(id string) *cluster {
	named := t.clusters.get(clusterPrefix + id)
	if named != nil && len(named.destinations) > 0 {
		return named
	}
	if r := t.routes.get(routePrefix + id); r != nil && r.cluster != nil && r.cluster.id == id {
		return r.cluster
	}
	return named
}

// live counts the destinations that may be asked and are not known to be bad.
// Degraded ones count, those that drain do not.
func (c *cluster) live() (n int) {
	for _, d := range c.destinations {
		if d.weight > 0 && d.status != statusDraining && d.status != statusUnhealthy && d.health.State().Usable() {
			n++
		}
	}
	return n
}
