package gateway

import (
	"errors"
	"slices"
	"sync/atomic"

	"grapevine/gateway/balance"
	"grapevine/gateway/breaker"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// An instance leaves in two steps. While it drains it is asked for nothing as long as
// another one can be; that is the lineup's doing. Once its agent wants to know that
// nothing is under way to it, nobody may go there any more, also not a request that
// began with an older table: it is shut, and the last look at the counts of those who
// are there comes after that.

// errShut is a destination that takes no more requests, since it is about to end.
var errShut = errors.New("the destination is about to end")

// triedNobody tells of an attempt that ended before a destination was tried.
func triedNobody(err error) bool { return err == errFull || err == errShut }

// sendAnew sends a request that has met nothing but destinations which end to those
// that the cluster has by now: it began with an older table.
func (c *cluster) sendAnew(x *exchange.Exchange, w *way) breaker.Outcome {
	if now := c.state.roster.newest(c); now != c {
		return now.send(x, w)
	}
	failNoDestination(x, c.id, c.lineup.Load())
	return breaker.Void
}

// newest gives what has taken the place of c by now, c itself if nothing has.
func (r *roster) newest(c *cluster) *cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range slices.Backward(r.live) {
		if other.planned.named == c.planned.named {
			return other
		}
	}
	return c
}

// isShut tells whether the destination takes no more requests.
func (d *destination) isShut() bool { return d.shut != nil && d.shut.Load() }

// orphaned tells whether nobody vouches for the destination any more.
func (d *destination) orphaned() bool { return d.instance != nil && d.instance.own.Orphaned }

// takeOver makes a destination go on where the one of its address, which may be nil,
// was: with its load, and with the door of an instance that is still the same.
func (d *destination) takeOver(old *destination) {
	if old != nil {
		d.load = old.load
	} else {
		d.load = new(balance.Load)
	}
	switch {
	case d.instance == nil:
	case old != nil && old.instance != nil && old.instance.key == d.instance.key && (!old.instance.draining() || d.instance.draining()):
		d.shut = old.shut
	default:
		d.shut = new(atomic.Bool)
	}
}

// few destinations are searched one by one, and so are many if that is asked few times.
const few = 16

// at gives the destination of an address, nil if there is none. A nil cluster has
// none. Holders of the gateway's mu call it.
func (c *cluster) at(address spec.Address) *destination {
	if c == nil {
		return nil
	}
	if c.sought++; len(c.destinations) <= few || c.sought <= few {
		for _, d := range c.destinations {
			if d.id == address {
				return d
			}
		}
		return nil
	}
	if c.places == nil {
		c.places = make(map[spec.Address]*destination, len(c.destinations))
		for _, d := range slices.Backward(c.destinations) { // the first of an address counts
			c.places[d.id] = d
		}
	}
	return c.places[address]
}
