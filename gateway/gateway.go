package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway/accesslog"
	"grapevine/gateway/exchange"
	"grapevine/gateway/names"
	"grapevine/gateway/spec"
	"grapevine/gateway/stdhttp"
	"grapevine/kv"
)

// coalesce is how long after a table went live the next one waits, so that a
// burst of changes makes a few tables and the first change none wait.
const coalesce = 20 * time.Millisecond

// Options are what a gateway needs. Source and Keeper are required.
type Options struct {
	Source Source
	// Static is the file layer; nil is an empty one.
	Static *spec.File
	Keeper Keeper
	// Logger gets one line a swap, and what could not be done. Nil discards.
	Logger *slog.Logger
	// Region is where this node runs: clusters may prefer destinations of it. "" is
	// nowhere in particular.
	Region string
	// Resolver looks up the hostnames of destinations; nil is the system's.
	Resolver names.Resolver
	// AccessLog gets the requests that gateway/config/logging asks for; nil: none.
	AccessLog *accesslog.Logger
	// Peers are the other nodes, for checks that few of them make for all. Nil: this
	// node makes its own.
	Peers Peers
	// Waiting says why the node should get no traffic so far, for what the gateway
	// does not know of; empty: nothing does. Nil is nothing.
	Waiting func() string
	// OnSwap, when set, is called with each table that went live, one at a time.
	OnSwap func(*Table)
}

// Gateway serves the live table.
type Gateway struct {
	source     Source
	keeper     Keeper
	logger     *slog.Logger
	onSwap     func(*Table)
	waiting    func() string
	access     *accesslog.Logger
	metrics    *metrics
	middleware []exchange.Middleware
	front      http.Handler

	table    atomic.Pointer[Table]
	draining atomic.Bool

	// mu guards the making of tables: static, live, kept, local and estate.
	mu     sync.Mutex
	static *spec.File
	live   *plan // of the live table, nil before the first
	kept   map[kv.Key]*decoded
	local  map[string]*window // this node's own maintenance, by cluster
	estate *estate

	// swapMu guards swapped, which is closed and replaced at each swap.
	swapMu  sync.Mutex
	swapped chan struct{}
}

// New makes a gateway that serves nothing until Load.
func New(o Options) *Gateway {
	g := &Gateway{
		source: o.Source, keeper: o.Keeper, static: o.Static, logger: o.Logger, onSwap: o.OnSwap, access: o.AccessLog,
		metrics: newMetrics(o.AccessLog), swapped: make(chan struct{}), local: map[string]*window{},
	}
	g.metrics.table = g.Table
	if g.static == nil {
		g.static = &spec.File{}
	}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	if o.Resolver == nil {
		o.Resolver = names.System{}
	}
	g.estate = newEstate(g.metrics, o.Region, g.logger, o.Resolver, newOthers(o.Peers, o.Source))
	g.metrics.health = g.estate.health
	if g.waiting = o.Waiting; g.waiting == nil {
		g.waiting = func() string { return "" }
	}
	if g.onSwap == nil {
		g.onSwap = func(*Table) {}
	}
	g.front = stdhttp.Front{Handler: g}
	return g
}

// Use adds steps before a request is matched, the first outermost. It must not
// be called after Load.
func (g *Gateway) Use(steps ...exchange.Middleware) {
	g.middleware = append(g.middleware, steps...)
}

// Load makes the first table. Faults of the static file are returned as
// spec.Faults, and nothing is served; faults of the operator's keys are
// quarantined and logged.
func (g *Gateway) Load() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = readKept(g.keeper, g.logger)
	g.readLocal()
	return g.install(g.static, refuseStaticFaults)
}

// Run makes a table for each change until ctx ends. A compilation that breaks
// off leaves the table before live.
func (g *Gateway) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { g.estate.health.Follow(ctx) })
	defer following.Wait()
	for {
		changed := g.source.Changed()
		g.refresh()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
		if !sleepUntil(ctx, g.Table().builtAt.Add(coalesce)) {
			return nil
		}
	}
}

func sleepUntil(ctx context.Context, then time.Time) bool {
	timer := time.NewTimer(time.Until(then))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refresh makes a table of the newest view, if it is newer than the live one.
func (g *Gateway) refresh() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.source.View().Rev() == g.live.rev() {
		return
	}
	if err := g.install(g.static, blockStaticFaults); err != nil {
		g.metrics.rejected.Inc()
		g.logger.Error("table was not made", "err", err, "serving", g.live.rev().String())
	}
}

// SetStatic replaces the file layer and makes a table of it at once. When the
// file has faults, or takes away what an operator's route needs, that is returned
// as spec.Faults and nothing changes.
func (g *Gateway) SetStatic(file *spec.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.install(file, refuseStaticFaults)
}

// staticFaultRule says what becomes of a fault in the file layer. A person who
// hands over a file is told, and nothing changes. Later, when a change of the
// operator's keys takes away what a static route needs, that route answers 503
// and the others get their change.
type staticFaultRule bool

const (
	refuseStaticFaults staticFaultRule = true
	blockStaticFaults  staticFaultRule = false
)

// install makes a table and swaps it in.
func (g *Gateway) install(static *spec.File, rule staticFaultRule) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("compile panicked: %v\n%s", cause, debug.Stack())
		}
	}()
	start := time.Now()
	view := g.source.View()
	p := newPlan(g.live, static, view, g.lastGood)
	if rule == refuseStaticFaults {
		if faults := g.refusals(p, static, view); len(faults) > 0 {
			return p.told(faults)
		}
	}
	previous := g.table.Load()
	t, turnover := compile(previous, p, g.estate, chainOptions{g.middleware, g.readiness, g.details, g.logger, g.access})
	t.windows = newWindows(p, g.localWindows(), previous.maintenance(), t.builtAt)
	t.took = time.Since(start)
	g.keepGood(p)
	g.static, g.live = static, p
	g.table.Store(t) // first the swap, then retire what no request can want any more
	g.metrics.live(t)
	g.announceSwap()
	g.estate.settle(turnover)
	g.logSwap(previous, t, turnover)
	g.onSwap(t)
	return nil
}

// refusals are what a person who hands over a file has to hear: its own faults,
// and what it would take from the operator's keys that the file before gave.
func (g *Gateway) refusals(p *plan, static *spec.File, view kv.View) spec.Faults {
	faults := staticFaults(p)
	if g.live == nil || len(faults) > 0 {
		return faults
	}
	before := newPlan(g.live, g.static, view, g.lastGood)
	return worsened(before, p, func(string) bool { return false })
}

// staticFaults are those of the file: of keys that no operator has written, and
// what this version can't do of the values that an operator's key hides, since they
// show through when that goes.
func staticFaults(p *plan) spec.Faults {
	var faults spec.Faults
	for _, f := range p.faults() {
		if p.decoded.get(f.Key) == nil {
			faults = append(faults, f)
		}
	}
	for id, route := range p.static.Routes {
		if key := routePrefix + id; p.decoded.get(key) != nil {
			faults = append(faults, settingsIn(key, route, refusedInRoute, refusal)...)
		}
	}
	for id, cluster := range p.static.Clusters {
		if key := clusterPrefix + id; p.decoded.get(key) != nil {
			faults = append(faults, settingsIn(key, cluster, refusedInCluster, refusal)...)
		}
	}
	sortFaults(faults)
	return faults
}

// logSwap says what a swap brought, and which keys it found faults in.
func (g *Gateway) logSwap(previous, t *Table, turnover *turnover) {
	var from kv.Rev
	var before *plan
	if previous != nil {
		from, before = previous.Rev(), previous.plan
	}
	quarantined := 0
	for range t.plan.quarantined() {
		quarantined++
	}
	level := slog.LevelInfo
	if quarantined > 0 {
		level = slog.LevelWarn
	}
	g.logger.Log(context.Background(), level, "table is live", "from", from.String(), "to", t.Rev().String(), "routes", t.routes.len(),
		"added", turnover.added, "removed", turnover.removed, "quarantined", quarantined, "hash", t.hash, "took", t.took.String())
	for c := range t.plan.since(before) {
		if c.now == nil {
			continue
		}
		for _, f := range c.now.faults {
			g.logger.Warn("key is quarantined", "key", f.Key, "field", f.Field, "problem", f.Problem)
		}
	}
}

// announceSwap wakes whoever waits for a revision.
func (g *Gateway) announceSwap() {
	g.swapMu.Lock()
	defer g.swapMu.Unlock()
	close(g.swapped)
	g.swapped = make(chan struct{})
}

// Wait returns when the live table was made from rev or a later revision, or
// with ctx's error.
func (g *Gateway) Wait(ctx context.Context, rev kv.Rev) error {
	for {
		g.swapMu.Lock()
		swapped := g.swapped
		g.swapMu.Unlock()
		if t := g.Table(); t != nil && t.Rev().Compare(rev) >= 0 {
			return nil
		}
		select {
		case <-swapped:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Table is the live table, nil before Load.
func (g *Gateway) Table() *Table { return g.table.Load() }

// Serve answers one exchange with the live table.
func (g *Gateway) Serve(x *exchange.Exchange) {
	if t := g.table.Load(); t != nil {
		t.chain.Serve(x)
	} else {
		failNotReady(x)
	}
}

// Refuse answers for a server what is no request, so that this too has an id and
// is counted and logged. See http1.Server.
func (g *Gateway) Refuse(x *exchange.Exchange, p exchange.Problem) {
	t := g.table.Load()
	if t == nil {
		x.Fail(p)
		return
	}
	correlate(x)
	t.logAccess(x)
	x.OnFinish(t.stray)
	x.Fail(p)
	echoCorrelation(x)
}

// ServeHTTP serves a request of a net/http server.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.front.ServeHTTP(w, r) }

// Drain makes the gateway report itself as not ready, for good. It goes on
// serving, and leaves checks that it makes for other nodes to them.
func (g *Gateway) Drain() {
	g.draining.Store(true)
	g.estate.health.Rest()
}

// Ready tells whether the node should get traffic, and if not, why.
func (g *Gateway) Ready() (bool, string) { return g.readiness(g.Table()) }

// Collector gives the gateway's metrics.
func (g *Gateway) Collector() prometheus.Collector { return g.metrics }

// Close closes idle connections to all destinations. Call it when no request
// is served any more.
func (g *Gateway) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.estate.close()
}
