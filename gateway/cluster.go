package gateway

import (
	"sync/atomic"
	"time"

	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
	"grapevine/gateway/spec"
	"grapevine/gateway/stdhttp"
)

// bounds of one attempt at a destination.
type bounds = exchange.Bounds

// upstream carries exchanges to one address, see http1.Upstream.
type upstream interface {
	RoundTrip(x *exchange.Exchange, b bounds) error
	// Close closes the idle connections.
	Close()
}

// cluster is a live set of destinations.
type cluster struct {
	id           string
	planned      *plannedCluster
	destinations []*destination
	balancer     *balance.Balancer
	state        *clusterState
}

// load gives the load that an address has in the cluster, new if it is not
// there. A nil cluster has no address.
func (c *cluster) load(address spec.Address) *balance.Load {
	if c != nil {
		for _, d := range c.destinations {
			if d.id == address {
				return d.load
			}
		}
	}
	return &balance.Load{}
}

// clusterState is what a cluster keeps while its configuration changes.
type clusterState struct {
	// turn counts picks; which destination is next follows from it.
	turn    atomic.Uint64
	metrics *clusterMetrics
}

// destination is one address of a cluster. Its pool is shared by every cluster
// that has the address, its load is the cluster's own.
type destination struct {
	id      spec.Address
	address string
	weight  int
	pool    *pool
	load    *balance.Load
}

// pool is the connections to one address, for as long as a table wants them.
type pool struct {
	upstream upstream
	users    atomic.Int64
	retired  atomic.Bool
}

// newPool speaks to http addresses by our own engine. TLS, and what its handshake
// chooses, is net/http's.
func newPool(address spec.Address) *pool {
	if origin := address.URL(); origin.Scheme == "http" {
		return &pool{upstream: http1.NewUpstream(origin, http1.UpstreamOptions{})}
	}
	return &pool{upstream: stdhttp.NewUpstream(address.URL())}
}

// begin starts a use of the destination.
func (d *destination) begin() {
	d.load.Begin()
	d.pool.users.Add(1)
}

// end ends a use. The last one of a retired pool closes what it left idle.
func (d *destination) end() {
	d.load.End()
	if d.pool.users.Add(-1) == 0 && d.pool.retired.Load() {
		d.pool.upstream.Close()
	}
}

// Finished ends the use of the destination by an exchange.
func (d *destination) Finished(*exchange.Exchange, error) { d.end() }

// retire closes the idle connections, now and after every use that is still
// under way.
func (p *pool) retire() {
	p.retired.Store(true)
	p.upstream.Close()
}

// forward sends x to the destination that the balancer picks. When no
// connection can be made, so that no byte was sent, the others are tried.
func (c *cluster) forward(x *exchange.Exchange, b bounds) {
	next := c.balancer.Pick(c.state.turn.Add(1)-1, &x.Request)
	if next < 0 {
		failNoDestination(x, c.id)
		return
	}
	err := c.attempt(x, c.destinations[next], b)
	if err != nil && phaseOf(err) == exchange.PhaseConnect {
		err = c.tryOthers(x, b, next, err)
	}
	if err != nil {
		failAttempt(x, err)
	}
}

// tryOthers goes on after a destination that could not be reached.
func (c *cluster) tryOthers(x *exchange.Exchange, b bounds, first int, err error) error {
	tried := []int{first}
	for phaseOf(err) == exchange.PhaseConnect {
		next := c.balancer.After(tried, &x.Request)
		if next < 0 {
			return err
		}
		tried = append(tried, next)
		if err = c.attempt(x, c.destinations[next], b); err == nil {
			return nil
		}
	}
	return err
}

func (c *cluster) attempt(x *exchange.Exchange, d *destination, b bounds) error {
	x.Attempts++
	x.Cluster, x.Destination = c.id, d.address
	c.state.metrics.attempted()
	d.begin()
	start := time.Now()
	err := d.pool.upstream.RoundTrip(x, b)
	x.Upstream += time.Since(start)
	if err != nil {
		d.end()
		c.state.metrics.failed(phaseOf(err))
		return err
	}
	x.Response.Fields.DropHopByHop()
	c.state.metrics.answered()
	x.OnFinish(d)
	x.OnFinish(c.state.metrics)
	return nil
}
