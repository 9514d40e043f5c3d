package gateway

import (
	"sync"
	"time"

	"grapevine/gateway/breaker"
	"grapevine/gateway/exchange"
)

// bounds of one attempt at a destination.
type bounds = exchange.Bounds

// way is what a route says of how its requests get to a destination.
type way struct {
	bounds bounds // of one attempt
	// total is for the heads of all attempts together, from the beginning of the
	// first one, or from its request's end.
	total time.Duration
	retry *retry // nil: only what has reached nobody is tried elsewhere
}

// forward sends x to a destination of the cluster, or refuses it at once.
func (c *cluster) forward(x *exchange.Exchange, w *way) {
	if most := int64(c.planned.policy.MaxConcurrent); most > 0 {
		if !c.state.gate.Enter(most) {
			c.shed(x)
			return
		}
		x.OnFinish(&c.state.gate)
	}
	if c.guard == nil {
		c.send(x, w)
		return
	}
	e := errands.Get().(*errand)
	e.c, e.x, e.w = c, x, w
	if !c.guard.breaker.Do(e.call) {
		c.guard.refuse(x)
	}
	e.c, e.x, e.w = nil, nil, nil
	errands.Put(e)
}

// errand is a request on its way through a breaker.
type errand struct {
	c    *cluster
	x    *exchange.Exchange
	w    *way
	call *breaker.Call
}

var errands = sync.Pool{New: func() any {
	e := new(errand)
	e.call = breaker.NewCall(func() breaker.Outcome { return e.c.send(e.x, e.w) })
	return e
}}

// send sends x to the destination that the balancer picks, and tells what that
// says of the cluster. What was not answered well may be tried again, see trial.
func (c *cluster) send(x *exchange.Exchange, w *way) breaker.Outcome {
	l := c.lineup.Load()
	next := c.first(l, &x.Request)
	if next < 0 {
		failNoDestination(x, c.id, l)
		return breaker.Void
	}
	err := c.attempt(x, next, &w.bounds)
	if err != nil || w.retry != nil && w.retry.status.Has(x.Response.Status) {
		next, err = c.tryOn(x, w, l, next, err)
	}
	switch {
	case err == nil:
		return c.accept(x, next)
	case err == errFull:
		c.shed(x)
	case err == errShut:
		return c.sendAnew(x, w)
	default:
		failAttempt(x, err)
	}
	return outcomeOf(err)
}

// attempt sends x to the destination of an index. Without an error, x has the head of its answer, and the
// use of that goes on until accept or discard ends it. errFull and errShut are that
// nothing was tried.
func (c *cluster) attempt(x *exchange.Exchange, at int, b *bounds) error {
	d := c.destinations[at]
	if err := d.enter(int64(c.planned.policy.MaxConnections)); err != nil {
		return err
	}
	x.Attempts++
	x.Cluster, x.Destination = c.id, d.address
	c.state.metrics.attempted()
	start := time.Now()
	err := d.pool.upstream.RoundTrip(x, *b)
	took := time.Since(start)
	x.Upstream += took
	d.answered(x, err, took)
	if err != nil {
		d.end()
		c.state.metrics.failed(phaseOf(err))
	}
	return err
}

// accept makes what a destination answered the answer to the client.
func (c *cluster) accept(x *exchange.Exchange, at int) breaker.Outcome {
	x.Response.Fields.DropHopByHop()
	c.affinity.keep(x, at)
	c.state.metrics.answered()
	x.OnFinish(c.destinations[at])
	x.OnFinish(c.state.metrics)
	if c.guard == nil {
		return breaker.Success
	}
	return c.guard.judge(x)
}

// discard gives up what d answered, for another attempt.
func (c *cluster) discard(x *exchange.Exchange, d *destination) {
	x.DropResponse()
	d.end()
}
