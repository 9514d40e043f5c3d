package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"grapevine/gateway"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// maintain writes a maintenance in any form, as an operator does.
func (f *fixture) maintain(cluster, value string) {
	f.t.Helper()
	key := strings.TrimSuffix("gateway/maintenance/"+cluster, "/")
	decoded, err := spec.Decode(key, []byte(value), spec.FormAuto)
	if err != nil {
		f.t.Fatal(err)
	}
	f.put(key, string(decoded.JSON))
}

func (f *fixture) wants(target string, status int) answer {
	f.t.Helper()
	a := f.get(target)
	if a.StatusCode != status {
		f.t.Errorf("%s: got %d %s; want %d", target, a.StatusCode, a.body, status)
	}
	return a
}

// Two routes, one with its backends, one with a named cluster; and two that answer
// by themselves.
func startMaintained(t *testing.T) *fixture {
	f := start(t, "")
	f.put("gateway/routes/booking", route("/booking/{**r}", backend(t, "booking")))
	f.put("gateway/clusters/shop-pool", `{"destinations":{"a":"`+backend(t, "shop")+`"}}`)
	f.put("gateway/routes/shop", `{"path":"/shop/{**r}","cluster":"shop-pool"}`)
	f.put("gateway/routes/hello", `{"path":"/hello","respond":{"status":200,"body":"hello"}}`)
	f.put("gateway/routes/old", `{"path":"/old","redirect":{"to":"/hello"}}`)
	return f
}

func TestMaintenanceOfOneCluster(t *testing.T) {
	f := startMaintained(t)
	for _, on := range []string{
		"on", "true", "enabled:true,reason:deploy", "enabled=true,reason=deploy", `{"enabled":true}`, `{"Enabled":true,"Reason":"deploy"}`,
	} {
		f.maintain("booking", on)
		a := f.wants("/booking/1", 503)
		a.problem(t, 503, "maintenance")
		if got := a.Header.Get("Retry-After"); got != "30" {
			t.Errorf("%s: Retry-After %q", on, got)
		}
		if told := strings.Contains(a.body, "deploy"); told != strings.Contains(on, "deploy") {
			t.Errorf("%s: answers %s", on, a.body)
		}
		for _, other := range []string{"/shop/1", "/hello", "/alive", "/ready"} {
			f.wants(other, 200)
		}
		for _, off := range []string{"off", "false", "enabled:false", `{"enabled":false}`} {
			f.maintain("booking", off)
			f.wants("/booking/1", 200)
			f.maintain("booking", on)
			f.wants("/booking/1", 503)
		}
		f.delete("gateway/maintenance/booking")
		f.wants("/booking/1", 200)
	}
	f.maintain("shop-pool", "on") // it is the cluster that counts, not the route
	f.wants("/shop/1", 503)
	f.wants("/booking/1", 200)
	f.maintain("shop", "on")
	f.delete("gateway/maintenance/shop-pool")
	f.wants("/shop/1", 200)
}

func TestMaintenanceOfTheGateway(t *testing.T) {
	f := startMaintained(t)
	f.maintain("", "enabled:true,reason:moving house.,retryAfter:90s")
	for _, target := range []string{"/booking/1", "/shop/1", "/hello", "/old"} {
		a := f.wants(target, 503)
		a.problem(t, 503, "maintenance")
		if got := a.Header.Get("Retry-After"); got != "90" || !strings.Contains(a.body, "under maintenance: moving house.\"") {
			t.Errorf("%s: Retry-After %q, %s", target, got, a.body)
		}
	}
	for _, probe := range []string{"/alive", "/health", "/health/live", "/ready", "/health/ready", "/health/startup"} {
		f.wants(probe, 200)
	}
	f.wants("/nowhere", 404)
	f.maintain("", "off")
	f.wants("/old", 308)
	f.wants("/booking/1", 200)
}

func TestMaintenanceLetsClientsThrough(t *testing.T) {
	f := startMaintained(t)
	f.put("gateway/config/headers", `{"trustedProxies":["loopback"]}`)
	f.maintain("", "enabled:true,allow:[10.0.0.0/8,2001:db8::/32]")
	for client, status := range map[string]int{
		"10.1.2.3": 200, "2001:db8::1": 200, "11.1.2.3": 503, "2001:db9::1": 503, "::ffff:10.1.2.3": 200,
	} {
		if a := f.get("/booking/1", "Host: h", "X-Forwarded-For: "+client); a.StatusCode != status {
			t.Errorf("%s: %d", client, a.StatusCode)
		}
	}
	// A client that no proxy vouches for is who it is.
	f.wants("/booking/1", 503)
	f.maintain("", "enabled:true,allow:127.0.0.1")
	f.wants("/booking/1", 200)
	// Each of two must let it through.
	f.maintain("booking", "on")
	f.wants("/booking/1", 503)
	f.wants("/shop/1", 200)
}

// What a route sets in its answers is in the one of a maintenance, too.
func TestMaintenanceKeepsTheRoutesFields(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", `{"path":"/r","backends":["`+backend(t, "r")+`"],"transforms":{"response":{"set":{"X-Frame-Options":"DENY"}}}}`)
	f.maintain("r", "on")
	if got := f.wants("/r", 503); got.Header.Get("X-Frame-Options") != "DENY" || got.Header.Get("Retry-After") != "30" {
		t.Errorf("got %v", got.Header)
	}
}

func TestMaintenanceBody(t *testing.T) {
	f := startMaintained(t)
	for body, media := range map[string]string{
		"<h1>Back soon</h1>":     "text/html; charset=utf-8",
		`{"back":"soon"}`:        "application/json",
		"Back soon, {promised}!": "text/plain; charset=utf-8",
	} {
		f.maintain("booking", `{"enabled":true,"body":`+strconv.Quote(body)+`}`)
		a := f.wants("/booking/1", 503)
		if a.body != body || a.Header.Get("Content-Type") != media || a.Header.Get("Retry-After") != "30" {
			t.Errorf("got %v %q", a.Header, a.body)
		}
	}
}

// A bad value leaves what was; where there was nothing, availability fails open.
func TestMaintenanceWithAFault(t *testing.T) {
	f := startMaintained(t)
	f.put("gateway/maintenance/booking", `{"enabled":true,"fromTheFuture":1}`)
	f.wants("/booking/1", 200)
	f.maintain("booking", "on")
	f.put("gateway/maintenance/booking", `{"enabled":false,"fromTheFuture":1}`)
	f.wants("/booking/1", 503)
	if faults := f.gateway.Table().Faults(); len(faults) != 1 || faults[0].Key != "gateway/maintenance/booking" {
		t.Errorf("%v", faults)
	}
	f.maintain("booking", "off")
	f.wants("/booking/1", 200)
}

func TestMaintenanceStatus(t *testing.T) {
	f := startMaintained(t)
	if rows := f.gateway.Table().Maintenance(); rows == nil || len(rows) != 0 {
		t.Errorf("got %v", rows)
	}
	f.maintain("booking", "enabled:true,reason:deploy,until:2999-01-01T00:00:00Z,grace:5s,allow:10.0.0.0/8")
	f.maintain("shop-pool", "enabled:true,until:2001-01-01T00:00:00Z")
	f.maintain("", "on")
	f.wants("/booking/1", 503)
	f.maintain("", "off")
	f.wants("/booking/1", 503)
	f.wants("/booking/1", 503)
	f.wants("/shop/1", 200)
	rows := f.gateway.Table().Maintenance()
	if len(rows) != 2 {
		t.Fatalf("got %+v", rows)
	}
	for _, r := range f.gateway.Table().Routes() {
		if r.Maintenance != (r.ID == "booking") {
			t.Errorf("route %s: under maintenance %v", r.ID, r.Maintenance)
		}
	}
	b := rows[0]
	if b.Cluster != "booking" || b.State != "on" || b.Scope != "all" || b.Reason != "deploy" || b.TurnedAway != 2 || b.Until.Year() != 2999 ||
		b.Grace != "5s" || !slices.Equal(b.Allow, []string{"10.0.0.0/8"}) || time.Since(b.Since) > time.Minute || b.Rev == "" {
		t.Errorf("got %+v", b)
	}
	if s := rows[1]; s.Cluster != "shop-pool" || s.State != "ended" {
		t.Errorf("got %+v", s)
	}
	// What it did is counted on when its value changes.
	f.maintain("booking", "enabled:true,reason:longer")
	if b := f.gateway.Table().Maintenance()[0]; b.TurnedAway != 2 || b.Reason != "longer" {
		t.Errorf("got %+v", b)
	}
	f.maintain("nothing", "on")
	lint := f.gateway.Table().Lint()
	if !slices.ContainsFunc(lint, func(l spec.Fault) bool { return l.Key == "gateway/maintenance/nothing" }) {
		t.Errorf("got %v", lint)
	}
}

// To switch it on and off makes nothing else anew: connections to the backends
// stay, and so do the counters of a cluster.
func TestMaintenanceRebuildsNothing(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	f := start(t, "")
	f.put("gateway/routes/booking", route("/booking", server.URL))
	for range 5 {
		f.wants("/booking", 200)
		f.maintain("booking", "on")
		f.wants("/booking", 503)
		f.maintain("", "on")
		f.delete("gateway/maintenance/booking")
		f.wants("/booking", 503)
		f.delete("gateway/maintenance")
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections to the backend", n)
	}
}

// What is under way finishes within the grace, and is ended after it, for the
// cluster alone.
func TestMaintenanceEndsWhatIsUnderWay(t *testing.T) {
	if overNetHTTP {
		t.Skip("an embedding server has nobody who ends its requests")
	}
	waiting, release := make(chan string, 9), make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("stream") {
			io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
		}
		waiting <- r.URL.Path
		select {
		case <-release:
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	sockets, _ := socketServer(t)
	f := start(t, "")
	f.put("gateway/config/headers", `{"trustedProxies":["loopback"]}`)
	f.put("gateway/routes/booking", route("/booking/{**r}", slow))
	f.put("gateway/routes/shop", route("/shop/{**r}", slow))
	f.put("gateway/clusters/chat", `{"destinations":{"a":"`+sockets+`"}}`)
	f.put("gateway/routes/chat", `{"path":"/chat/{**r}","pathRemovePrefix":"/chat","cluster":"chat"}`)

	ask := func(target string, fields ...string) chan string {
		answered := make(chan string, 1)
		go func() {
			request, _ := http.NewRequest("GET", "http://"+f.address+target, nil)
			for _, field := range fields {
				name, value, _ := strings.Cut(field, ": ")
				request.Header.Set(name, value)
			}
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				answered <- err.Error()
				return
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			answered <- fmt.Sprint(response.StatusCode, " ", string(body), " ", err)
		}()
		if strings.HasPrefix(target, "/booking") || strings.HasPrefix(target, "/shop") {
			<-waiting
		}
		return answered
	}
	client, _, err := websocket.Dial(t.Context(), "ws://"+f.address+"/chat/echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseNow()
	headless, stream, tester := ask("/booking/1"), ask("/booking/2?stream"), ask("/booking/3", "X-Forwarded-For: 10.1.1.1")
	other := ask("/shop/1")

	f.maintain("booking", "enabled:true,grace:300ms,reason:deploy,allow:10.0.0.0/8")
	f.wants("/booking/4", 503)
	began := time.Now()
	if got := <-headless; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "under maintenance: deploy.") {
		t.Errorf("who waited got %s", got)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("it was ended %s after the begin", took)
	}
	if got := <-stream; got != "200 begun unexpected EOF" {
		t.Errorf("the stream: %s", got)
	}
	if b := f.gateway.Table().Maintenance()[0]; b.Ended != 2 || !b.GraceOver {
		t.Errorf("got %+v", b)
	}
	f.metric(t, `grapevine_upstream_failures_total{cluster="booking",phase="recalled"}`, 1)
	f.metric(t, `grapevine_upstream_failures_total{cluster="booking",phase="client_gone"}`, 0)
	f.maintain("chat", "enabled:true,grace:0s")
	if _, _, err := client.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ends with %v", err)
	}
	close(release)
	for name, answered := range map[string]chan string{"tester": tester, "other cluster": other} {
		if got := <-answered; got != "200 done <nil>" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// What is this node's own stays over a restart, and ends when it is ended here.
func TestLocalMaintenance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	open := func() *kv.Store {
		store, err := kv.Open(kv.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	f := startOn(t, store, "")
	f.put("gateway/routes/booking", route("/booking", backend(t, "b")))
	rev := store.View().Rev()
	if err := f.gateway.BeginLocal("booking", []byte(`{"enabled":true,"reason":"fire"}`), "alice"); err != nil {
		t.Fatal(err)
	}
	f.wants("/booking", 503)
	if store.View().Rev() != rev {
		t.Error("the cluster's configuration has changed")
	}
	if err := f.gateway.BeginLocal("booking", []byte(`{"enabled":true,"grace":"forever"}`), "alice"); err == nil {
		t.Error("a bad value is taken")
	}
	store.Close()

	store = open()
	t.Cleanup(func() { store.Close() })
	g := startOn(t, store, "")
	g.wants("/booking", 503)
	row := g.gateway.Table().Maintenance()[0]
	if row.Cluster != "booking" || row.Scope != "node" || row.By != "alice" || row.Reason != "fire" || row.Rev != "" || time.Since(row.Since) > time.Minute {
		t.Errorf("got %+v", row)
	}
	// The cluster's own comes and goes beside it, and counts for itself.
	g.maintain("booking", "on")
	for _, row := range g.gateway.Table().Maintenance() {
		if want := map[string]int64{"node": 1, "all": 0}[row.Scope]; row.TurnedAway != want {
			t.Errorf("that of %s has turned %d away; want %d", row.Scope, row.TurnedAway, want)
		}
	}
	if was, err := g.gateway.EndLocal("booking"); !was || err != nil {
		t.Error(was, err)
	}
	g.wants("/booking", 503)
	g.maintain("booking", "off")
	g.wants("/booking", 200)
	if was, err := g.gateway.EndLocal("booking"); was || err != nil {
		t.Error(was, err)
	}
	if err := g.gateway.BeginLocal("", []byte(`{"enabled":true}`), "bob"); err != nil {
		t.Fatal(err)
	}
	g.wants("/booking", 503)
	for name := range store.LocalUnder("maintenance") {
		if name != "maintenance" {
			t.Errorf("%s is kept", name)
		}
	}
}

var _ gateway.Recaller = recaller(nil)

// recaller stands for a front.
type recaller func()

func (r recaller) Recall(func(any, netip.Addr) bool) int { r(); return 0 }

func endOverdue(t *testing.T, g *gateway.Gateway, recalled func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.EndOverdue(ctx, recaller(recalled)) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
