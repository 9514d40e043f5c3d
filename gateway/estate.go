package gateway

import "grapevine/gateway/spec"

// estate is what outlives tables: connections by address, and what is known of a
// cluster by its id. Each thing is there as long as a live cluster wants it. The
// gateway's mu guards it.
type estate struct {
	metrics *metrics
	pools   map[spec.Address]*tenure[*pool]
	states  map[string]*tenure[*clusterState]
}

// tenure counts the live clusters that want a thing.
type tenure[T any] struct {
	thing T
	users int
}

func newEstate(m *metrics) *estate {
	return &estate{metrics: m, pools: map[spec.Address]*tenure[*pool]{}, states: map[string]*tenure[*clusterState]{}}
}

// pool gives the connections to an address.
func (e *estate) pool(address spec.Address) *pool {
	t := e.pools[address]
	if t == nil {
		t = &tenure[*pool]{thing: newPool(address)}
		e.pools[address] = t
	}
	return t.thing
}

// state gives what is known of the clusters of an id: a named one, and the one
// that the backends of a route of this id make.
func (e *estate) state(id string) *clusterState {
	t := e.states[id]
	if t == nil {
		t = &tenure[*clusterState]{thing: &clusterState{metrics: e.metrics.cluster(id)}}
		e.states[id] = t
	}
	return t.thing
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
	}
	for _, c := range t.gone {
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
	for _, pool := range e.pools {
		pool.thing.retire()
	}
}
