package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/kv"
)

// moody is a backend that answers as it is told.
type moody struct {
	name   string
	status atomic.Int32 // 0: the body breaks off
	asked  atomic.Int32 // but for checks
	checks atomic.Int32
	url    string
}

func newMoody(t *testing.T, name string) *moody {
	m := &moody{name: name}
	m.status.Store(200)
	m.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() == "grapevine-health" {
			m.checks.Add(1)
		} else {
			m.asked.Add(1)
		}
		status := int(m.status.Load())
		if status == 0 {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(200)
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		io.WriteString(w, m.name)
	})
	return m
}

// until asks until done.
func (f *fixture) until(target string, done func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			f.t.Fatal("it did not happen")
		}
		if response, err := http.Get("http://" + f.address + target); err == nil {
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A destination whose answers are failures in a row gets no request any more,
// whatever else changes; a single one is never taken out.
func TestEjection(t *testing.T) {
	for how, status := range map[string]int32{"unavailable": 503, "half bodies": 0} {
		t.Run(how, func(t *testing.T) {
			f := start(t, "")
			bad, good := newMoody(t, "bad"), newMoody(t, "good")
			cluster := `{"destinations":{"a":"` + bad.url + `","b":"` + good.url + `"}%s}`
			f.put("gateway/clusters/c", fmt.Sprintf(cluster, ""))
			f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
			f.put("gateway/routes/alone", route("/alone", bad.url))
			bad.status.Store(status)
			healthy := `grapevine_destination_healthy{cluster="c",destination="` + bad.url + `"}`
			f.until("/r", func() bool { return f.series(t, healthy) == 0 })
			asked := bad.asked.Load()
			for i := range 20 {
				if i == 5 {
					f.put("gateway/routes/other", route("/other", good.url))
				}
				if i == 10 {
					f.put("gateway/clusters/c", fmt.Sprintf(cluster, `,"loadBalancing":"random"`))
				}
				if got := f.get("/r"); got.body != "good" {
					t.Errorf("answered %d %q", got.StatusCode, got.body)
				}
			}
			if n := bad.asked.Load() - asked; n != 0 {
				t.Errorf("the ejected one was asked %d times", n)
			}
			f.metric(t, `grapevine_destination_ejections_total{cluster="c",destination="`+bad.url+`"}`, 1)
			asked = bad.asked.Load()
			f.until("/alone", func() bool { return bad.asked.Load() == asked+20 })
			f.put("gateway/clusters/c", `{"destinations":{"b":"`+good.url+`"}}`)
			f.metric(t, healthy, -1)
		})
	}
}

// What a client does is held against nobody.
func TestClientsEjectNobody(t *testing.T) {
	f := start(t, "")
	arrived := make(chan struct{}, 100)
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	f.put("gateway/clusters/c", `{"destinations":{"a":"`+slow+`","b":"`+unused(t)+`"},"health":{"passive":{"consecutiveFailures":1,"maxEjectedPercent":100}}}`)
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	for range 5 {
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET /r HTTP/1.1\r\nHost: x\r\n\r\n")
		await(t, arrived)
		conn.Close()
	}
	f.metric(t, `grapevine_requests_total{class="499",route="r"}`, 5)
	f.metric(t, `grapevine_destination_healthy{cluster="c",destination="`+slow+`"}`, -1)
}

// A destination that checks find bad gets no request, and gets them again when
// it is well. Nothing of it is left when it goes.
func TestChecks(t *testing.T) {
	f := start(t, "")
	one, other := newMoody(t, "one"), newMoody(t, "other")
	f.put("gateway/clusters/c", `{"destinations":{"a":"`+one.url+`","b":"`+other.url+`"},"health":{"active":{"path":"/alive","interval":"100ms"}}}`)
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	healthy := `grapevine_destination_healthy{cluster="c",destination="` + one.url + `"}`
	f.metric(t, healthy, 1)
	one.status.Store(500)
	f.metric(t, healthy, 0)
	f.put("gateway/routes/other", route("/other", one.url))
	for range 10 {
		if got := f.get("/r"); got.body != "other" {
			t.Errorf("answered %d %q", got.StatusCode, got.body)
		}
	}
	other.status.Store(500)
	f.metric(t, `grapevine_cluster_panic{cluster="c"}`, 1)
	if f.get("/r").StatusCode != 500 {
		t.Error("nobody was asked in a panic")
	}
	one.status.Store(200)
	f.metric(t, healthy, 1)
	f.metric(t, `grapevine_cluster_panic{cluster="c"}`, 0)
	f.put("gateway/clusters/c", `{"destinations":{"b":"`+other.url+`"}}`)
	f.metric(t, healthy, -1)
	f.metric(t, `grapevine_health_checks_total{destination="`+one.url+`",result="good"}`, -1)
	checks := one.checks.Load()
	<-time.After(250 * time.Millisecond)
	if n := one.checks.Load() - checks; n > 1 { // one may have been under way
		t.Errorf("asked %d times although it is gone", n)
	}
}

// Without a healthy destination and without a panic the answer says so.
func TestNoHealthyDestination(t *testing.T) {
	f := start(t, "")
	f.put("gateway/clusters/c", `{"destinations":{"a":"`+unused(t)+`"},"panicPercent":0,"health":{"active":{"interval":"100ms"}}}`)
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	f.metric(t, `grapevine_health_checks_total{destination="`+f.explain("/r").Forward.Destinations[0].Address+`",result="good"}`, 0)
	f.until("/r", func() bool { return strings.Contains(f.get("/r").body, "no_healthy_destination") })
	refused := f.get("/r")
	refused.problem(t, 503, "no_healthy_destination")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}

// The only destination goes and comes again: it is asked (O26).
func TestDestinationComesAgain(t *testing.T) {
	f := start(t, "")
	up := newMoody(t, "up")
	with := `{"destinations":{"a":"` + up.url + `"},"health":{"active":{"path":"/alive","interval":"1s"}}}`
	f.put("gateway/clusters/c", with)
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	for range 5 {
		if got := f.get("/r"); got.body != "up" {
			t.Errorf("answered %d %q", got.StatusCode, got.body)
		}
		f.put("gateway/clusters/c", `{"destinations":{}}`)
		f.get("/r").problem(t, 503, "no_destination")
		f.put("gateway/clusters/c", with)
	}
	if got := f.get("/r"); got.body != "up" {
		t.Errorf("answered %d %q", got.StatusCode, got.body)
	}
}

// A node prefers its own region.
func TestRegion(t *testing.T) {
	store := storeOf(t)
	f, g := startWith(t, store, gateway.Options{Region: "eu"}), startWith(t, store, gateway.Options{Region: "us"})
	f.put("gateway/clusters/c", `{"destinations":{"a":{"address":"`+newMoody(t, "eu").url+`","region":"eu"},"b":{"address":"`+newMoody(t, "us").url+`","region":"us"}}}`)
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c"}`)
	f.await(g)
	for range 4 {
		if a, b := f.get("/r").body, g.get("/r").body; a != "eu" || b != "us" {
			t.Errorf("the node in eu was answered by %s, that in us by %s", a, b)
		}
	}
}

func storeOf(t *testing.T) *kv.Store {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// await waits until another gateway serves what the store holds.
func (f *fixture) await(g *fixture) {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if err := g.gateway.Wait(ctx, f.store.View().Rev()); err != nil {
		f.t.Fatal(err)
	}
}

// zone answers lookups of one name as it is told.
type zone struct {
	// mu guards what follows.
	mu      sync.Mutex
	address string
}

func (z *zone) Lookup(_ context.Context, host string) ([]netip.Addr, time.Duration, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if host != "svc.example" {
		return nil, 0, fmt.Errorf("no host %s", host)
	}
	return []netip.Addr{netip.MustParseAddr(z.address)}, time.Second, nil
}

// A hostname is looked up again, and what its old address had is given up
// without a request lost.
func TestHostname(t *testing.T) {
	if testing.Short() {
		t.Skip("takes six seconds: the least age of an answer")
	}
	var ends sync.Map
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	second, err := net.Listen("tcp", net.JoinHostPort("127.0.0.2", port))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []net.Listener{listener, second} {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, l.Addr().String()) })}
		server.ConnState = func(conn net.Conn, state http.ConnState) { ends.Store(conn.LocalAddr().String(), state) }
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
	}
	z := &zone{address: "127.0.0.1"}
	f := startWith(t, storeOf(t), gateway.Options{Resolver: z})
	f.put("gateway/routes/r", route("/r", "http://svc.example:"+port))
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	ask := func() string {
		io.WriteString(conn, "GET /r HTTP/1.1\r\nHost: x\r\n\r\n")
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("got %v, %v", response, err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		return string(body)
	}
	if got := ask(); got != listener.Addr().String() {
		t.Errorf("answered by %s", got)
	}
	z.mu.Lock()
	z.address = "127.0.0.2"
	z.mu.Unlock()
	deadline := time.Now().Add(patience)
	for ask() != second.Addr().String() {
		if time.Now().After(deadline) {
			t.Fatal("the new address is not used")
		}
		<-time.After(10 * time.Millisecond)
	}
	for {
		if state, _ := ends.Load(listener.Addr().String()); state == http.StateClosed {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the connection to the old address is open still")
		}
		<-time.After(10 * time.Millisecond)
	}
}
