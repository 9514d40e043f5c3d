package announcing

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// The events of a lease, each a line of its stream. Clients ignore events that they don't know.
const (
	EventAccepted   = "accepted"
	EventApplied    = "applied"
	EventStatus     = "status"
	EventDraining   = "draining"
	EventDrained    = "drained"
	EventSuperseded = "superseded"
	EventWithdrawn  = "withdrawn"
	EventRestarting = "restarting"
	EventAlive      = "alive"
)

// Event is a line of the stream of a lease.
type Event interface{ name() string }

// Accepted is the first event.
type Accepted struct {
	Event       string          `json:"event" doc:"accepted: always the first"`
	Lease       string          `json:"lease" doc:"names the lease in other requests; whoever knows it can change it"`
	RouteID     string          `json:"routeId" doc:"the route, as it is stored"`
	InstanceID  string          `json:"instanceId" doc:"the instance; where none was given, the agent made one"`
	Node        string          `json:"node" doc:"the id of the agent's node"`
	Incarnation uint64          `json:"incarnation" doc:"names the node's start, higher than those before; 0: it has not announced anything to others yet"`
	Key         string          `json:"key" doc:"the key that lives as long as the connection"`
	Effective   json.RawMessage `json:"effective" doc:"the route as this node serves it now; null where it does not, or runs no gateway"`
	Notices     []string        `json:"notices" doc:"what was taken otherwise than it was written, and what keeps the instance from being used"`
}

// Applied tells how many gateways serve the announcement. It comes when the figures change, gathered.
type Applied struct {
	Event string `json:"event" doc:"applied"`
	Nodes int    `json:"nodes" doc:"live gateways that have the announcement"`
	Of    int    `json:"of" doc:"live gateways"`
}

// StatusChange tells what the agent takes the instance for.
type StatusChange struct {
	Event  string `json:"event" doc:"status"`
	Status string `json:"status" doc:"healthy, degraded or unhealthy"`
	Reason string `json:"reason" doc:"why"`
}

// Draining tells that the instance gets no new requests.
type Draining struct {
	Event  string `json:"event" doc:"draining"`
	By     string `json:"by" doc:"client or operator"`
	Reason string `json:"reason" doc:"why"`
}

// Drained tells how the drain handshake ended: complete when confirmed is of.
type Drained struct {
	Event string `json:"event" doc:"drained"`
	Handshake
}

// Handshake is how far the gateways are with a draining instance.
type Handshake struct {
	Confirmed  int         `json:"confirmed" doc:"live gateways that send the instance nothing any more"`
	Of         int         `json:"of" doc:"live gateways"`
	Stragglers []Straggler `json:"stragglers" doc:"the others"`
	Took       string      `json:"took" doc:"since the draining began, as 120ms"`
}

// Straggler is a live gateway that has not confirmed.
type Straggler struct {
	Node string `json:"node" doc:"its name"`
	Why  string `json:"why" doc:"what is known of the reason"`
}

// Ended is the last event: superseded, withdrawn or restarting.
type Ended struct {
	Event  string `json:"event" doc:"superseded: the same instance was announced on a newer connection; withdrawn: don't announce it again as it is; restarting: the agent stops and keeps the instance, so come back with the same instanceId"`
	Reason string `json:"reason" doc:"why"`
}

// Alive tells nothing but that the agent is there.
type Alive struct {
	Event string `json:"event" doc:"alive: after a while without another event"`
}

func (Accepted) name() string     { return EventAccepted }
func (Applied) name() string      { return EventApplied }
func (StatusChange) name() string { return EventStatus }
func (Draining) name() string     { return EventDraining }
func (Drained) name() string      { return EventDrained }
func (e Ended) name() string      { return e.Event }
func (Alive) name() string        { return EventAlive }

// outbox holds what a client has not been told yet. A newer event takes the place of an older one of its kind, so that
// a client that does not read costs no more than one that does.
type outbox struct {
	mu     sync.Mutex // guards what is below
	events []Event
	filled chan struct{} // closed when there is an event
}

func newOutbox() *outbox { return &outbox{filled: make(chan struct{})} }

func (o *outbox) put(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(slices.DeleteFunc(o.events, func(old Event) bool { return old.name() == e.name() }), e)
	select {
	case <-o.filled:
	default:
		close(o.filled)
	}
}

// take returns the oldest event, or nil and a channel that is closed when there is one.
func (o *outbox) take() (Event, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.events) == 0 {
		return nil, o.filled
	}
	e := o.events[0]
	if o.events = o.events[1:]; len(o.events) == 0 {
		o.filled = make(chan struct{})
	}
	return e, nil
}

// next waits for an event; after a while without any it is Alive. The error is ctx's.
func (o *outbox) next(ctx context.Context) (Event, error) {
	quiet := time.NewTimer(aliveEvery)
	defer quiet.Stop()
	for {
		e, filled := o.take()
		if e != nil {
			return e, nil
		}
		select {
		case <-filled:
		case <-quiet.C:
			return Alive{EventAlive}, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// aliveEvery is how long a stream is silent at most: a client takes an agent for dead that says nothing for a few times
// as long.
const aliveEvery = 10 * time.Second
