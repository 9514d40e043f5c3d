package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"grapevine/gateway/health"
	"grapevine/kv"
)

// Owners is a Source that knows how far each owner of ephemeral keys is: a kv.Store
// does. Of another Source it is taken that a view has all that its owners did.
type Owners interface {
	// OwnerMark is how far an owner is; a View that is taken later has at least that.
	// known is false of an owner that is gone.
	OwnerMark(owner kv.OwnerID) (mark kv.OwnerMark, known bool)
	// OwnerChanged is closed when an owner does something. It is taken before OwnerMark.
	OwnerChanged() <-chan struct{}
}

// WaitOwned returns when the live table has what an owner did up to mark, or the
// owner is gone; else with ctx's error.
func (g *Gateway) WaitOwned(ctx context.Context, owner kv.OwnerID, mark kv.OwnerMark) error {
	owners, ok := g.source.(Owners)
	for ok {
		changed := owners.OwnerChanged()
		if now, known := owners.OwnerMark(owner); !known || now.Compare(mark) >= 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return g.waitOwned(ctx, g.source.View())
}

// waitOwned waits for a table that has the ephemeral keys of a view, or what followed.
func (g *Gateway) waitOwned(ctx context.Context, view kv.View) error {
	for {
		has, swapped := g.served()
		if g.Table() != nil && has.HasOwned(view) {
			return nil
		}
		select {
		case <-swapped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAgain is how long Drained waits between two looks at what is under way. Those
// who end a request are not to have the work of telling it.
const lookAgain = 2 * time.Millisecond

// Drained returns nil when nothing leads from this node to an instance that its
// owner drains: the live table has what the owner did up to mark, no request to the
// instance is under way, none will begin as long as it drains, and no idle connection
// to it is open unless another destination has its address. An instance that serves
// nothing here, or is gone, is drained. The error is ctx's, with what is left, or says
// that the instance is not draining.
func (g *Gateway) Drained(ctx context.Context, instance kv.Key, owner kv.OwnerID, mark kv.OwnerMark) error {
	if err := g.WaitOwned(ctx, owner, mark); err != nil {
		return fmt.Errorf("instance %s: what node %s did up to %d.%d is not served yet: %w", instance, owner, mark.Incarnation, mark.Seq, err)
	}
	d, err := g.shut(instance)
	if d == nil || err != nil {
		return err
	}
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		requests, connections := d.load.Now(), 0
		if requests == 0 {
			connections = g.closeIdle(instance, d)
		}
		if requests == 0 && connections == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("instance %s: %d requests and %d connections are under way to %s: %w", instance, requests, connections, d.address, ctx.Err())
		}
		if !g.drains(instance) {
			return errNotDraining(instance)
		}
	}
}

func errNotDraining(instance kv.Key) error {
	return fmt.Errorf("instance %s: is not draining", instance)
}

// drains tells whether an instance is draining or gone, by the live table.
func (g *Gateway) drains(instance kv.Key) bool {
	i := g.Table().plan.instance(instance)
	return i == nil || i.draining()
}

// shut lets nobody go to a draining instance any more, and gives its destination, nil
// when it is none.
func (g *Gateway) shut(instance kv.Key) (*destination, error) {
	if !g.drains(instance) {
		return nil, errNotDraining(instance)
	}
	c, d := g.Table().destinationOf(instance)
	if d == nil {
		return nil, nil
	}
	d.shut.Store(true)
	c.state.roster.lineUp()
	return d, nil
}

// destinationOf is what an instance is in the live table, nil if it is none.
func (t *Table) destinationOf(instance kv.Key) (*cluster, *destination) {
	i := t.plan.instance(instance)
	if i == nil {
		return nil, nil
	}
	c := t.clusters.get(clusterPrefix + idOf(fleetOf(instance)))
	if c == nil {
		return nil, nil
	}
	for _, d := range c.destinations {
		if d.instance == i {
			return c, d
		}
	}
	return nil, nil
}

// closeIdle closes the idle connections to the destination of an instance that takes
// no more requests, unless others have its address too, and tells how many are in use
// still.
func (g *Gateway) closeIdle(instance kv.Key, d *destination) (open int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := 0
	if _, now := g.Table().destinationOf(instance); now != nil && now.id == d.id {
		own = 1
	}
	if tenure := g.estate.pools[d.id]; tenure != nil && tenure.thing == d.pool && tenure.users > own {
		return 0
	}
	return d.pool.upstream.Drain(func(net.Addr) bool { return false })
}

// answersWithin is how long Answers waits for a connection.
const answersWithin = 2 * time.Second

// Answers tells within two seconds whether somebody answers at an instance: by what
// the checks of its cluster say, where it has some, else by a connection. Other keys
// than instances have nobody to ask: they answer.
func (g *Gateway) Answers(entry kv.Entry) bool {
	if !isInstance(entry.Key) || entry.Own == nil {
		return true
	}
	i := newInstance(entry, nil)
	if i.problem != "" {
		return false
	}
	if t := g.Table(); t != nil {
		if c, d := t.destinationOf(entry.Key); d != nil && c.watched.Asked && d.health.State() != health.Unknown {
			return d.health.State().Usable()
		}
	}
	origin := i.spec.Address.URL()
	address := net.JoinHostPort(origin.Hostname(), cmp.Or(origin.Port(), defaultPorts[origin.Scheme]))
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	conn, err := plainDialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close() // that it came about is the answer
	return true
}
