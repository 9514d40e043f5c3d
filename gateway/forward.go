package gateway

import (
	"time"

	"grapevine/gateway/exchange"
)

// bounds of one attempt at a destination.
type bounds = exchange.Bounds

// forward sends x to the destination that the balancer picks. When no
// connection can be made, so that no byte was sent, the others are tried.
func (c *cluster) forward(x *exchange.Exchange, b bounds) {
	l := c.lineup.Load()
	next := c.first(l, &x.Request)
	if next < 0 {
		failNoDestination(x, c.id)
		return
	}
	err := c.attempt(x, next, b)
	if err != nil && phaseOf(err) == exchange.PhaseConnect {
		err = c.tryOthers(x, b, l, next, err)
	}
	if err != nil {
		failAttempt(x, err)
	}
}

// tryOthers goes on after a destination that could not be reached.
func (c *cluster) tryOthers(x *exchange.Exchange, b bounds, l *lineup, first int, err error) error {
	tried := []int{first}
	for phaseOf(err) == exchange.PhaseConnect {
		next := l.after(tried, &x.Request)
		if next < 0 {
			return err
		}
		tried = append(tried, next)
		if err = c.attempt(x, next, b); err == nil {
			return nil
		}
	}
	return err
}

func (c *cluster) attempt(x *exchange.Exchange, at int, b bounds) error {
	d := c.destinations[at]
	x.Attempts++
	x.Cluster, x.Destination = c.id, d.address
	c.state.metrics.attempted()
	d.begin()
	start := time.Now()
	err := d.pool.upstream.RoundTrip(x, b)
	d.answered(x, err)
	x.Upstream += time.Since(start)
	if err != nil {
		d.end()
		c.state.metrics.failed(phaseOf(err))
		return err
	}
	x.Response.Fields.DropHopByHop()
	c.affinity.keep(x, at)
	c.state.metrics.answered()
	x.OnFinish(d)
	x.OnFinish(c.state.metrics)
	return nil
}
