package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"grapevine/agent/announcing"
	"grapevine/gateway"
	"grapevine/kv"
)

const (
	// DefaultHeartbeat is how often a silent watch shows that it lives.
	DefaultHeartbeat = 15 * time.Second
	// DefaultBound is how long a request may take that needs other nodes.
	DefaultBound = 10 * time.Second
	// DefaultWaitBound is how long a write then waits for its receipt. What was written stays written.
	DefaultWaitBound = 10 * time.Second
)

// Store is what the API reads.
type Store interface {
	View() kv.View
	// Changed is closed when there is a newer view.
	Changed() <-chan struct{}
	At(rev kv.Rev) (kv.View, error)
	Watch(prefix string, since kv.Rev) (*kv.Watcher, error)
	// Follow gives a view, and a watcher of what comes after it.
	Follow(prefix string) (kv.View, *kv.Watcher)
	History(prefix string, since kv.Rev, limit int) ([]kv.Commit, error)
}

// Log takes what operators write. Trial does everything but write.
type Log interface {
	Propose(ctx context.Context, t kv.Txn) (kv.Result, error)
	Trial(ctx context.Context, t kv.Txn) (kv.Result, error)
}

// Gateway is what the API asks the proxy.
type Gateway interface {
	Table() *gateway.Table
	// Wait returns when the live table has rev or a later one.
	Wait(ctx context.Context, rev kv.Rev) error
	// Ready says whether the node takes traffic, and why not.
	Ready() (bool, string)
	// BeginLocal and EndLocal change what this node alone has under maintenance.
	BeginLocal(cluster string, value []byte, by string) error
	EndLocal(cluster string) (was bool, err error)
	// Instances are the announced instances that the live table knows.
	Instances() []gateway.InstanceStatus
}

// Options is what an API is made of. The fields of the first group are required.
type Options struct {
	Store  Store
	Log    Log
	Node   func() Node
	Logger *slog.Logger

	// Gateway is nil on a node that runs none: what is asked of it is refused there.
	Gateway Gateway
	// Waiting says why the node may not have heard yet what its cluster serves; empty: it has. Where there is no Gateway it
	// says whether the node is ready. Nil: it never waits.
	Waiting func() string
	// Leases are the instances that are announced at this node; nil: it announces none.
	Leases *announcing.Leases
	// Cluster is the node's cluster; nil: it is alone and in none.
	Cluster Cluster
	// Metrics answers /metrics; without it the path is not there.
	Metrics http.Handler
	// Observe is told of every answer. The operation is empty where the request was for none.
	Observe func(operation string, status int)
	// Heartbeat, Bound and WaitBound are the defaults above where they are zero.
	Heartbeat, Bound, WaitBound time.Duration
}

// API answers the requests of operators.
type API struct {
	Options
	operations []operation
	document   []byte

	closing   chan struct{}
	closeOnce sync.Once
}

// New makes an API. It answers once a server serves one of its handlers.
func New(o Options) *API {
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Bound == 0 {
		o.Bound = DefaultBound
	}
	if o.WaitBound == 0 {
		o.WaitBound = DefaultWaitBound
	}
	if o.Observe == nil {
		o.Observe = func(string, int) {}
	}
	ops := operations(o.Metrics != nil)
	a := &API{Options: o, operations: ops, document: openAPI(ops), closing: make(chan struct{})}
	if a.Cluster == nil {
		a.Cluster = alone{a}
	}
	return a
}

// Close ends every watch, with its reason as the last event; they would hold up a server's shutdown for ever.
func (a *API) Close() {
	a.closeOnce.Do(func() { close(a.closing) })
}
