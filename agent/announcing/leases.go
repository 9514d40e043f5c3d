package announcing

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// MaxInstances is how many instances a node holds at most; what it tells of itself needs a few keys, too.
const MaxInstances = kv.MaxOwnedKeys - 100

// effectiveTime is how long an announcement waits for this node's own gateway, to tell how it serves the route.
const effectiveTime = time.Second

// Store is what is read of the node's store.
type Store interface {
	View() kv.View
	// OwnerChanged is closed when an owner's keys are others. To miss nothing, take it first.
	OwnerChanged() <-chan struct{}
}

// Gateway is the node's own gateway.
type Gateway interface {
	// WaitOwned returns when it serves what owner did up to mark, or with ctx's error.
	WaitOwned(ctx context.Context, owner kv.OwnerID, mark kv.OwnerMark) error
	// Effective is a route as it is served, nil if it is not, and what there is to say about it.
	Effective(routeID string) (json.RawMessage, []string)
}

// Gateways are those of all live nodes.
type Gateways interface {
	// Gateways are the live nodes that run one, and a channel that is closed when they may be others.
	Gateways() ([]Node, <-chan struct{})
	// Applied returns when the gateway of a node serves what this node did up to mark, or with an error.
	Applied(ctx context.Context, node string, mark kv.OwnerMark) error
	// Drained returns when it sends an instance of this node nothing any more, as mark says, or with an error.
	Drained(ctx context.Context, node string, instance kv.Key, mark kv.OwnerMark) error
}

// Node is a node with a gateway.
type Node struct{ ID, Name string }

// Options are what Leases are made of. Gateway is nil where the node runs none; Most is MaxInstances where it is 0.
type Options struct {
	Node     kv.OwnerID
	Region   string // the node's: that of instances which name none
	Own      *kv.Own
	Store    Store
	Gateway  Gateway
	Gateways Gateways
	Logger   *slog.Logger
	Most     int
}

// Leases are those of this node.
type Leases struct {
	o        Options
	receipts *receipts

	mu     sync.Mutex // guards what is below, and the fields of every Lease
	byID   map[string]*Lease
	byKey  map[kv.Key]*Lease
	policy *spec.Announce
	// changed is the mark of the newest change of a lease.
	changed kv.OwnerMark
	closed  bool
	tasks   sync.WaitGroup
	ctx     context.Context // over when the Leases are closed
	cancel  context.CancelFunc
}

// New makes Leases, for which Run works.
func New(o Options) *Leases {
	if o.Most == 0 {
		o.Most = MaxInstances
	}
	l := &Leases{o: o, byID: map[string]*Lease{}, byKey: map[kv.Key]*Lease{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.receipts = newReceipts(l)
	return l
}

// Run tells the leases how many gateways serve them, until Close.
func (l *Leases) Run() error {
	l.receipts.run(l.ctx)
	return nil
}

// Announce takes a lease for an announcement. token is the HashToken of what its client showed. The caller closes the
// lease when the client's connection ends. An older lease of the same instance is superseded, and its key stays as it is.
//
// Errors: a *DeniedError, a *TooManyError, a *StoppingError, or those of kv.Own.
func (l *Leases) Announce(ctx context.Context, a Announcement, token string) (*Lease, Accepted, error) {
	lease, err := l.take(a, token)
	if err != nil {
		return nil, Accepted{}, err
	}
	l.o.Logger.Info("instance is announced", "key", string(a.Key), "address", string(a.Instance.Address), "path", a.Instance.Path)
	l.receipts.want()
	mark := l.o.Own.Mark()
	accepted := Accepted{
		Event: EventAccepted, Lease: lease.id, RouteID: a.Route, InstanceID: a.ID, Node: string(l.o.Node),
		Incarnation: mark.Incarnation, Key: string(a.Key), Notices: append([]string{}, a.Notices...),
	}
	if l.o.Gateway == nil {
		return lease, accepted, nil
	}
	ctx, cancel := context.WithTimeout(ctx, effectiveTime)
	defer cancel()
	if l.o.Gateway.WaitOwned(ctx, l.o.Node, mark) != nil {
		accepted.Notices = append(accepted.Notices, "this node's gateway does not serve the announcement yet")
	}
	effective, notices := l.o.Gateway.Effective(a.Route)
	accepted.Effective, accepted.Notices = effective, append(accepted.Notices, notices...)
	return lease, accepted, nil
}

func (l *Leases) take(a Announcement, token string) (*Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, &StoppingError{}
	}
	if err := allowed(l.policy, a, token); err != nil {
		return nil, err
	}
	former := l.byKey[a.Key]
	if former == nil && len(l.byKey) >= l.o.Most {
		return nil, &TooManyError{l.o.Most}
	}
	a.Instance.Region = cmp.Or(a.Instance.Region, l.o.Region)
	if a.Instance.StartedAt.IsZero() {
		a.Instance.StartedAt = l.startedBefore(a.Key)
	}
	lease := &Lease{
		leases: l, id: rand.Text(), announcement: a, token: token, out: newOutbox(),
		said: saidBy(a.Instance), draining: l.drainingBy(a, former),
	}
	lease.taken = lease.said
	if err := lease.write(); err != nil {
		return nil, tooMany(err, l.o.Most)
	}
	if former != nil {
		former.end(Ended{EventSuperseded, "the instance was announced again on another connection"})
	}
	l.byID[lease.id], l.byKey[a.Key] = lease, lease
	if lease.draining != "" {
		lease.out.put(Draining{EventDraining, lease.draining, "it was draining before this connection"})
		lease.shake()
	}
	return lease, nil
}

// tooMany tells a store that is full by the name that is used here.
func tooMany(err error, most int) error {
	if limit, ok := errors.AsType[*kv.LimitError](err); ok && limit.Got == kv.MaxOwnedKeys+1 {
		return &TooManyError{most}
	}
	return err
}

// drainingBy is who drains an instance that is announced, before anything else is said. An operator's decision outlives
// a connection and the agent, since the stored value says so; a client that drains says so in what it announces.
func (l *Leases) drainingBy(a Announcement, former *Lease) string {
	switch {
	case a.Instance.Status == statusDraining:
		return ByClient
	case former != nil && former.draining == ByOperator:
		return ByOperator
	case former == nil && l.drainedBefore(a.Key):
		return ByOperator
	}
	return ""
}

func (l *Leases) drainedBefore(key kv.Key) bool {
	instance, entry := l.stored(key)
	return instance != nil && entry.Own.Draining && instance.Status == statusDraining
}

// startedBefore is when an instance that does not say so was announced first.
func (l *Leases) startedBefore(key kv.Key) spec.Time {
	if instance, _ := l.stored(key); instance != nil && !instance.StartedAt.IsZero() {
		return instance.StartedAt
	}
	return spec.Time{Time: time.Now().UTC().Truncate(time.Millisecond)}
}

// stored is what this node has announced under a key, nil if nothing.
func (l *Leases) stored(key kv.Key) (*spec.Instance, kv.Entry) {
	entry, there := l.o.Store.View().Get(key)
	if !there || entry.Own == nil || entry.Own.Owner != l.o.Node {
		return nil, entry
	}
	decoded, _ := spec.Decode(string(key), entry.Value, spec.FormJSON) // it was checked when it was announced
	instance, _ := decoded.Value.(*spec.Instance)
	return instance, entry
}

// Lease is the lease of an id, or a *NoLeaseError.
func (l *Leases) Lease(id string) (*Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease := l.byID[id]; lease != nil {
		return lease, nil
	}
	return nil, &NoLeaseError{"there is no such lease: its connection has ended, or the agent was restarted"}
}

// Len counts the leases.
func (l *Leases) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byID)
}

// SetPolicy judges all leases anew. Those that are no longer allowed are withdrawn.
func (l *Leases) SetPolicy(policy *spec.Announce) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.policy = policy
	for _, lease := range l.byID {
		if err := allowed(policy, lease.announcement, lease.token); err != nil {
			lease.withdraw(err.Error())
		}
	}
}

// Close ends all leases and keeps their keys: the clients come back to the next start of the agent. Run ends then.
func (l *Leases) Close() {
	l.mu.Lock()
	l.closed = true
	for _, lease := range l.byID {
		lease.end(Ended{EventRestarting, "the agent stops, and keeps the instance for its next start"})
	}
	l.mu.Unlock()
	l.cancel()
	l.tasks.Wait()
}
