package gateway

import (
	"log/slog"

	"grapevine/gateway/health"
	"grapevine/gateway/names"
	"grapevine/gateway/spec"
)

// estate is what outlives tables: connections by address, and what is known of a
// cluster by its id. Each thing is there as long as a live cluster wants it. The
// gateway's mu guards it.
type estate struct {
	metrics *metrics
	region  string // of this node, "" for none
	logger  *slog.Logger
	// resolver looks up hostnames of destinations.
	resolver names.Resolver
	health   *health.Monitor
	pools    map[spec.Address]*tenure[*pool]
	states   map[string]*tenure[*clusterState]
}

// tenure counts the live clusters that want a thing.
type tenure[T any] struct {
	thing T
	users int
}

func newEstate(m *metrics, region string, logger *slog.Logger, resolver names.Resolver, peers health.Peers) *estate {
	return &estate{metrics: m, region: region, logger: logger, resolver: resolver, health: health.NewMonitor(logger, peers), pools: map[spec.Address]*tenure[*pool]{}, states: map[string]*tenure[*clusterState]{}}
}

// pool gives the connections to an address.
func (e *estate) pool(address spec.Address) *pool {
	t := e.pools[address]
	if t == nil {
		t = &tenure[*pool]{thing: e.newPool(address)}
		e.pools[address] = t
	}
	return t.thing
}

// state gives what is known of the clusters of an id: a named one, and the one
// that the backends of a route of this id make.
func (e *estate) state(id string) *clusterState {
	t := e.states[id]
	if t == nil {
		t = &tenure[*clusterState]{thing: e.newState(id)}
		e.states[id] = t
	}
	return t.thing
}

func (e *estate) newState(id string) *clusterState {
	s := &clusterState{metrics: e.metrics.cluster(id)}
	s.roster = &roster{id: id, logger: e.logger, metrics: s.metrics}
	s.roster.health = e.health.NewGroup(id, s.roster.lineUp)
	return s
}

// turnover is what a new table has that the one before had not, and the other
// way round.
type turnover struct {
	born, gone     []*cluster
	goneRoutes     []*route
	added, removed int // routes
}

// settle ends what no table wants any more. It is called after the swap, so that
// no new request can want it; those under way keep it.
func (e *estate) settle(t *turnover) {
	for _, c := range t.born {
		e.count(c, 1)
		c.state.roster.enter(c)
	}
	for _, c := range t.gone {
		c.state.roster.leave(c)
		e.count(c, -1)
	}
	for _, r := range t.goneRoutes {
		r.metrics.drop()
	}
}

func (e *estate) count(c *cluster, n int) {
	state := e.states[c.id]
	if state.users += n; state.users == 0 {
		delete(e.states, c.id)
		state.thing.metrics.drop()
	}
	for _, d := range c.destinations {
		pool := e.pools[d.id]
		if pool.users += n; pool.users == 0 {
			delete(e.pools, d.id)
			pool.thing.retire()
		}
	}
}

func (e *estate) close() {
	for _, state := range e.states {
		state.thing.roster.close()
	}
	e.health.Close()
	for _, pool := range e.pools {
		pool.thing.retire()
	}
}
