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
	// renewing has a table made of a plan that is the same: local has changed.
	renewing bool
	estate   *estate

	// swapMu guards swapped, which is closed and replaced at each swap, and view, of
	// which the live table is.
	swapMu  sync.Mutex
	swapped chan struct{}
	view    kv.View
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

// Run makes a table for each change until ctx ends, and when it is time to give up a
// route whose instances are gone. A compilation that breaks off leaves the table
// before live.
func (g *Gateway) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { g.estate.health.Follow(ctx) })
	defer following.Wait()
	for {
		changed := g.source.Changed()
		g.refresh()
		due, stop := g.due()
		select {
		case <-changed:
		case <-due:
		case <-ctx.Done():
			stop()
			return nil
		}
		stop()
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

// due gives what fires when the first route that lingers is to be given up, and what
// ends the wait for it.
func (g *Gateway) due() (fires <-chan time.Time, stop func()) {
	until := g.Table().plan.lingersUntil()
	if until.IsZero() {
		return nil, func() {}
	}
	wait := time.Until(until)
	if wait <= 0 { // the table that gives it up could not be made
		wait = time.Second
	}
	timer := time.NewTimer(wait)
	return timer.C, func() { timer.Stop() }
}

// refresh makes a table of the newest view, if the live one is of another or has a
// route that is to be given up.
func (g *Gateway) refresh() {
	g.mu.Lock()
	defer g.mu.Unlock()
	due := g.live.lingersUntil()
	if g.source.View().Is(g.live.view) && (due.IsZero() || time.Now().Before(due)) {
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
	if p.isSame(g.live) && !g.renewing {
		g.live = p.inPlaceOf(g.live)
		g.has(view)
		return nil
	}
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
	g.has(view)
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
	switch {
	case from == t.Rev() && turnover.added+turnover.removed == 0: // instances come and go
		level = slog.LevelDebug
	case quarantined > 0:
		level = slog.LevelWarn
	}
	g.logger.Log(context.Background(), level, "table is live", "from", from.String(), "to", t.Rev().String(), "routes", t.routes.len(),
		"added", turnover.added, "removed", turnover.removed, "quarantined", quarantined, "hash", t.hash, "took", t.took.String())
	for c := range t.plan.since(before) {
		if c.now == nil {
			continue
		}
		if c.now.fleet != nil {
			g.logFleet(c)
			continue
		}
		for _, f := range c.now.faults {
			g.logger.Warn("key is quarantined", "key", f.Key, "field", f.Field, "problem", f.Problem)
		}
	}
}

// has notes the view that the live table is of, and wakes whoever waits for it.
func (g *Gateway) has(view kv.View) {
	g.swapMu.Lock()
	defer g.swapMu.Unlock()
	g.view = view
	close(g.swapped)
	g.swapped = make(chan struct{})
}

// served gives the view that the live table is of, and what is closed when it is of
// another.
func (g *Gateway) served() (view kv.View, swapped <-chan struct{}) {
	g.swapMu.Lock()
	defer g.swapMu.Unlock()
	return g.view, g.swapped
}

// Wait returns when the live table was made from rev or a later revision, or
// with ctx's error.
func (g *Gateway) Wait(ctx context.Context, rev kv.Rev) error {
	for {
		_, swapped := g.served()
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
