package gateway

import (
	"context"
	"encoding/json"
	"strings"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Owners is a Source that knows how far each owner of ephemeral keys is: a kv.Store
// does. Without it a gateway can't tell whether its table has what an owner did.
type Owners interface {
	// OwnerMark is how far an owner is; a View that is taken later has at least that.
	// known is false of an owner that is gone.
	OwnerMark(owner kv.OwnerID) (mark kv.OwnerMark, known bool)
	// OwnerChanged is closed when an owner does something. It is taken before OwnerMark.
	OwnerChanged() <-chan struct{}
}

// instancePrefix is where services announce themselves.
const instancePrefix = "gateway/instances/"

// InstanceStatus is an announced instance as the live table has it.
type InstanceStatus struct {
	Key        kv.Key     `json:"key" doc:"under which it is announced"`
	RouteID    string     `json:"routeId" doc:"the route that it serves"`
	InstanceID string     `json:"instanceId" doc:"its own id"`
	Address    string     `json:"address" doc:"where it is reached"`
	Owner      kv.OwnerID `json:"owner" doc:"the node that it announced itself to"`
	Draining   bool       `json:"draining,omitempty" doc:"it asks for no new requests"`
	Orphaned   bool       `json:"orphaned,omitempty" doc:"its owner can't be reached, so that nobody vouches for it"`
	Serves     bool       `json:"serves" doc:"it is a destination of a route that is served"`
	Why        string     `json:"why,omitempty" doc:"why it serves nothing, or what else is to be known"`
}

// Instances are all announced instances that the live table knows, those that
// serve nothing included, in the order of their keys.
func (g *Gateway) Instances() []InstanceStatus {
	list := []InstanceStatus{}
	t := g.Table()
	if t == nil {
		return list
	}
	for entry := range t.plan.view.Under(instancePrefix) {
		s := InstanceStatus{Key: entry.Key, Owner: entry.Own.Owner, Draining: entry.Own.Draining, Orphaned: entry.Own.Orphaned}
		s.RouteID, s.InstanceID, _ = strings.Cut(strings.TrimPrefix(string(entry.Key), instancePrefix), "/")
		if d := decodeEntry(entry.Key, entry.Value, entry.ModRev); d.Value != nil {
			s.Address = string(d.Value.(*spec.Instance).Address)
		}
		list = append(list, s)
	}
	return list
}

// Effective is the route of an id as it is served now, nil if there is none, and
// what there is to say about it and its instances.
func (g *Gateway) Effective(routeID string) (route json.RawMessage, notices []string) {
	t := g.Table()
	if t == nil {
		return nil, nil
	}
	if r := t.routes.get(routePrefix + routeID); r != nil {
		route = spec.Encode(r.planned.spec)
	}
	return route, nil
}

// WaitOwned returns when the live table has what an owner did up to mark, or the
// owner is gone; else with ctx's error. A source that knows no owners has it once
// the table is of the view of now.
func (g *Gateway) WaitOwned(ctx context.Context, owner kv.OwnerID, mark kv.OwnerMark) error {
	if owners, ok := g.source.(Owners); ok {
		for {
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
	}
	return g.waitView(ctx, g.source.View())
}

// waitView waits for a table of a view or of one that comes from it.
func (g *Gateway) waitView(ctx context.Context, view kv.View) error {
	for {
		g.swapMu.Lock()
		swapped := g.swapped
		g.swapMu.Unlock()
		if t := g.Table(); t != nil {
			if _, follows := t.plan.view.ChangedSince(view); follows {
				return nil
			}
		}
		select {
		case <-swapped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drained returns nil when no request of this node is under way to an instance
// whose owner drains it, and none will be: the live table has what the owner did up
// to mark, and no idle connection to the instance is open unless another
// destination has its address. Else it returns ctx's error, with what is left.
func (g *Gateway) Drained(ctx context.Context, instance kv.Key, owner kv.OwnerID, mark kv.OwnerMark) error {
	return g.WaitOwned(ctx, owner, mark)
}

// Answers tells within two seconds whether somebody answers at an instance: by the
// checks of its cluster, where it has some, else by a connection. Nobody is asked
// about other keys.
func (g *Gateway) Answers(entry kv.Entry) bool { return true }
