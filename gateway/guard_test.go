package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/kv"
)

// fickle is a backend that answers with the status it is told, and counts.
type fickle struct {
	status atomic.Int64
	calls  atomic.Int64
	url    string
}

func newFickle(t *testing.T) *fickle {
	m := new(fickle)
	m.status.Store(200)
	m.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		w.WriteHeader(int(m.status.Load()))
	})
	return m
}

// guarded is a cluster whose breaker opens with the third failure of three.
func guarded(more string, addresses ...string) string {
	var list []string
	for i, address := range addresses {
		list = append(list, fmt.Sprintf(`"d%d":%q`, i, address))
	}
	return fmt.Sprintf(`{"destinations":{%s},"health":{"passive":{"enabled":false}},"resilience":{"circuitBreaker":`+
		`{"failureThreshold":3,"minimumThroughput":3,"breakDuration":"300ms"%s}}}`, strings.Join(list, ","), more)
}

func onCluster(path, cluster string) string {
	return fmt.Sprintf(`{"path":%q,"cluster":%q}`, path, cluster)
}

// A cluster that fails is not asked for a while, and no other one notices; nor does
// a change elsewhere, or of its destinations, forget that it fails.
func TestBreaker(t *testing.T) {
	f := start(t, "")
	bad, good := newFickle(t), newFickle(t)
	// Long enough for all that has to happen within it, on a busy host.
	booking := func(addresses ...string) string {
		return strings.Replace(guarded("", addresses...), "300ms", "3s", 1)
	}
	f.put("gateway/clusters/booking", booking(bad.url))
	f.put("gateway/clusters/billing", guarded("", good.url))
	f.put("gateway/routes/booking", onCluster("/booking", "booking"))
	f.put("gateway/routes/billing", onCluster("/billing", "billing"))
	f.put("gateway/routes/other", onCluster("/other", "booking"))
	bad.status.Store(503)
	for range 3 {
		if got := f.get("/booking"); got.StatusCode != 503 || got.body != "" {
			t.Fatalf("got %d %q; want the backend's own answer", got.StatusCode, got.body)
		}
	}
	refused := func(path string) {
		t.Helper()
		before := bad.calls.Load()
		got := f.get(path)
		got.problem(t, 503, "circuit_open")
		if after, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || after < 1 || after > 3 {
			t.Errorf("Retry-After is %q; want what is left of 3 s", got.Header.Get("Retry-After"))
		}
		if bad.calls.Load() != before {
			t.Error("the backend was asked")
		}
	}
	refused("/booking")
	refused("/other") // it is the cluster's breaker, not the route's
	f.put("gateway/routes/more", onCluster("/more", "booking"))
	f.put("gateway/clusters/booking", booking(bad.url, good.url))
	refused("/booking")
	if got := f.get("/billing"); got.StatusCode != 200 {
		t.Errorf("another cluster answers %d", got.StatusCode)
	}
	bad.status.Store(200)
	<-time.After(3050 * time.Millisecond)
	for range 2 {
		if got := f.get("/booking"); got.StatusCode != 200 {
			t.Errorf("after the break: %d", got.StatusCode)
		}
	}
	const rejected = "grapevine_breaker_rejected_total"
	want := `# HELP ` + rejected + ` Requests answered with 503 since the circuit breaker let none pass.
# TYPE ` + rejected + ` counter
` + rejected + `{cluster="booking"} 3
# HELP grapevine_breaker_transitions_total Changes of a cluster's circuit breaker, by the state that it came to.
# TYPE grapevine_breaker_transitions_total counter
grapevine_breaker_transitions_total{cluster="booking",to="closed"} 1
grapevine_breaker_transitions_total{cluster="booking",to="half-open"} 1
grapevine_breaker_transitions_total{cluster="booking",to="open"} 1
`
	if err := testutil.CollectAndCompare(f.gateway.Collector(), strings.NewReader(want), rejected, "grapevine_breaker_transitions_total"); err != nil {
		t.Error(err)
	}
	f.txn(kv.Delete("gateway/routes/booking"), kv.Delete("gateway/routes/other"), kv.Delete("gateway/routes/more"), kv.Delete("gateway/clusters/booking"))
	if n := testutil.CollectAndCount(f.gateway.Collector(), rejected, "grapevine_breaker_state", "grapevine_breaker_transitions_total"); n != 0 {
		t.Errorf("%d series are left of a cluster that is gone", n)
	}
}

// What opens a breaker, and what does not.
func TestBreakerCounts(t *testing.T) {
	f := start(t, "")
	release := make(chan struct{})
	hang := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	broken := func(bytes string) string {
		return tcp(t, func(conn net.Conn) {
			defer conn.Close()
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.WriteString(conn, bytes)
			}
		})
	}
	status := func(code int) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) })
	}
	for _, tt := range []struct {
		name, backend, more string
		opens               bool
	}{
		{"unreachable", unused(t), "", true},
		{"hanging", hang, "", true},
		{"garbage", broken("nonsense\r\n\r\n"), "", true},
		{"halfbody", broken("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), "", true},
		{"halfchunk", broken("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"), "", true},
		{"s502", status(502), "", true},
		{"s504", status(504), "", true},
		{"s500", status(500), "", false},
		{"s404", status(404), "", false},
		{"s429", status(429), "", false},
		{"own", status(500), `,"failureStatus":["500"]`, true},
		{"notown", status(503), `,"failureStatus":["500"]`, false},
	} {
		f.put("gateway/clusters/"+tt.name, strings.Replace(guarded(tt.more, tt.backend), `"resilience":{`, `"resilience":{"timeout":"30ms",`, 1))
		f.put("gateway/routes/"+tt.name, onCluster("/"+tt.name, tt.name))
		for range 6 {
			response, err := http.Get("http://" + f.address + "/" + tt.name)
			if err == nil {
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
		got := f.get("/" + tt.name)
		if opened := strings.Contains(got.body, "circuit_open"); opened != tt.opens {
			t.Errorf("%s: got %d %q; want it open: %v", tt.name, got.StatusCode, got.body, tt.opens)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// Clients that don't wait say nothing of the cluster, also when they are the
// probe.
func TestBreakerIgnoresClientsThatLeave(t *testing.T) {
	f := start(t, "")
	began, left := make(chan struct{}, 100), make(chan struct{}, 100)
	var slow atomic.Bool
	slow.Store(true)
	var status atomic.Int64
	status.Store(200)
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			began <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		}
		w.WriteHeader(int(status.Load()))
	})
	f.put("gateway/clusters/c", guarded("", backend))
	f.put("gateway/routes/c", onCluster("/c", "c"))
	leave := func() {
		t.Helper()
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "GET /c HTTP/1.1\r\nHost: x\r\n\r\n")
		<-began
		conn.Close()
		<-left
	}
	for range 10 {
		leave()
	}
	slow.Store(false)
	<-time.After(20 * time.Millisecond) // what the last one's leaving says is told behind it
	if got := f.get("/c"); got.StatusCode != 200 {
		t.Fatalf("got %d %q after clients left", got.StatusCode, got.body)
	}
	status.Store(503)
	for range 3 {
		f.get("/c")
	}
	f.get("/c").problem(t, 503, "circuit_open")
	<-time.After(350 * time.Millisecond)
	slow.Store(true)
	status.Store(200)
	leave() // it was the probe
	slow.Store(false)
	deadline := time.Now().Add(patience)
	for f.get("/c").StatusCode != 200 { // until its leaving is noticed there is no other probe
		if time.Now().After(deadline) {
			t.Fatal("a probe whose client left keeps the breaker half-open")
		}
	}
}

// A stream is under way for hours: it holds no probe, and that it is silent is no
// failure.
func TestStreamIsNoProbe(t *testing.T) {
	f := start(t, "")
	m := newFickle(t)
	m.status.Store(503)
	release := make(chan struct{})
	stream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if m.calls.Add(1) <= 3 {
			w.WriteHeader(503)
			return
		}
		w.(http.Flusher).Flush()
		<-release
	})
	defer close(release)
	f.put("gateway/clusters/c", guarded("", stream))
	f.put("gateway/routes/c", onCluster("/c", "c"))
	for range 3 {
		f.get("/c")
	}
	f.get("/c").problem(t, 503, "circuit_open")
	<-time.After(350 * time.Millisecond)
	var open []io.Closer
	for range 3 { // the probe, and two that pass since it went well
		response, err := http.Get("http://" + f.address + "/c")
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("got %v, %v", response, err)
		}
		open = append(open, response.Body)
	}
	for _, body := range open {
		body.Close()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A hundred at the moment it is half-open, and what they ask is slow: one passes,
// the others hear at once that there is nothing (O15).
func TestHalfOpenUnderLoad(t *testing.T) {
	f := start(t, "")
	var calls, now, most atomic.Int64
	release := make(chan struct{})
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) <= 3 {
			w.WriteHeader(503)
			return
		}
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-release
		now.Add(-1)
	})
	f.put("gateway/clusters/c", guarded("", backend))
	f.put("gateway/routes/c", onCluster("/c", "c"))
	for range 3 {
		f.get("/c")
	}
	<-time.After(350 * time.Millisecond)
	var refused, passed atomic.Int64
	var clients sync.WaitGroup
	for range 100 {
		clients.Go(func() {
			got := f.get("/c")
			if got.StatusCode == 200 {
				passed.Add(1)
				return
			}
			if after := got.Header.Get("Retry-After"); after != "1" { // the break is over: it is a matter of moments
				t.Errorf("Retry-After is %q", after)
			}
			if refused.Add(1) == 99 { // all others have their answer while the probe is under way
				close(release)
			}
		})
	}
	clients.Wait()
	if passed.Load() != 1 || most.Load() != 1 {
		t.Errorf("%d passed, %d at once; want one", passed.Load(), most.Load())
	}
	if got := f.get("/c"); got.StatusCode != 200 {
		t.Errorf("got %d after the probe went well", got.StatusCode)
	}
}

// Those whom it turns away come back when the break is over, and not before. A policy that is another one begins anew.
func TestBreakerOfAnotherPolicy(t *testing.T) {
	f := start(t, "")
	m := newFickle(t)
	m.status.Store(503)
	policy := func(duration string) string {
		return strings.Replace(guarded("", m.url), `"300ms"`, fmt.Sprintf("%q", duration), 1)
	}
	f.put("gateway/routes/c", onCluster("/c", "c"))
	for _, duration := range []time.Duration{time.Hour, 2 * time.Hour} {
		f.put("gateway/clusters/c", policy(duration.String()))
		began := time.Now()
		for range 3 {
			if got := f.get("/c"); got.body != "" {
				t.Fatalf("got %q; want the backend's own answer", got.body)
			}
		}
		got := f.get("/c")
		got.problem(t, 503, "circuit_open")
		after, err := strconv.Atoi(got.Header.Get("Retry-After"))
		if longest := int(duration / time.Second); err != nil || after > longest || after < int(math.Ceil((duration-time.Since(began)).Seconds())) {
			t.Errorf("Retry-After is %q of %d", got.Header.Get("Retry-After"), longest)
		}
	}
	if n := testutil.CollectAndCount(f.gateway.Collector(), "grapevine_breaker_state"); n != 1 {
		t.Errorf("it has %d states", n)
	}
}

// What says nothing of a cluster opens no breaker: that it has no destination, or that those have as many requests as they
// may; a stream that is silent; and one that breaks off when the window in which it began is long over.
func TestBreakerIsNotOpenedBy(t *testing.T) {
	f := start(t, "")
	release, begun := make(chan struct{}), make(chan struct{}, 10)
	defer close(release)
	stream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			w.Header().Set("Content-Length", "100")
		}
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		case <-time.After(map[bool]time.Duration{true: 200 * time.Millisecond, false: time.Hour}[r.URL.Path == "/late"]):
			panic(http.ErrAbortHandler)
		}
	})
	touchy := func(more, sampling string, destinations string) string {
		return fmt.Sprintf(`{"destinations":{%s}%s,"health":{"passive":{"enabled":false}},"resilience":{"circuitBreaker":`+
			`{"failureThreshold":1,"minimumThroughput":1,"breakDuration":"1h","sampling":%q}}}`, destinations, more, sampling)
	}
	isClosed := func(what string) {
		t.Helper()
		if n := testutil.CollectAndCount(f.gateway.Collector(), "grapevine_breaker_transitions_total"); n != 0 {
			t.Errorf("%s: a breaker has changed", what)
		}
	}
	at := fmt.Sprintf(`"a":%q`, stream)

	f.put("gateway/clusters/none", touchy("", "10s", ""))
	f.put("gateway/routes/none", onCluster("/none", "none"))
	for range 3 {
		f.get("/none").problem(t, 503, "no_destination")
	}
	isClosed("none")

	f.put("gateway/clusters/full", touchy(`,"maxConnections":1`, "10s", at))
	f.put("gateway/routes/full", onCluster("/full", "full"))
	full := f.open("/full")
	<-begun
	for range 3 {
		f.get("/full").problem(t, 503, "overloaded")
	}
	isClosed("full")
	full.Close()

	f.put("gateway/config/timeouts", `{"idleTimeout":"100ms"}`)
	f.put("gateway/clusters/silent", touchy("", "10s", at))
	f.put("gateway/routes/silent", onCluster("/silent", "silent"))
	f.readAll("/silent") // until the time without a byte is over
	<-begun
	isClosed("silent")

	f.put("gateway/config/timeouts", `{"idleTimeout":"10s"}`)
	f.put("gateway/clusters/late", touchy("", "20ms", at))
	f.put("gateway/routes/late", onCluster("/late", "late"))
	f.readAll("/late")
	<-begun
	isClosed("late")
	f.put("gateway/clusters/late", touchy("", "10s", at)) // within a longer window it is a failure
	f.readAll("/late")
	<-begun
	f.get("/late").problem(t, 503, "circuit_open")
}

// readAll reads an answer that may break off, until the connection ends.
func (f *fixture) readAll(path string) {
	f.t.Helper()
	conn := f.open(path)
	conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.Copy(io.Discard, conn)
}

// counts wants a series, such as name{label="value"}, to have a value.
func (f *fixture) counts(series string, want float64) {
	f.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.gateway.Collector())
	families, err := registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			if series != fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(labels, ",")) {
				continue
			}
			if got := metric.GetCounter().GetValue() + metric.GetGauge().GetValue(); got != want {
				f.t.Errorf("%s is %v; want %v", series, got, want)
			}
			return
		}
	}
	f.t.Errorf("there is no %s", series)
}

// open sends a request whose answer is not read.
func (f *fixture) open(path string) net.Conn {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	return conn
}

// What this node is short of, and what its clients do, is held against no destination.
func TestWhoseFailure(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tt := range []struct {
		phase exchange.Phase
		err   error
		its   bool
	}{
		{exchange.PhaseConnect, refused, true},
		{exchange.PhaseExchange, io.ErrUnexpectedEOF, true},
		{exchange.PhaseTimeout, exchange.ErrTimeout, true},
		{exchange.PhaseConnect, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, false},
		{exchange.PhaseConnect, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}, false},
		{exchange.PhaseExchange, syscall.EMFILE, true}, // its own, not ours
		{exchange.PhaseClientGone, context.Canceled, false},
		{exchange.PhaseRecalled, context.Canceled, false},
		{exchange.PhaseRequestBody, io.ErrUnexpectedEOF, false},
	} {
		if its := gateway.IsDestinations(&exchange.AttemptError{Phase: tt.phase, Err: tt.err}); its != tt.its {
			t.Errorf("%s, %v: %v", tt.phase, tt.err, its)
		}
	}
}

// A client that leaves in the middle of an answer says nothing of who gave it.
func TestClientLeavesAnAnswer(t *testing.T) {
	f := start(t, "")
	large := strings.Repeat("x", 8<<20)
	ended := make(chan struct{}, 10)
	f.put("gateway/clusters/c", strings.NewReplacer(`Threshold":3`, `Threshold":1`, `Throughput":3`, `Throughput":1`).Replace(
		guarded("", serve(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, large)
			ended <- struct{}{}
		}))))
	f.put("gateway/routes/c", onCluster("/c", "c"))
	for range 5 {
		conn := f.open("/c")
		if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
		<-ended
	}
	if got := f.get("/c"); got.StatusCode != 200 || len(got.body) != len(large) {
		t.Errorf("after clients left: %d, %d bytes", got.StatusCode, len(got.body))
	}
	if n := testutil.CollectAndCount(f.gateway.Collector(), "grapevine_breaker_transitions_total"); n != 0 {
		t.Error("the breaker has changed")
	}
}
