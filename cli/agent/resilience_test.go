package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// behaving is a backend that behaves as it is told, and counts requests by method.
type behaving struct {
	url     string
	mode    atomic.Value // string: well, 503, hang or slow
	gets    atomic.Int64
	posts   atomic.Int64
	now     atomic.Int64
	most    atomic.Int64
	release chan struct{}
	asked   atomic.Int64
}

func newBehaving(t *testing.T) *behaving {
	b := &behaving{release: make(chan struct{})}
	b.mode.Store("well")
	server := httptest.NewServer(b)
	b.url = server.URL
	t.Cleanup(func() { close(b.release); server.CloseClientConnections(); server.Close() })
	return b
}

func (b *behaving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode := b.mode.Load().(string)
	if r.URL.Path == "/alive" {
		b.asked.Add(1)
		if mode != "well" {
			w.WriteHeader(503)
		}
		return
	}
	if r.Method == "POST" {
		io.Copy(io.Discard, r.Body)
		b.posts.Add(1)
	} else {
		b.gets.Add(1)
	}
	n := b.now.Add(1)
	defer b.now.Add(-1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	switch mode {
	case "503":
		w.WriteHeader(503)
	case "hang":
		select {
		case <-r.Context().Done():
		case <-b.release:
		}
	case "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// dead is an address where nobody listens.
func dead(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// raw is a backend that reads a request's head and does with the connection what it is told.
func raw(t *testing.T, do func(net.Conn, *http.Request)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					do(conn, r)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// gotten is an answer as a client sees it.
type gotten struct {
	status int
	header http.Header
	body   string
	err    error // of the body, or of all
	took   time.Duration
}

func (g gotten) code() string {
	var p struct{ Title string }
	_ = json.Unmarshal([]byte(g.body), &p)
	return p.Title
}

func (p *process) ask(ctx context.Context, method, path, body string) gotten {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.proxy+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	begun := time.Now()
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return gotten{err: err, took: time.Since(begun)}
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return gotten{response.StatusCode, response.Header, string(answer), err, time.Since(begun)}
}

func (p *process) put(key, value string) {
	p.t.Helper()
	p.must("PUT", "/v1/kv/gateway/"+key+"?wait=local", value)
}

// metric waits until the agent's metrics have a line.
func (p *process) metric(line string) {
	p.t.Helper()
	for deadline := time.After(patience); ; {
		_, text, _ := p.api("GET", "/metrics", "")
		if strings.Contains(text, "\n"+line+"\n") {
			return
		}
		select {
		case <-deadline:
			name, _, _ := strings.Cut(line, "{")
			var near []string
			for _, l := range strings.Split(text, "\n") {
				if strings.HasPrefix(l, name) {
					near = append(near, l)
				}
			}
			p.t.Errorf("no %q in the metrics, only:\n%s", line, strings.Join(near, "\n"))
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// What clients get when backends fail, row by row. No row touches another's cluster, and a
// cluster that is well answers beside all of them.
func TestFaultsOfBackends(t *testing.T) {
	t.Parallel() // it waits for times that are over
	p := startAgent(t, t.TempDir())
	well := newBehaving(t)
	p.put("routes/well", fmt.Sprintf(`{"path":"/well","backends":[%q]}`, well.url))
	t.Cleanup(func() {
		if got := p.ask(context.Background(), "GET", "/well", ""); got.status != 200 {
			t.Errorf("the cluster that is well answers %d %v", got.status, got.err)
		}
	})

	t.Run("dies in mid-response", func(t *testing.T) {
		for name, answer := range map[string]string{
			"length":  "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf",
			"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		} {
			url := raw(t, func(conn net.Conn, _ *http.Request) { io.WriteString(conn, answer) })
			p.put("routes/half-"+name, fmt.Sprintf(`{"path":"/half/%s","backends":[%q]}`, name, url))
			if got := p.ask(t.Context(), "GET", "/half/"+name, ""); got.status != 200 || got.body != "half" || got.err == nil {
				t.Errorf("%s: %d %q %v; want a body that breaks off, and nothing after it", name, got.status, got.body, got.err)
			}
		}
	})

	t.Run("hangs", func(t *testing.T) {
		b := newBehaving(t)
		b.mode.Store("hang")
		p.put("routes/hang", fmt.Sprintf(`{"path":"/hang","backends":[%q],"timeout":"300ms"}`, b.url))
		if got := p.ask(t.Context(), "GET", "/hang", ""); got.status != 504 || got.code() != "timeout" || got.took < 300*time.Millisecond {
			t.Errorf("%d %s after %v", got.status, got.body, got.took)
		}
		// A client that leaves frees its place.
		p.put("routes/hang", fmt.Sprintf(`{"path":"/hang","backends":[%q],"timeout":"60s","limits":{"maxConcurrent":1}}`, b.url))
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		before := b.gets.Load()
		left.Go(func() { p.ask(ctx, "GET", "/hang", "") })
		for b.gets.Load() == before {
			<-time.After(5 * time.Millisecond)
		}
		if got := p.ask(t.Context(), "GET", "/hang", ""); got.status != 503 || got.code() != "overloaded" || got.header.Get("Retry-After") == "" {
			t.Errorf("beside one that hangs: %d %s", got.status, got.body)
		}
		leave()
		left.Wait()
		b.mode.Store("well")
		for deadline := time.Now().Add(patience); p.ask(t.Context(), "GET", "/hang", "").status != 200; {
			if time.Now().After(deadline) {
				t.Fatal("the place of a client that left is not free")
			}
		}
		p.metric(`grapevine_upstream_failures_total{cluster="hang",phase="client_gone"} 1`)
	})

	t.Run("refuses", func(t *testing.T) {
		b := newBehaving(t)
		p.put("clusters/refuses", fmt.Sprintf(`{"destinations":{"dead":%q,"b":%q},"health":{"passive":{"enabled":false}}}`, dead(t), b.url))
		p.put("routes/refuses", `{"path":"/refuses","cluster":"refuses"}`)
		for range 10 {
			if got := p.ask(t.Context(), "POST", "/refuses", "order"); got.status != 200 {
				t.Errorf("%d %s", got.status, got.body)
			}
		}
		if n := b.posts.Load(); n != 10 {
			t.Errorf("10 requests were executed %d times", n)
		}
	})

	// O03: what was executed, or may have been, is not executed again.
	t.Run("stalls on a POST", func(t *testing.T) {
		one, other := newBehaving(t), newBehaving(t)
		one.mode.Store("hang")
		other.mode.Store("hang")
		p.put("clusters/stalls", fmt.Sprintf(`{"destinations":{"a":%q,"b":%q}}`, one.url, other.url))
		p.put("routes/stalls", `{"path":"/stalls","cluster":"stalls","timeout":"800ms","retry":{"attempts":1,"on":["timeout","reset"],"perTryTimeout":"300ms"}}`)
		if got := p.ask(t.Context(), "POST", "/stalls", "order"); got.status != 504 || one.posts.Load()+other.posts.Load() != 1 {
			t.Errorf("POST: %d, executed %d times", got.status, one.posts.Load()+other.posts.Load())
		}
		if got := p.ask(t.Context(), "GET", "/stalls", ""); got.status != 504 || one.gets.Load() != 1 || other.gets.Load() != 1 {
			t.Errorf("GET: %d, executed %d and %d times; want once each", got.status, one.gets.Load(), other.gets.Load())
		}
		p.metric(`grapevine_upstream_retries_total{cluster="stalls",reason="timeout"} 1`)
	})

	// O07: an early answer reaches the client, whatever of its body is still to come.
	t.Run("answers early", func(t *testing.T) {
		url := raw(t, func(conn net.Conn, r *http.Request) {
			io.CopyN(io.Discard, r.Body, 1024)
			io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbig!")
			conn.(*net.TCPConn).CloseWrite()
			conn.SetReadDeadline(time.Now().Add(time.Second))
			io.Copy(io.Discard, conn)
		})
		p.put("routes/early", fmt.Sprintf(`{"path":"/early","backends":[%q]}`, url))
		body, good := strings.Repeat("x", 5<<20), 0
		for range 20 {
			if got := p.ask(t.Context(), "POST", "/early", body); got.status == 413 && got.body == "big!" {
				good++
			}
		}
		if good < 20 {
			t.Errorf("%d of 20 got the answer", good)
		}
	})

	t.Run("all are bad", func(t *testing.T) {
		b := newBehaving(t)
		b.mode.Store("503")
		p.put("clusters/allbad", fmt.Sprintf(`{"destinations":{"a":%q,"b":%q},"health":{"active":{"path":"/alive","interval":"100ms","unhealthyAfter":1}}}`, b.url, dead(t)))
		p.put("routes/allbad", `{"path":"/allbad","cluster":"allbad"}`)
		p.metric(`grapevine_cluster_panic{cluster="allbad"} 1`)
		if got := p.ask(t.Context(), "GET", "/allbad", ""); got.status != 503 || got.body != "" || b.gets.Load() == 0 {
			t.Errorf("%d %q; want the backend's own answer", got.status, got.body)
		}
		b.mode.Store("well")
		p.metric(`grapevine_destination_healthy{cluster="allbad",destination="` + b.url + `"} 1`)
		if got := p.ask(t.Context(), "GET", "/allbad", ""); got.status != 200 {
			t.Errorf("once one is well: %d", got.status)
		}
	})

	// O15: the breaker opens, lets its probes pass and no others, and closes.
	t.Run("breaker", func(t *testing.T) {
		b := newBehaving(t)
		b.mode.Store("503")
		p.put("clusters/broken", fmt.Sprintf(`{"destinations":{"a":%q},"resilience":{"circuitBreaker":{"failureThreshold":5,"minimumThroughput":5,"breakDuration":"2s","halfOpenRequests":2}}}`, b.url))
		p.put("routes/broken", `{"path":"/broken","cluster":"broken"}`)
		for range 5 {
			p.ask(t.Context(), "GET", "/broken", "")
		}
		calls := b.gets.Load()
		got := p.ask(t.Context(), "GET", "/broken", "")
		if got.status != 503 || got.code() != "circuit_open" || got.header.Get("Retry-After") == "" || b.gets.Load() != calls {
			t.Fatalf("after five failures: %d %s, %d calls", got.status, got.body, b.gets.Load()-calls)
		}
		if code, stdout, _ := p.cli("clusters", "list"); code != 0 || !strings.Contains(stdout, "open for") {
			t.Errorf("agent clusters list:\n%s", stdout)
		}
		p.metric(`grapevine_breaker_state{cluster="broken"} 2`)
		b.mode.Store("slow")
		<-time.After(2100 * time.Millisecond)
		b.most.Store(0)
		var all sync.WaitGroup
		var passed atomic.Int64
		for range 50 {
			all.Go(func() {
				if p.ask(t.Context(), "GET", "/broken", "").status == 200 {
					passed.Add(1)
				}
			})
		}
		all.Wait()
		if n := b.most.Load(); n < 1 || n > 2 || passed.Load() < 2 {
			t.Errorf("half-open: %d at a time, %d passed; want at most its two probes", n, passed.Load())
		}
		b.mode.Store("well")
		if got := p.ask(t.Context(), "GET", "/broken", ""); got.status != 200 {
			t.Errorf("after its probes: %d %s", got.status, got.body)
		}
		b.mode.Store("503")
		for range 5 {
			p.ask(t.Context(), "GET", "/broken", "")
		}
		b.mode.Store("well")
		if code, stdout, stderr := p.cli("clusters", "reset-breaker", "broken"); code != 0 || !strings.Contains(stdout, "closed") {
			t.Errorf("agent clusters reset-breaker: %d %s%s", code, stdout, stderr)
		}
		if got := p.ask(t.Context(), "GET", "/broken", ""); got.status != 200 {
			t.Errorf("after the reset: %d", got.status)
		}
	})

	// O26: the only destination goes and comes back.
	t.Run("comes back", func(t *testing.T) {
		b := newBehaving(t)
		p.put("clusters/back", `{"destinations":{}}`)
		p.put("routes/back", `{"path":"/back","cluster":"back"}`)
		if got := p.ask(t.Context(), "GET", "/back", ""); got.status != 503 {
			t.Errorf("without a destination: %d", got.status)
		}
		p.put("clusters/back", fmt.Sprintf(`{"destinations":{"a":%q}}`, b.url))
		if got := p.ask(t.Context(), "GET", "/back", ""); got.status != 200 {
			t.Errorf("with one: %d", got.status)
		}
	})

	t.Run("readiness", func(t *testing.T) {
		b := newBehaving(t)
		p.put("clusters/needed", fmt.Sprintf(`{"destinations":{"a":%q},"panicPercent":0,"health":{"active":{"path":"/alive","interval":"100ms","unhealthyAfter":1,"healthyAfter":1}}}`, b.url))
		p.put("config/ready", `{"require":["needed"]}`)
		awaitReady := func(want int) {
			t.Helper()
			for deadline := time.Now().Add(patience); ; {
				got := p.ask(t.Context(), "GET", "/ready", "")
				if got.status == want {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("/ready is %d %s; want %d", got.status, got.body, want)
				}
				<-time.After(10 * time.Millisecond)
			}
		}
		awaitReady(200)
		b.mode.Store("503")
		awaitReady(503)
		if got := p.ask(t.Context(), "GET", "/alive", ""); got.status != 200 {
			t.Errorf("liveness is %d", got.status)
		}
		b.mode.Store("well")
		awaitReady(200)
		p.must("DELETE", "/v1/kv/gateway/config/ready?wait=local", "")
	})
}

// In a cluster of three one node asks, and all know. When that is killed another one asks, and
// nobody takes the destination for bad; when the destination is, all see it.
func TestOneNodeAsksForAll(t *testing.T) {
	t.Parallel() // it waits for what is not to come
	b := newBehaving(t)
	nodes := startCluster(t, 3)
	nodes[0].must("PUT", "/v1/kv/gateway/clusters/shared?wait=all",
		fmt.Sprintf(`{"destinations":{"a":%q},"panicPercent":0,"health":{"active":{"path":"/alive","interval":"500ms","probers":1}}}`, b.url))
	nodes[0].must("PUT", "/v1/kv/gateway/routes/shared?wait=all", `{"path":"/shared","cluster":"shared"}`)
	living := nodes
	health := func(want string, others int) {
		t.Helper()
		for deadline := time.Now().Add(clusterPatience); ; <-time.After(50 * time.Millisecond) {
			states, by := 0, 0
			for _, n := range living {
				_, body, _ := n.api("GET", "/v1/clusters/shared", "")
				var c struct {
					Destinations []struct {
						Health   string
						ByOthers bool
					}
				}
				if json.Unmarshal([]byte(body), &c) == nil && len(c.Destinations) == 1 && c.Destinations[0].Health == want {
					states++
					if c.Destinations[0].ByOthers {
						by++
					}
				}
			}
			if states == len(living) && (others < 0 || by == others) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d nodes say %s, %d of them by others; want all, and %d", states, len(living), want, by, others)
			}
		}
	}
	health("healthy", 2)
	before := b.asked.Load()
	<-time.After(4 * time.Second)
	if n := b.asked.Load() - before; n < 5 || n > 11 {
		t.Errorf("asked %d times in 4 s; want 8, by one node", n)
	}
	code, stdout, stderr := nodes[0].cli("clusters", "show", "shared", "--all")
	if code != 0 || strings.Count(stdout, "healthy by others") != 2 || strings.Count(stdout, "node-") != 3 {
		t.Errorf("agent clusters show --all: %d\n%s%s", code, stdout, stderr)
	}

	keepsItsPlace(t, nodes)

	// The one that asks is killed; the others never take the destination out.
	asks := 0
	for i, n := range nodes {
		if body := n.must("GET", "/v1/clusters/shared", ""); !strings.Contains(body, "byOthers") {
			asks = i
		}
	}
	nodes[asks].kill()
	living = without(nodes, nodes[asks])
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		for _, n := range living {
			if got := statusOf(n, "/shared"); got != 200 {
				t.Fatalf("%s answers %d after the one that asked was killed", n.name, got)
			}
		}
	}
	before = b.asked.Load()
	health("healthy", -1)
	b.mode.Store("503")
	health("unhealthy", 0)
	b.mode.Store("well")
	health("healthy", -1)
	if b.asked.Load() == before {
		t.Error("nobody asks since")
	}
}

// keepsItsPlace wants every node to understand the cookie that one of them has set, with nothing to configure.
func keepsItsPlace(t *testing.T, nodes []*clusterNode) {
	t.Helper()
	backends := []*behaving{newBehaving(t), newBehaving(t), newBehaving(t)}
	nodes[0].must("PUT", "/v1/kv/gateway/clusters/sticky?wait=all", fmt.Sprintf(`{"destinations":{"a":%q,"b":%q,"c":%q},"affinity":{"cookie":"place"}}`,
		backends[0].url, backends[1].url, backends[2].url))
	nodes[0].must("PUT", "/v1/kv/gateway/routes/sticky?wait=all", `{"path":"/sticky","cluster":"sticky"}`)
	cookie, _, _ := strings.Cut(nodes[1].ask(t.Context(), "GET", "/sticky", "").header.Get("Set-Cookie"), ";")
	for _, n := range nodes {
		for range 3 {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+n.proxy+"/sticky", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Cookie", cookie)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if response.Body.Close(); response.StatusCode != 200 || response.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s: %q is answered %d %v", n.name, cookie, response.StatusCode, response.Header)
			}
		}
	}
	var came []int64
	for _, b := range backends {
		came = append(came, b.gets.Load())
	}
	if slices.Max(came) != int64(1+3*len(nodes)) {
		t.Errorf("with %q they came to %v; want all at one", cookie, came)
	}
}

// A maintenance with an end needs nobody to end it: not a leader, and not the others.
func TestMaintenanceEndsWithoutALeader(t *testing.T) {
	t.Parallel() // it waits for the end
	b := newBehaving(t)
	nodes := startCluster(t, 3)
	nodes[0].must("PUT", "/v1/kv/gateway/routes/shop?wait=all", fmt.Sprintf(`{"path":"/shop","backends":[%q]}`, b.url))
	until := time.Now().Add(7 * time.Second)
	nodes[0].must("PUT", "/v1/kv/gateway/maintenance/shop?wait=all", fmt.Sprintf(`{"enabled":true,"until":%q}`, until.UTC().Format(time.RFC3339Nano)))
	for _, n := range nodes {
		if got := statusOf(n, "/shop"); got != 503 {
			t.Errorf("%s: %d while it lasts", n.name, got)
		}
	}
	last := nodes[2]
	nodes[0].kill()
	nodes[1].kill()
	last.await("no leader", func(s clusterStatus) bool { return s.Leader == "" || s.Alive < 3 })
	if time.Now().Before(until.Add(-time.Second)) {
		if got := statusOf(last, "/shop"); got != 503 {
			t.Errorf("%d before its end, without a leader", got)
		}
	}
	<-time.After(time.Until(until.Add(50 * time.Millisecond)))
	if got := statusOf(last, "/shop"); got != 200 {
		t.Errorf("%d after its end", got)
	}
	if code, stdout, _ := last.cli("maintenance", "status"); code != 0 || !strings.Contains(stdout, "ended") {
		t.Errorf("agent maintenance status: %d\n%s", code, stdout)
	}
	if code, _, stderr := last.cli("maintenance", "on", "shop"); code != 6 {
		t.Errorf("a write without a quorum: %d %s", code, stderr)
	}
}
