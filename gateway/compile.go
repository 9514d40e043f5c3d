package gateway

import (
	"time"

	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
)

// compile makes a plan live. What previous has and the plan still wants is
// carried over; previous may be nil. Nothing is retired here: the caller does
// that after the swap (see retire).
func compile(previous *Table, p *plan, m *metrics, chain chainOptions) *Table {
	t := &Table{
		plan:     p,
		hash:     p.hash(),
		builtAt:  time.Now(),
		clusters: map[string]*cluster{},
		planned:  map[*plannedCluster]*cluster{},
		pools:    map[spec.Address]*pool{},
		trust:    p.settings.trust(),
		probes:   probePaths(&p.settings.ready),
		stray:    m.route(""),
	}
	rules := make([]routing.Rule, 0, len(p.routes))
	for _, planned := range p.routes {
		t.routes = append(t.routes, t.newRoute(previous, planned, m))
		rules = append(rules, planned.rule())
	}
	t.matcher = routing.NewLinear(rules)
	t.handler = t.chain(chain)
	return t
}

func (t *Table) newRoute(previous *Table, planned *plannedRoute, m *metrics) *route {
	r := &route{
		id:      planned.id,
		strip:   len(planned.spec.PathRemovePrefix.Template().Segments),
		metrics: m.route(planned.id),
	}
	if !planned.blocked {
		r.cluster = t.newCluster(previous, planned.cluster, m)
		r.bounds = t.plan.settings.bounds(planned.spec, planned.cluster.policy)
	}
	return r
}

func (t *Table) newCluster(previous *Table, planned *plannedCluster, m *metrics) *cluster {
	// By identity: a route's own backends make a cluster with the id that a named
	// one may have as well. The two share counters and nothing else.
	if c := t.planned[planned]; c != nil {
		return c
	}
	c := &cluster{id: planned.id}
	if same := t.clusters[planned.id]; same != nil {
		c.state = same.state
	} else if previous != nil && previous.clusters[planned.id] != nil {
		c.state = previous.clusters[planned.id].state
	} else {
		c.state = m.cluster(planned.id)
	}
	for _, d := range planned.destinations {
		c.destinations = append(c.destinations, &destination{string(d.address), t.newPool(previous, d.address)})
	}
	t.planned[planned], t.clusters[planned.id] = c, c
	return c
}

func (t *Table) newPool(previous *Table, address spec.Address) *pool {
	if t.pools[address] == nil {
		if previous != nil && previous.pools[address] != nil {
			t.pools[address] = previous.pools[address]
		} else {
			t.pools[address] = newPool(address)
		}
	}
	return t.pools[address]
}

// rule says which requests a planned route takes. One without a path, which
// only a blocked route can be, takes none.
func (r *plannedRoute) rule() routing.Rule {
	rule := routing.Rule{ID: spec.RouteID(r.id), Order: r.spec.Order, Path: r.spec.Path.Template(), Never: r.spec.Path == ""}
	for _, host := range r.spec.Hosts {
		rule.Hosts = append(rule.Hosts, string(host))
	}
	for _, method := range r.spec.Methods {
		rule.Methods = append(rule.Methods, string(method))
	}
	return rule
}

// retire lets go of what previous had and t has not. It is called after t has
// gone live, so that no new request can want it; those under way keep it.
func (t *Table) retire(previous *Table, m *metrics) {
	if previous == nil {
		return
	}
	for address, pool := range previous.pools {
		if t.pools[address] == nil {
			pool.retire()
		}
	}
	for id := range previous.clusters {
		if t.clusters[id] == nil {
			m.dropCluster(id)
		}
	}
	now := make(map[string]bool, len(t.routes))
	for _, r := range t.routes {
		now[r.id] = true
	}
	for _, r := range previous.routes {
		if !now[r.id] {
			m.dropRoute(r.id)
		}
	}
}
