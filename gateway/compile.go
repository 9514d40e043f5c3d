package gateway

import (
	"strings"
	"time"

	"grapevine/gateway/action"
	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
)

// compile makes a plan live: a table that shares with previous, which may be
// nil, whatever did not change. Nothing is retired here: the caller settles the
// turnover after the swap.
func compile(previous *Table, p *plan, estate *estate, chain chainOptions) (*Table, *turnover) {
	t := &Table{
		plan:    p,
		hash:    p.hash(),
		builtAt: time.Now(),
		trust:   p.settings.trust(),
		probes:  probePaths(&p.settings.ready),
		stray:   estate.metrics.route(""),
	}
	c := &compiler{Table: t, estate: estate, previous: previous}
	c.run()
	t.chain = newChain(t, chain)
	return t, &c.turnover
}

// compiler holds a table while it is being made.
type compiler struct {
	*Table
	estate   *estate
	previous *Table // nil before the first
	// anew is set when nothing but pools, counters and loads can be taken over,
	// since what every route is made of has changed.
	anew     bool
	turnover turnover

	routing   *routing.Edit
	routed    *indexEdit[*route]
	clustered *indexEdit[*cluster]
}

func (c *compiler) run() {
	previous := c.previous
	c.anew = previous == nil || c.plan.base != previous.plan.id || c.plan.settings != previous.plan.settings
	if previous == nil {
		previous = &Table{}
	}
	if c.anew {
		c.routing, c.routed, c.clustered = (*routing.Trie)(nil).Edit(), index[*route]{}.edit(), index[*cluster]{}.edit()
	} else {
		c.routing, c.routed, c.clustered = previous.trie.Edit(), previous.routes.edit(), previous.clusters.edit()
	}
	c.previous = previous
	c.each(clusterPrefix, c.cluster)
	c.each(routePrefix, c.route)
	c.trie, c.routes, c.clusters = c.routing.Done(), c.routed.now(), c.clustered.now()
}

// each visits the changes under a prefix, or everything when the table is made
// anew.
func (c *compiler) each(prefix string, do func(key string, now *verdict)) {
	if !c.anew {
		for _, ch := range c.plan.changes {
			if strings.HasPrefix(ch.key, prefix) {
				do(ch.key, ch.now)
			}
		}
		return
	}
	for key, now := range c.plan.verdicts.under(prefix) {
		do(key, now)
	}
	if c.previous.plan == nil {
		return
	}
	for key := range c.previous.plan.verdicts.under(prefix) {
		if c.plan.verdicts.get(key) == nil {
			do(key, nil)
		}
	}
}

// cluster makes a named cluster live.
func (c *compiler) cluster(key string, now *verdict) {
	before := c.previous.clusters.get(key)
	if before != nil {
		c.turnover.gone = append(c.turnover.gone, before)
		c.clustered.del(key)
	}
	if now != nil && !now.cluster.blocked {
		c.clustered.set(key, c.newCluster(now.cluster, before))
	}
}

// route makes a route live.
func (c *compiler) route(key string, now *verdict) {
	before := c.previous.routes.get(key)
	if before != nil {
		c.forget(key, before)
	}
	if now == nil || now.route == nil {
		if before != nil {
			c.turnover.goneRoutes = append(c.turnover.goneRoutes, before)
			c.turnover.removed++
		}
		return
	}
	if before == nil {
		c.turnover.added++
	}
	r := c.newRoute(now.route, before)
	c.routed.set(key, r)
	for _, rule := range r.rules {
		c.routing.Insert(rule)
	}
}

func (c *compiler) forget(key string, before *route) {
	if before.cluster != nil && !before.planned.cluster.named {
		c.turnover.gone = append(c.turnover.gone, before.cluster)
	}
	if c.anew {
		return
	}
	c.routed.del(key)
	for _, rule := range before.rules {
		c.routing.Remove(rule)
	}
}

func (c *compiler) newRoute(planned *plannedRoute, before *route) *route {
	r := &route{id: planned.id, planned: planned}
	if before != nil {
		r.metrics, r.limits = before.metrics, before.limits
	} else {
		r.metrics = c.estate.metrics.route(planned.id)
	}
	r.limits = newLimits(planned.spec.Limits, r.limits, r.metrics)
	if planned.blocked {
		r.rules = blockedRules(planned.id, planned.spec, planned.faults, r)
		return r
	}
	r.rules = []*routing.Rule{routing.NewRule(planned.id, planned.spec, r)}
	r.policy = routing.NewPolicy(planned.spec)
	r.target = action.NewTarget(planned.spec)
	if changes := planned.spec.Changes; changes != nil {
		r.request, r.response = action.NewHeaders(changes.Request), action.NewHeaders(changes.Response)
	}
	r.answer = newAnswer(planned.spec)
	switch {
	case r.answer != nil:
	case planned.split != nil:
		r.split = c.newSplit(planned, before.splits())
	default:
		r.cluster = c.clusterOf(planned, before)
		r.way = c.plan.settings.way(planned.spec, planned.cluster.policy)
	}
	return r
}

// newAnswer is how a route answers that forwards nothing; nil if it forwards.
func newAnswer(r *spec.Route) exchange.Handler {
	switch {
	case r.Redirect != nil:
		return action.NewRedirect(r)
	case r.Respond != nil:
		return action.NewRespond(r.Respond)
	default:
		return nil
	}
}

// clusterOf gives the live cluster of a route: the named one, or its own.
func (c *compiler) clusterOf(planned *plannedRoute, before *route) *cluster {
	if planned.cluster.named {
		return c.clustered.get(clusterPrefix + planned.cluster.id)
	}
	var same *cluster
	if before != nil && before.cluster != nil && !before.planned.cluster.named {
		same = before.cluster
	}
	return c.newCluster(planned.cluster, same)
}

// newCluster makes a cluster live, that goes on where before, which may be nil, was.
func (c *compiler) newCluster(planned *plannedCluster, before *cluster) *cluster {
	live := &cluster{
		id: planned.id, planned: planned, region: c.estate.region, state: c.estate.state(planned.id),
		watched: health.PolicyOf(planned.policy.Health),
	}
	live.destinations = c.newDestinations(live, before)
	secret := c.plan.view.Head().EpochID
	live.affinity = newAffinity(live, secret[:])
	live.lineup.Store(live.lineUp(c.builtAt))
	live.guard = newGuard(live, c.estate.logger)
	c.turnover.born = append(c.turnover.born, live)
	return live
}
