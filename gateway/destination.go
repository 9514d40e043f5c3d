package gateway

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
	"grapevine/gateway/spec"
)

// destination is one address of a cluster. Its pool is shared by every cluster
// that has the address, its load is the cluster's own.
type destination struct {
	id      spec.Address
	address string
	weight  int
	region  string
	status  string // healthy, degraded, unhealthy or draining; empty is healthy
	pool    *pool
	load    *balance.Load
	timed   bool // whether load wants to know how long requests take
	health  *health.Member
	failing *health.Statuses // answers that count against its health
	// instance is the announcement that it comes from, nil for a configured one, and
	// shut is set once nobody may go there any more: see leave.go.
	instance *instance
	shut     *atomic.Bool
}

// newDestinations makes those of a live cluster, which goes on where before, which may be
// nil, was. Those that are as before are the same: a change of one among thousands is
// not to cost as much as all.
func (c *compiler) newDestinations(live, before *cluster) []*destination {
	made := make([]*destination, len(live.planned.destinations))
	timed, failing := balance.Timed(live.planned.policy.LoadBalancing), new(live.watched.Statuses)
	same, next := before != nil && before.watched == live.watched, 0 // next is where before is looked at
	for i := range made {
		planned := &live.planned.destinations[i]
		old := (*destination)(nil)
		if before != nil {
			old, next = before.next(next, planned)
		}
		if old != nil && same && old.is(planned, timed) {
			made[i] = old
			continue
		}
		pool := c.estate.pool(planned.address)
		d := &destination{
			id: planned.address, address: string(planned.address), weight: planned.weight, region: planned.region, status: planned.status,
			pool: pool, timed: timed, health: live.state.roster.health.Member(string(planned.address), pool.dial), failing: failing,
			instance: planned.instance,
		}
		if old == nil {
			old = before.at(d.id)
		}
		d.takeOver(old)
		made[i] = d
	}
	return made
}

// next gives the destination of a plan's id and address, nil if there is none, and where
// to look for that of the next id. Lists are in the order of ids; where one is not, at
// finds what this does not.
func (c *cluster) next(from int, planned *plannedDestination) (*destination, int) {
	list := c.planned.destinations
	for from < len(list) && list[from].id < planned.id {
		from++
	}
	if from < len(list) && list[from].id == planned.id && list[from].address == planned.address {
		return c.destinations[from], from
	}
	return nil, from
}

// is tells whether the destination is what a plan wants.
func (d *destination) is(planned *plannedDestination, timed bool) bool {
	return d.id == planned.address && d.weight == planned.weight && d.region == planned.region && d.status == planned.status &&
		d.instance == planned.instance && d.timed == timed
}

// answered tells the destination's health, and its load where that is asked for,
// how an attempt ended, with RoundTrip's error, and how long it took. It is called
// once for each attempt, before the response's head may be given up for another
// attempt. How a body ends is told by Finished.
func (d *destination) answered(x *exchange.Exchange, err error, took time.Duration) {
	failed := err != nil && isDestinations(err) || err == nil && d.failing.Has(x.Response.Status)
	if failed {
		d.health.Failed()
	}
	switch {
	case !d.timed:
	case failed:
		d.load.Failed(took)
	case err == nil:
		d.load.Answered(took)
	case phaseOf(err) == exchange.PhaseClientGone, phaseOf(err) == exchange.PhaseRecalled:
		d.load.Waited(took)
	}
}

// isDestinations tells whether a failed attempt is the destination's doing, and
// not the client's or this node's, which is out of descriptors or ports.
func isDestinations(err error) bool {
	switch phaseOf(err) {
	case exchange.PhaseRequestBody, exchange.PhaseClientGone, exchange.PhaseRecalled:
		return false
	case exchange.PhaseConnect:
		return !slices.ContainsFunc(shortages, func(shortage error) bool { return errors.Is(err, shortage) })
	default:
		return true
	}
}

// shortages of this node may be another cluster's doing.
var shortages = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

// enter begins a use of the destination. errFull is that it has most requests of
// this cluster already, 0 being any number, errShut that it takes no more.
func (d *destination) enter(most int64) error {
	if most == 0 {
		d.load.Begin()
	} else if !d.load.BeginWithin(most) {
		return errFull
	}
	d.pool.users.Add(1)
	if d.isShut() { // after the counts: whoever shuts it looks at them then
		d.end()
		return errShut
	}
	return nil
}

// end ends a use. The last one of a retired pool closes what it left idle.
func (d *destination) end() {
	d.load.End()
	if d.pool.users.Add(-1) == 0 && d.pool.retired.Load() {
		d.pool.upstream.Close()
	}
}

// Finished ends the use of the destination by an exchange. A success counts when
// it is complete: a destination whose bodies break off is no good one.
func (d *destination) Finished(x *exchange.Exchange, err error) {
	d.end()
	switch {
	case brokenByDestination(x):
		d.health.Failed()
	case x.BodyErr == nil && err == nil && !d.failing.Has(x.Response.Status):
		d.health.Succeeded()
	}
}
