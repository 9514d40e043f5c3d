package gateway_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// metric waits until a series has a value; an absent series has -1.
func (f *fixture) metric(t *testing.T, series string, want float64) {
	t.Helper()
	deadline := time.After(patience)
	for got := -2.0; got != want; {
		if got = f.series(t, series); got == want {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s = %v; want %v", series, got, want)
		case <-time.After(time.Millisecond):
		}
	}
}

func (f *fixture) series(t *testing.T, series string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.gateway.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			name := family.GetName() + "{" + strings.Join(labels, ",") + "}"
			if name == series && m.GetCounter() != nil {
				return m.GetCounter().GetValue()
			}
			if name == series && m.GetGauge() != nil {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func (f *fixture) row(t *testing.T, id, source string) gateway.RouteStatus {
	t.Helper()
	for _, row := range f.gateway.Table().Routes() {
		if row.ID == id && row.Source == source {
			return row
		}
	}
	t.Fatalf("no %s route %s in %+v", source, id, f.gateway.Table().Routes())
	return gateway.RouteStatus{}
}

func static(id, path, to string) string {
	return "routes: {" + id + ": {path: '" + path + "', backends: ['" + to + "']}}"
}

// Operator over static; the static one shows through when the key goes.
func TestPrecedence(t *testing.T) {
	f := start(t, static("r", "/r", backend(t, "static")))
	want := func(name string) {
		t.Helper()
		if got := f.get("/r").seen(t).Backend; got != name {
			t.Errorf("served by %s; want %s", got, name)
		}
	}
	want("static")
	f.put("gateway/routes/r", route("/r", backend(t, "operator")))
	want("operator")
	if row := f.row(t, "r", "static"); row.State != "shadowed" {
		t.Errorf("static row %+v; want shadowed", row)
	}
	f.put("gateway/routes/r", `{"enabled":false,"path":"/r","backends":["http://127.0.0.1:1"]}`)
	f.get("/r").problem(t, 404, "no_route")
	f.delete("gateway/routes/r")
	want("static")
}

func TestBadStaticStopsTheStart(t *testing.T) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	file := parse(t, "routes:\n  a: {path: /a, cluster: gone}\n  b: {path: /b, backends: ['http://h:1'], requireAuth: true}\n")
	err = gateway.New(gateway.Options{Source: store, Keeper: store, Static: file}).Load()
	var faults spec.Faults
	if !errors.As(err, &faults) || len(faults) != 2 {
		t.Fatalf("Load: %v; want two faults", err)
	}
	for i, key := range []string{"gateway/routes/a", "gateway/routes/b"} {
		if faults[i].Key != key || faults[i].File != "gateway.yaml" || faults[i].Line != i+2 {
			t.Errorf("fault %+v; want %s on line %d", faults[i], key, i+2)
		}
	}
}

func TestSetStatic(t *testing.T) {
	f := start(t, static("r", "/r", backend(t, "old")))
	if err := f.gateway.SetStatic(parse(t, "routes: {r: {path: /r, cluster: gone}}")); err == nil {
		t.Error("a bad file was taken")
	}
	if got := f.get("/r").seen(t).Backend; got != "old" {
		t.Errorf("served by %s after a refused reload", got)
	}
	if err := f.gateway.SetStatic(parse(t, static("r", "/r", backend(t, "new")))); err != nil {
		t.Error(err)
	}
	if got := f.get("/r").seen(t).Backend; got != "new" {
		t.Errorf("served by %s; want new", got)
	}
}

// A bad key keeps its last good version live, across a restart, touches no
// other key, and heals by itself (P-20, O09).
func TestQuarantine(t *testing.T) {
	store, err := kv.Open(kv.Options{Path: t.TempDir() + "/kv.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f := startOn(t, store, static("r", "/r", backend(t, "static")))
	f.put("gateway/routes/r", route("/r", backend(t, "good")))
	f.put("gateway/routes/r", `{"path":"/r","backends":["http://127.0.0.1:1"],"fromTheFuture":1}`)
	f.put("gateway/routes/other", route("/other", backend(t, "other")))
	restarted := startOn(t, store, static("r", "/r", backend(t, "static")))
	for _, node := range []*fixture{f, restarted} {
		if got := node.get("/r").seen(t).Backend; got != "good" {
			t.Errorf("served by %s; want the last good version", got)
		}
		if got := node.get("/other").seen(t).Backend; got != "other" {
			t.Errorf("served by %s; want other", got)
		}
		if row := node.row(t, "r", "operator"); row.State != "invalid" || !strings.Contains(row.Problem, "fromTheFuture") || row.ServingRev != "1.1" || row.Rev != "1.2" {
			t.Errorf("row %+v; want invalid, serving 1.1 of 1.2", row)
		}
		node.metric(t, "grapevine_table_quarantined_keys{}", 1)
	}
	f.put("gateway/routes/r", route("/r", backend(t, "healed")))
	if got := f.get("/r").seen(t).Backend; got != "healed" {
		t.Errorf("served by %s; want healed", got)
	}
	f.metric(t, "grapevine_table_quarantined_keys{}", 0)
	for name := range store.LocalUnder("quarantine/") {
		t.Errorf("%s is still kept", name)
	}
}

// Without a good version the route answers 503 and nothing below shows
// through; a fault in what guards access never brings back an older version.
func TestQuarantineFailsClosed(t *testing.T) {
	f := start(t, static("r", "/r", backend(t, "static")))
	f.put("gateway/routes/r", `{"path":"/r","fromTheFuture":1}`)
	f.get("/r").problem(t, 503, "route_quarantined")
	f.put("gateway/routes/r", `not even json`)
	f.get("/r").problem(t, 503, "route_quarantined")
	f.put("gateway/routes/r", route("/r", backend(t, "open")))
	f.get("/r").seen(t)
	f.put("gateway/routes/r", `{"path":"/r","backends":["`+backend(t, "guarded")+`"],"requireAuth":true}`)
	f.get("/r").problem(t, 503, "route_quarantined")
	f.put("gateway/routes/only", `{"path":"/only","backends":["http://127.0.0.1:1"],"fromTheFuture":1}`)
	f.get("/only").problem(t, 503, "route_quarantined")
	f.put("gateway/routes/q", route("/q", backend(t, "open")))
	f.put("gateway/routes/q", `{"path":"/q","backends":["http://127.0.0.1:1"],"requireAuth":true,"fromTheFuture":1}`)
	f.get("/q").problem(t, 503, "route_quarantined")
	f.put("gateway/clusters/c", `{"destinations":{"a":"nonsense"}}`)
	f.put("gateway/routes/c", `{"path":"/c","cluster":"c"}`)
	f.get("/c").problem(t, 503, "route_quarantined")
}

// A static route whose cluster is taken away blocks itself alone.
func TestStaticRouteLosesItsCluster(t *testing.T) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	commit, _, err := store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put("gateway/clusters/c", []byte(`{"destinations":{"a":"`+backend(t, "c")+`"}}`))}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Merge(commit); err != nil {
		t.Fatal(err)
	}
	f := startOn(t, store, "routes: {s: {path: /s, cluster: c}}")
	f.get("/s").seen(t)
	if err := f.check(kv.Delete("gateway/clusters/c")); err == nil {
		t.Error("a cluster in use may be deleted")
	}
	f.delete("gateway/clusters/c")
	f.get("/s").problem(t, 503, "route_quarantined")
	f.put("gateway/routes/other", route("/other", backend(t, "other")))
	f.get("/other").seen(t)
}

// A write is judged before it is accepted, and only for what it brings.
func TestCheck(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/broken", `{"fromTheFuture":1}`)
	f.put("gateway/clusters/c", `{"destinations":{"a":"http://127.0.0.1:1"}}`)
	f.put("gateway/routes/c", `{"path":"/c","cluster":"c"}`)
	f.put("gateway/routes/dangling", `{"path":"/d","cluster":"gone"}`)
	f.put("gateway/clusters/only", `{"destinations":{"a":"http://127.0.0.1:1"}}`)
	f.put("gateway/routes/older", `{"path":"/o","cluster":"only"}`)
	f.put("gateway/routes/older", `{"path":"/o","cluster":"only","fromTheFuture":1}`)
	put := func(key, value string) kv.Op { return kv.Put(kv.Key(key), []byte(value)) }
	for _, tt := range []struct {
		name string
		ops  []kv.Op
		want string // key: problem; empty: accepted
	}{
		{"fine", []kv.Op{put("gateway/routes/a", route("/a", "http://h:1"))}, ""},
		{"unknown cluster", []kv.Op{put("gateway/routes/a", `{"path":"/a","cluster":"d"}`)}, `gateway/routes/a: cluster "d": no such cluster; there is c, only`},
		{"with its cluster", []kv.Op{put("gateway/routes/a", `{"path":"/a","cluster":"d"}`), put("gateway/clusters/d", `{"destinations":{"a":"http://h:1"}}`)}, ""},
		{"cluster in use", []kv.Op{kv.Delete("gateway/clusters/c")}, `gateway/routes/c: cluster "c": no such cluster`},
		{"what a last good version needs", []kv.Op{kv.Delete("gateway/clusters/only")}, "gateway/routes/older: would be served no more"},
		{"both go", []kv.Op{kv.Delete("gateway/clusters/c"), kv.Delete("gateway/routes/c")}, ""},
		{"clash", []kv.Op{put("gateway/routes/c", route("/c", "http://h:1"))}, `gateway/clusters/c lists destinations too`},
		{"broken again", []kv.Op{put("gateway/routes/broken", `{"fromTheFuture":1}`)}, "fromTheFuture"},
		{"not built", []kv.Op{put("gateway/routes/a", `{"path":"/a","backends":["http://h:1"],"requireAuth":true}`)}, "gateway/routes/a: requireAuth: this version"},
		{"section not built", []kv.Op{put("gateway/config/edge", `{"profile":"ui"}`)}, "gateway/config/edge: this version"},
		{"unrelated cluster", []kv.Op{put("gateway/clusters/new", `{"destinations":{"a":"http://h:1"}}`)}, ""},
		{"free key", []kv.Op{put("app/x", "anything")}, ""},
	} {
		err := f.check(tt.ops...)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}

// A change closes no connection that is still wanted, and those of a
// destination that has gone are closed.
func TestConnectionsAcrossSwaps(t *testing.T) {
	f := start(t, "")
	var opened, closed atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	f.put("gateway/routes/r", route("/r", server.URL))
	for range 5 {
		f.get("/r")
		f.put("gateway/routes/other", route("/other", backend(t, "b")))
		f.put("gateway/routes/r", route("/r", server.URL))
	}
	if opened.Load() != 1 || closed.Load() != 0 {
		t.Errorf("%d connections opened, %d closed over 10 changes; want 1 and 0", opened.Load(), closed.Load())
	}
	f.metric(t, `grapevine_upstream_attempts_total{cluster="r"}`, 5)
	f.delete("gateway/routes/r")
	for deadline := time.Now().Add(patience); closed.Load() != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the connection of the removed destination stays open")
		}
		<-time.After(time.Millisecond)
	}
	f.metric(t, `grapevine_upstream_attempts_total{cluster="r"}`, -1)
	f.metric(t, `grapevine_requests_total{class="2xx",route="r"}`, -1)
}

// A request finishes on the table it began with.
func TestRequestOutlivesItsRoute(t *testing.T) {
	f := start(t, "")
	arrived, release := make(chan struct{}), make(chan struct{})
	f.put("gateway/routes/r", route("/r", serve(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		io.WriteString(w, "whole")
	})))
	answered := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + f.address + "/r")
		if err != nil {
			answered <- err.Error()
			return
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		answered <- string(body)
	}()
	await(t, arrived)
	f.delete("gateway/routes/r")
	f.get("/r").problem(t, 404, "no_route")
	close(release)
	if got := <-answered; got != "whole" {
		t.Errorf("got %q", got)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestProbes(t *testing.T) {
	f := start(t, "")
	for _, path := range []string{"/health", "/ready", "/alive", "/health/ready", "/health/live", "/health/startup", "/HEALTH", "/Alive/", "/ready?x", "/%68ealth", "//health", "/x/../ready"} {
		if got := f.get(path); got.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	f.get("/healthy").problem(t, 404, "no_route")
	f.ask("POST", "/health", "Content-Length: 0").problem(t, 405, "method_not_allowed")
	f.put("gateway/config/ready", `{"require":["c"],"paths":{"live":["/livez"],"startup":[]}}`)
	f.get("/alive").problem(t, 404, "no_route")
	f.get("/health/startup").problem(t, 404, "no_route")
	f.get("/ready").problem(t, 503, "not_ready")
	f.put("gateway/routes/c", route("/c", backend(t, "b")))
	if got := f.get("/ready"); got.StatusCode != 200 {
		t.Errorf("/ready with its cluster: %d %s", got.StatusCode, got.body)
	}
	f.gateway.Drain()
	f.get("/ready").problem(t, 503, "not_ready")
	if got := f.get("/livez"); got.StatusCode != 200 {
		t.Errorf("a draining node is not alive: %d", got.StatusCode)
	}
}

func TestNotReadyBeforeLoad(t *testing.T) {
	store, _ := kv.Open(kv.Options{})
	defer store.Close()
	g := gateway.New(gateway.Options{Source: store, Keeper: store})
	if ok, reason := g.Ready(); ok || reason == "" {
		t.Errorf("Ready() = %v, %q before Load", ok, reason)
	}
	recorder := httptest.NewRecorder()
	g.ServeHTTP(recorder, httptest.NewRequest("GET", "/ready", nil))
	if recorder.Code != 503 {
		t.Errorf("/ready before Load: %d", recorder.Code)
	}
}

// The hash says what is served, whatever way it came about.
func TestHash(t *testing.T) {
	one, two := start(t, ""), start(t, "")
	one.put("gateway/routes/a", route("/a", "http://h:1"))
	one.put("gateway/routes/b", route("/b", "http://h:1"))
	two.put("gateway/routes/b", route("/b", "http://h:2"))
	two.put("gateway/routes/b", route("/b", "http://h:1"))
	if one.gateway.Table().Hash() == two.gateway.Table().Hash() {
		t.Error("different tables have one hash")
	}
	two.put("gateway/routes/a", route("/a", "http://h:1"))
	if a, b := one.gateway.Table().Hash(), two.gateway.Table().Hash(); a != b {
		t.Errorf("equal tables have hashes %s and %s", a, b)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	f := start(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.gateway.Wait(ctx, kv.Rev{Epoch: 1, Rev: 99}); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v", err)
	}
}

// TestCoalescing swaps in fewer tables than there are changes.
func TestCoalescing(t *testing.T) {
	f := start(t, "")
	before := f.series(t, "grapevine_table_swaps_total{}")
	var last kv.Rev
	for range 200 {
		commit, result, err := f.store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put("gateway/routes/r", []byte(route("/r", "http://h:1")))}})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.Merge(commit); err != nil {
			t.Fatal(err)
		}
		last = result.Rev
	}
	if err := f.gateway.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if swaps := f.series(t, "grapevine_table_swaps_total{}") - before; swaps < 1 || swaps > 100 {
		t.Errorf("%v swaps for 200 changes", swaps)
	}
}

// A route's own backends stay its own when another route names a cluster with
// the same id.
func TestClustersOfOneID(t *testing.T) {
	f := start(t, "clusters: {r: {destinations: {a: '"+backend(t, "named")+"'}}}")
	f.put("gateway/routes/q", `{"path":"/q","cluster":"r"}`)
	f.put("gateway/routes/r", route("/r", backend(t, "own")))
	f.put("gateway/routes/z", `{"path":"/z","cluster":"r"}`)
	for path, want := range map[string]string{"/q": "named", "/r": "own", "/z": "named"} {
		if got := f.get(path).seen(t).Backend; got != want {
			t.Errorf("%s went to %s; want %s", path, got, want)
		}
	}
}

// A file that takes away the cluster of an operator's route is refused as a
// whole, as is one with faults of its own.
func TestReloadTakesNothingFromOperators(t *testing.T) {
	with := "clusters: {c: {destinations: {a: '" + backend(t, "c") + "'}}}"
	f := start(t, with)
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	if err := f.gateway.SetStatic(parse(t, "clusters: {other: {destinations: {}}}")); err == nil || !strings.Contains(err.Error(), "gateway/routes/r") {
		t.Errorf("SetStatic: %v; want the route that would lose its cluster", err)
	}
	f.get("/r").seen(t)
	if err := f.gateway.SetStatic(parse(t, with)); err != nil {
		t.Error(err)
	}
}

// A route that is not enabled serves nothing, whatever else is wrong with it.
func TestDisabledRouteBlocksNothing(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/all", route("/{**rest}", backend(t, "all")))
	f.put("gateway/routes/off", `{"path":"/api/{**rest}","enabled":false,"fromTheFuture":1}`)
	f.get("/api/x").seen(t)
}

// failingKeeper can't write until it is mended.
type failingKeeper struct {
	gateway.Keeper
	broken atomic.Bool
}

func (k *failingKeeper) SetLocal(name string, value []byte) error {
	if k.broken.Load() {
		return errors.New("disk is full")
	}
	return k.Keeper.SetLocal(name, value)
}

// A last good version that could not be kept is kept with the next table.
func TestKeepingIsTriedAgain(t *testing.T) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	keeper := &failingKeeper{Keeper: store}
	f := &fixture{t: t, store: store, gateway: gateway.New(gateway.Options{Source: store, Keeper: keeper})}
	if err := f.gateway.Load(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.gateway.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; f.gateway.Close() })
	f.put("gateway/routes/r", route("/r", "http://h:1"))
	keeper.broken.Store(true)
	f.put("gateway/routes/r", `{"path":"/r","fromTheFuture":1}`)
	keeper.broken.Store(false)
	f.put("app/any", "change")
	for range 1000 { // the last table is live a moment before its versions are counted
		if _, kept := store.Local("quarantine/gateway/routes/r"); kept {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Error("the last good version is not on disk")
}
