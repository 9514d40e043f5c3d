package gateway

import (
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
	"grapevine/gateway/stdhttp"
)

// bounds of one attempt at a destination.
type bounds = stdhttp.Options

// cluster is a live set of destinations.
type cluster struct {
	id           string
	destinations []*destination
	state        *clusterState
}

// clusterState is what a cluster keeps while its configuration changes.
type clusterState struct {
	// turn counts picks; the next destination follows from it.
	turn     atomic.Uint64
	inFlight prometheus.Gauge
	attempts prometheus.Counter
	failures [exchange.PhaseClientGone + 1]prometheus.Counter
}

// destination is one address of a cluster. Its pool is shared by every cluster
// that has the address.
type destination struct {
	address string
	pool    *pool
}

// pool is the connections to one address, for as long as a table wants them.
type pool struct {
	upstream *stdhttp.Upstream
	users    atomic.Int64
	retired  atomic.Bool
}

func newPool(address spec.Address) *pool {
	return &pool{upstream: stdhttp.NewUpstream(address.URL())}
}

func (p *pool) acquire() { p.users.Add(1) }

// release ends a use. The last one of a retired pool closes what it left idle.
func (p *pool) release() {
	if p.users.Add(-1) == 0 && p.retired.Load() {
		p.upstream.Close()
	}
}

// retire closes the idle connections, now and after every use that is still
// under way.
func (p *pool) retire() {
	p.retired.Store(true)
	p.upstream.Close()
}

// Finished ends the use of the pool by an exchange.
func (p *pool) Finished(*exchange.Exchange, error) { p.release() }

// forward sends x to the destination whose turn it is. When no connection can
// be made, so that no byte was sent, the others are tried in turn.
func (c *cluster) forward(x *exchange.Exchange, b bounds) {
	if len(c.destinations) == 0 {
		x.Fail(exchange.Problem{
			Status: 503, Code: "no_destination", Detail: fmt.Sprintf("cluster %s has no destination.", c.id),
			Fields: exchange.Fields{retryAfter},
		})
		return
	}
	turn := c.state.turn.Add(1) - 1
	var err error
	for i := range uint64(len(c.destinations)) {
		d := c.destinations[(turn+i)%uint64(len(c.destinations))]
		if err = c.attempt(x, d, b); err == nil {
			return
		}
		if phaseOf(err) != exchange.PhaseConnect {
			break
		}
	}
	failAttempt(x, err)
}

func (c *cluster) attempt(x *exchange.Exchange, d *destination, b bounds) error {
	x.Attempts++
	x.Cluster, x.Destination = c.id, d.address
	c.state.attempts.Inc()
	d.pool.acquire()
	err := d.pool.upstream.RoundTrip(x, b)
	if err != nil {
		d.pool.release()
		c.state.failures[phaseOf(err)].Inc()
		return err
	}
	c.state.inFlight.Inc()
	x.OnFinish(d.pool)
	x.OnFinish(c.state)
	return nil
}

// Finished ends an exchange that the cluster answered.
func (s *clusterState) Finished(_ *exchange.Exchange, _ error) { s.inFlight.Dec() }
