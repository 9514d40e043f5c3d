package gateway

import (
	"fmt"
	"slices"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// plannedRoute is a route of the effective table.
type plannedRoute struct {
	id      string
	key     string
	layer   string
	spec    *spec.Route
	cluster *plannedCluster // nil when blocked, and for a route that answers itself or splits
	split   []*plannedCluster
	// blocked is set when the route is known to be meant but nothing good is
	// known of it: it answers 503.
	blocked bool
	faults  spec.Faults // of a blocked operator's route
	problem string      // why it is blocked, hidden, or serves an older version
	rev     kv.Rev      // of the key, zero for static
	serving kv.Rev      // of the version that is served
}

// judgeRoute makes an effective route: the operator's, else the one that instances
// announce, else the static one, else the one of instances that have just gone. A
// route that is not enabled takes its id and serves nothing.
func (p *planner) judgeRoute(key string) *verdict {
	p.looked = nil
	v := &verdict{}
	static, fleet := p.static.Routes[idOf(key)], p.fleet(idOf(key))
	hidden := ""
	switch current := p.decoding.get(key); {
	case current != nil:
		p.judgeOperatorRoute(key, current, v)
		hidden = hiddenByOperator
		if fleet.isThere() {
			v.hidden = append(v.hidden, &plannedRoute{id: fleet.id, key: key, layer: layerAnnounced, spec: fleet.route, problem: hidden})
		}
	case fleet.isThere():
		p.judgeAnnouncedRoute(key, fleet, v)
		hidden = hiddenByInstances
	case static != nil:
		p.judgeStaticRoute(key, static, v)
	case fleet.lingers():
		p.judgeAnnouncedRoute(key, fleet, v)
	default:
		return nil
	}
	if static != nil && hidden != "" {
		v.hidden = append(v.hidden, &plannedRoute{id: idOf(key), key: key, layer: layerStatic, spec: static, problem: hidden})
	}
	v.looked = p.looked
	return v
}

// Why a route of a lower layer is not served.
const (
	hiddenByOperator  = "an operator's route has this id"
	hiddenByInstances = "instances announce the route of this id"
)

func (p *planner) judgeOperatorRoute(key string, current *decoded, v *verdict) {
	use := p.judgeKey(key, v, func(d *decoded) spec.Faults {
		return p.checkRoute(key, layerOperator, d.Value.(*spec.Route))
	})
	r := &plannedRoute{id: idOf(key), key: key, layer: layerOperator, rev: current.rev}
	if v.quarantined {
		r.problem = shortly(v.faults[0])
	}
	if use == nil {
		p.block(r, current, v)
		return
	}
	r.serving, r.spec = use.rev, use.Value.(*spec.Route)
	p.serve(r, use.JSON, v)
}

// block makes a route answer 503 where its broken version would have served,
// as far as that can still be read; else where the static route of its id
// would have.
func (p *planner) block(r *plannedRoute, current *decoded, v *verdict) {
	r.blocked = true
	r.spec, _ = current.Value.(*spec.Route)
	if r.spec == nil || r.spec.Path == "" && r.spec.PathRegex == "" {
		r.spec = p.static.Routes[r.id]
	}
	if r.spec == nil || !r.spec.IsEnabled() && !mentions(v.faults, "enabled") {
		r.spec = &spec.Route{} // takes nothing, and is still listed
	}
	r.faults, v.route = v.faults, r
	v.sum = digestOf("blocked route %s %s", r.id, spec.Encode(r.spec))
}

func (p *planner) judgeStaticRoute(key string, route *spec.Route, v *verdict) {
	r := &plannedRoute{id: idOf(key), key: key, layer: layerStatic, spec: route}
	if v.faults = p.checkRoute(key, layerStatic, route); len(v.faults) > 0 {
		r.blocked, r.problem, v.route = true, v.faults[0].Problem, r
		v.sum = digestOf("blocked route %s %s", r.id, spec.Encode(route))
		return
	}
	p.serve(r, spec.Encode(route), v)
}

// serve makes a good route effective, with its cluster.
func (p *planner) serve(r *plannedRoute, json []byte, v *verdict) {
	if !r.spec.IsEnabled() {
		return
	}
	v.route = r
	switch {
	case answersItself(r.spec):
	case len(r.spec.Split) > 0:
		r.split = p.splitOf(r.spec)
		if !slices.ContainsFunc(r.split, func(c *plannedCluster) bool { return c.closedTo(r.spec) == "" }) {
			r.blocked, r.problem = true, "no cluster of the split has a good version"
		}
	default:
		r.cluster = p.clusterOf(r, v)
		if why := r.cluster.closedTo(r.spec); why != "" {
			r.blocked, r.problem = true, fmt.Sprintf("cluster %q %s", r.cluster.id, why)
		}
	}
	v.sum = digestOf("route %s %v %s %v", r.id, r.blocked, json, r.cluster != nil && r.cluster.named)
}

// closedTo says why a route gets nobody of the cluster; empty: it does.
func (c *plannedCluster) closedTo(r *spec.Route) string {
	switch {
	case c.blocked:
		return "has no good version"
	case c.guarded && !r.AllowAnonymous:
		return "has instances that ask for a token (requireAuth or claims): " + refusal
	default:
		return ""
	}
}

// answersItself tells whether a route needs no cluster.
func answersItself(r *spec.Route) bool { return r.Redirect != nil || r.Respond != nil }

// clusterOf is the cluster that a checked route forwards to.
func (p *planner) clusterOf(r *plannedRoute, v *verdict) *plannedCluster {
	if r.spec.Cluster != "" {
		return p.lookUp(string(r.spec.Cluster))
	}
	named := p.lookUp(r.id)
	if named == nil || len(named.destinations) == 0 {
		return withBackends(r.id, r.layer, r.spec.Backends, named)
	}
	own, other := r.layer, named.layer
	winner := "its backends"
	if own == layerStatic {
		winner = "the cluster's destinations"
	}
	v.notices = append(v.notices, spec.Fault{
		Key: r.key, Field: "backends",
		Problem: fmt.Sprintf("the %s cluster %q has destinations too; %s are used, being the operator's", other, r.id, winner),
	})
	if own == layerStatic {
		return named
	}
	return withBackends(r.id, r.layer, r.spec.Backends, named)
}

// checkRoute finds what is wrong with a route beyond its own shape.
func (p *planner) checkRoute(key, layer string, r *spec.Route) spec.Faults {
	faults := settingsIn(key, r, refusedInRoute, refusal)
	for i, share := range r.Split {
		if p.lookUp(string(share.Cluster)) == nil {
			faults = append(faults, spec.Fault{
				Key: key, Field: fmt.Sprintf("split[%d].cluster", i), Value: string(share.Cluster), Problem: noSuchCluster,
			})
		}
	}
	switch {
	case r.Cluster != "" && p.lookUp(string(r.Cluster)) == nil:
		faults = append(faults, spec.Fault{Key: key, Field: "cluster", Value: string(r.Cluster), Problem: noSuchCluster})
	case len(r.Backends) > 0 && p.clashes(idOf(key), layer):
		faults = append(faults, spec.Fault{
			Key: key, Field: "backends", Value: string(r.Backends[0]),
			Problem: fmt.Sprintf("%s%s lists destinations too; take them out of one of the two", clusterPrefix, idOf(key)),
		})
	}
	return faults
}

// clashes tells whether a route's backends stand beside destinations of the
// same layer, so that neither can be meant to win.
func (p *planner) clashes(id, layer string) bool {
	named := p.lookUp(id)
	return named != nil && len(named.destinations) > 0 && named.layer == layer
}

const noSuchCluster = "no such cluster"

// known adds to a fault that a person is told at once which clusters there are.
// A plan does not hold that: it would have to judge the route anew with each
// cluster that comes and goes.
func (p *plan) known(f spec.Fault) spec.Fault {
	if f.Problem != noSuchCluster {
		return f
	}
	const most = 5
	var ids []string
	for key := range p.verdicts.under(clusterPrefix) {
		if len(ids) == most {
			ids = append(ids, "…")
			break
		}
		ids = append(ids, idOf(key))
	}
	if len(ids) == 0 {
		f.Problem += "; none is configured"
		return f
	}
	f.Problem += "; there is " + strings.Join(ids, ", ")
	return f
}

// shortly is a fault without its key, for the one line that a table row has.
func shortly(f spec.Fault) string {
	return spec.Fault{Field: f.Field, Value: f.Value, Problem: f.Problem}.Error()
}
