package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// readRoutes makes the effective routes: the operator's, and the static ones
// whose id the operator has not taken. A route that is not enabled takes its id
// and serves nothing.
func (p *planner) readRoutes() {
	keys := p.keys(routePrefix)
	taken := make(map[string]bool, len(keys))
	for _, key := range keys {
		taken[idOf(key)] = true
		p.readOperatorRoute(key)
	}
	for _, id := range slices.Sorted(maps.Keys(p.static.Routes)) {
		p.readStaticRoute(id, taken[id])
	}
	slices.SortFunc(p.routes, func(a, b *plannedRoute) int { return cmp.Compare(a.id, b.id) })
}

func (p *planner) readOperatorRoute(key kv.Key) {
	current := p.decoded[key]
	use := p.judge(key, func(d *decoded) spec.Faults {
		return p.checkRoute(string(key), layerOperator, d.Value.(*spec.Route))
	})
	r := &plannedRoute{id: idOf(key), key: string(key), layer: layerOperator, rev: current.rev}
	if p.quarantined[key] {
		r.problem = p.firstProblem(string(key))
	}
	if use == nil {
		p.block(r, current)
		return
	}
	r.serving, r.spec = use.rev, use.Value.(*spec.Route)
	p.serve(r)
}

// block makes a route answer 503 where its broken version would have served,
// as far as that can still be read; else where the static route of its id
// would have.
func (p *planner) block(r *plannedRoute, current *decoded) {
	r.blocked = true
	r.spec, _ = current.Value.(*spec.Route)
	if r.spec == nil || r.spec.Path == "" {
		r.spec = p.static.Routes[r.id]
	}
	if r.spec == nil || !r.spec.IsEnabled() {
		r.spec = &spec.Route{} // takes nothing, and is still listed
	}
	p.routes = append(p.routes, r)
}

func (p *planner) readStaticRoute(id string, hidden bool) {
	key := routePrefix + id
	r := &plannedRoute{id: id, key: key, layer: layerStatic, spec: p.static.Routes[id]}
	if hidden {
		r.problem = "an operator's route has this id"
		p.shadowed = append(p.shadowed, r)
		return
	}
	if faults := p.checkRoute(key, layerStatic, r.spec); len(faults) > 0 {
		p.faults = append(p.faults, faults...)
		r.blocked, r.problem = true, faults[0].Problem
		p.routes = append(p.routes, r)
		return
	}
	p.serve(r)
}

// serve adds a good route with its cluster.
func (p *planner) serve(r *plannedRoute) {
	if !r.spec.IsEnabled() {
		return
	}
	r.cluster = p.clusterOf(r)
	if r.cluster.blocked {
		r.blocked, r.problem = true, fmt.Sprintf("cluster %q has no good version", r.cluster.id)
	}
	p.routes = append(p.routes, r)
}

// clusterOf is the cluster that a checked route forwards to.
func (p *planner) clusterOf(r *plannedRoute) *plannedCluster {
	if r.spec.Cluster != "" {
		return p.clusters[string(r.spec.Cluster)]
	}
	named := p.clusters[r.id]
	if named == nil || len(named.destinations) == 0 {
		return withBackends(r.id, r.spec.Backends, named)
	}
	own, other := r.layer, p.clusterLayer(r.id)
	winner := "its backends"
	if own == layerStatic {
		winner = "the cluster's destinations"
	}
	p.notices = append(p.notices, spec.Fault{
		Key: r.key, Field: "backends",
		Problem: fmt.Sprintf("the %s cluster %q lists destinations too; %s are used, being the operator's", other, r.id, winner),
	})
	if own == layerStatic {
		return named
	}
	return withBackends(r.id, r.spec.Backends, named)
}

// clusterLayer tells where a named cluster comes from.
func (p *planner) clusterLayer(id string) string {
	if _, ok := p.decoded[kv.Key(clusterPrefix+id)]; ok {
		return layerOperator
	}
	return layerStatic
}

// checkRoute finds what is wrong with a route beyond its own shape.
func (p *planner) checkRoute(key, layer string, r *spec.Route) spec.Faults {
	faults := settingsIn(key, r, refusedInRoute, refusal)
	id := idOf(kv.Key(key))
	switch {
	case r.Cluster != "" && p.clusters[string(r.Cluster)] == nil:
		faults = append(faults, spec.Fault{Key: key, Field: "cluster", Value: string(r.Cluster), Problem: p.noSuchCluster(string(r.Cluster))})
	case len(r.Backends) > 0 && p.clashes(id, layer):
		faults = append(faults, spec.Fault{
			Key: key, Field: "backends", Value: string(r.Backends[0]),
			Problem: fmt.Sprintf("%s%s lists destinations too; take them out of one of the two", clusterPrefix, id),
		})
	}
	return faults
}

// clashes tells whether a route's backends stand beside destinations of the
// same layer, so that neither can be meant to win.
func (p *planner) clashes(id, layer string) bool {
	named := p.clusters[id]
	return named != nil && len(named.destinations) > 0 && p.clusterLayer(id) == layer
}

func (p *planner) noSuchCluster(name string) string {
	known := slices.Sorted(maps.Keys(p.clusters))
	if len(known) == 0 {
		return "no such cluster; none is configured"
	}
	const most = 5
	if len(known) > most {
		known = append(known[:most], "…")
	}
	return "no such cluster; there is " + strings.Join(known, ", ")
}

// firstProblem of a key, for the one line that a table row has.
func (p *planner) firstProblem(key string) string {
	for _, f := range p.faults {
		if f.Key == key {
			return spec.Fault{Field: f.Field, Value: f.Value, Problem: f.Problem}.Error()
		}
	}
	return ""
}
