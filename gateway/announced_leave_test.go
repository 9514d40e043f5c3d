package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/kv"
)

func (a *announcer) drained(ctx context.Context, name string) error {
	return a.gateway.Drained(ctx, instanceKey(name), ownNode, a.own.Mark())
}

// slow is a backend whose requests for /r/wait take until they are let go; open counts
// its connections.
type slow struct {
	url           string
	entered, free chan struct{}
	open          atomic.Int32
}

func newSlow(t *testing.T, name string) *slow {
	s := &slow{entered: make(chan struct{}, 1), free: make(chan struct{})}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/r/wait" {
			s.entered <- struct{}{}
			<-s.free
		}
		json.NewEncoder(w).Encode(seen{Backend: name})
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL
	return s
}

// An instance is drained when nothing leads to it any more (N-06).
func TestDrained(t *testing.T) {
	a := announceTo(t, start(t, ""))
	s := newSlow(t, "slow")
	a.announce("r/slow", "/r/{**rest}", s.url)
	a.serve("/r/x", 1, "slow")
	if err := a.drained(t.Context(), "r/slow"); err == nil || !strings.Contains(err.Error(), "is not draining") {
		t.Errorf("drained: %v", err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if got := a.get("/r/wait"); got.StatusCode != 200 {
			t.Errorf("the request under way got %d %s", got.StatusCode, got.body)
		}
	})
	<-s.entered
	a.drain("r/slow")
	a.serve("/r/x", 2, "slow") // better than 503
	a.announce("r/b", "/r/{**rest}", backend(t, "b"))
	a.serve("/r/x", 4, "b")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := a.drained(ctx, "r/slow"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 requests") {
		t.Errorf("drained: %v; want that a request is under way", err)
	}
	close(s.free)
	waiting.Wait()
	if err := a.drained(t.Context(), "r/slow"); err != nil {
		t.Error(err)
	}
	for deadline := time.After(patience); s.open.Load() > 0; {
		select {
		case <-deadline:
			t.Fatalf("%d connections are open", s.open.Load())
		case <-time.After(time.Millisecond):
		}
	}
	a.withdraw("r/b")
	a.get("/r/x").problem(t, 503, "no_destination") // the process may have ended
	a.announce("r/slow", "/r/{**rest}", s.url)
	a.serve("/r/x", 1, "slow")
	a.withdraw("r/slow")
	for _, gone := range []string{"r/slow", "r/never"} {
		if err := a.drained(t.Context(), gone); err != nil {
			t.Errorf("%s: %v; want drained, being gone", gone, err)
		}
	}
	future := a.own.Mark()
	future.Seq++
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := a.gateway.Drained(ctx, instanceKey("r/slow"), ownNode, future); err == nil || !strings.Contains(err.Error(), "is not served yet") {
		t.Errorf("drained: %v; want that the mark is not there", err)
	}
}

// A request that began with a table in which the instance was well goes to another
// one, however late it comes.
func TestLateRequestMeetsAShutInstance(t *testing.T) {
	parked, release := make(chan struct{}), make(chan struct{})
	park := func(next exchange.Handler) exchange.Handler {
		return exchange.HandlerFunc(func(x *exchange.Exchange) {
			if string(x.Request.Target) == "/r/late" {
				parked <- struct{}{}
				<-release
			}
			next.Serve(x)
		})
	}
	a := announceTo(t, start(t, "", func(g *gateway.Gateway) { g.Use(park) }))
	a.announce("r/a", "/r/{**rest}", backend(t, "a"))
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if got := a.get("/r/late"); got.StatusCode != 200 || !strings.Contains(got.body, `"Backend":"b"`) {
			t.Errorf("got %d %s; want b's answer", got.StatusCode, got.body)
		}
	})
	<-parked
	a.announce("r/b", "/r/{**rest}", backend(t, "b"))
	a.drain("r/a")
	if err := a.drained(t.Context(), "r/a"); err != nil {
		t.Error(err)
	}
	close(release)
	waiting.Wait()
}

// Another destination with the address keeps its connections.
func TestDrainedLeavesOthersTheirConnections(t *testing.T) {
	a := announceTo(t, start(t, ""))
	s := newSlow(t, "slow")
	a.put("gateway/routes/o", route("/o", s.url))
	a.announce("r/slow", "/r/{**rest}", s.url)
	a.serve("/o", 1, "slow")
	a.drain("r/slow")
	if err := a.drained(t.Context(), "r/slow"); err != nil {
		t.Error(err)
	}
	a.serve("/o", 1, "slow")
	if n := s.open.Load(); n != 1 {
		t.Errorf("%d connections; want the one that there was", n)
	}
}

// A route whose last instance is gone answers 503 for the linger, then 404 (C-13).
func TestLingerEnds(t *testing.T) {
	a := announceTo(t, start(t, ""))
	a.put("gateway/config/announce", `{"linger":"300ms"}`)
	a.announce("r/1", "/r", backend(t, "a"))
	a.withdraw("r/1")
	a.get("/r").problem(t, 503, "no_destination")
	for deadline := time.After(patience); a.get("/r").StatusCode != 404; {
		select {
		case <-deadline:
			t.Fatal("the route is never given up")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if _, found := a.gateway.Table().Cluster("r"); found {
		t.Error("its cluster is there still")
	}
}

// Series of instances that are gone vanish, however many there were (O29).
func TestSeriesOfInstances(t *testing.T) {
	a := announceTo(t, start(t, ""))
	a.put("gateway/config/announce", `{"linger":"1ms"}`)
	before := a.gathered(t)
	for i := range 5000 {
		value := values(fmt.Sprintf("/many%d/{**rest}", i%500), fmt.Sprintf("http://127.0.0.1:%d", 20000+i))
		if err := a.own.Put(instanceKey(fmt.Sprintf("many%d/%d", i%500, i)), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	a.settle()
	a.metric(t, `grapevine_announced_instances{state="serving"}`, 5000)
	a.get("/many0/x").problem(t, 502, "connect_failed")
	if err := a.own.WithdrawAll(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(patience); a.get("/many0/x").StatusCode != 404; {
		select {
		case <-deadline:
			t.Fatal("the route is never given up")
		case <-time.After(5 * time.Millisecond):
		}
	}
	const stray = 40 // requests that no route took have series now
	if after := a.gathered(t); after > before+stray {
		t.Errorf("%d series; %d before", after, before)
	}
}

// gathered counts the series.
func (f *fixture) gathered(t *testing.T) (n int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.gateway.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		n += len(family.GetMetric())
	}
	return n
}

// An orphan answers by its cluster's checks, or a connection.
func TestAnswers(t *testing.T) {
	a := announceTo(t, start(t, ""))
	entry := func(name, address string) kv.Entry {
		return kv.Entry{Key: instanceKey(name), Value: []byte(values("/r", address)), Own: &kv.Ownership{Owner: "node2"}}
	}
	if !a.gateway.Answers(entry("r/1", backend(t, "a"))) || a.gateway.Answers(entry("r/1", unused(t))) {
		t.Error("a connection does not decide")
	}
	if a.gateway.Answers(kv.Entry{Key: instanceKey("r/1"), Value: []byte("x"), Own: &kv.Ownership{}}) {
		t.Error("what can't be read answers")
	}
	if !a.gateway.Answers(kv.Entry{Key: "gateway/nodes/x", Own: &kv.Ownership{}}) {
		t.Error("a key that is no instance's does not answer")
	}
}
