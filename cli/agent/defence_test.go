package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// freedWithin is when the place of a client that has left is free again.
	freedWithin = 250 * time.Millisecond
	// leavings is how often a client leaves in each way.
	leavings = 3
	// gap between two looks is as much as a machine that is not busy makes.
	gap = 50 * time.Millisecond
)

// pausing is the attempt behind which the gateway pauses for 400 ms at least, when its policy asks for another one.
const pausing = "5"

// held is a backend that holds requests for /held until their client leaves, and answers others at once. Those for
// /pausing/held fail, until the gateway has to pause for longer than a place may be taken.
func held(t *testing.T) (url string, holds <-chan struct{}) {
	began := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch attempt := r.Header.Get("X-Gateway-Attempt"); {
		case strings.HasPrefix(r.URL.Path, "/pausing") && strings.HasSuffix(r.URL.Path, "/held"):
			if attempt == pausing {
				began <- struct{}{}
			}
			w.WriteHeader(503)
		case strings.HasSuffix(r.URL.Path, "/held"):
			began <- struct{}{}
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, began
}

// A client that leaves while it waits frees its place, whatever limit that is of and however it leaves.
func TestClientsThatLeaveFreeTheirPlaces(t *testing.T) {
	p := startAgent(t, t.TempDir())
	for limit, values := range map[string][2]string{
		"route":       {`,"limits":{"maxConcurrent":1}`, ""},
		"cluster":     {"", `,"maxConcurrent":1`},
		"destination": {"", `,"maxConnections":1`},
		"pausing":     {`,"limits":{"maxConcurrent":1},"retry":{"attempts":10,"on":["503"]}`, ""},
	} {
		for way, leave := range map[string]func(*net.TCPConn){
			"closes":      func(c *net.TCPConn) { c.Close() },
			"resets":      func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
			"half-closes": func(c *net.TCPConn) { c.CloseWrite() },
		} {
			id := limit + "-" + way
			url, holds := held(t)
			p.put("clusters/"+id, fmt.Sprintf(`{"destinations":{"a":%q}%s}`, url, values[1]))
			p.put("routes/"+id, fmt.Sprintf(`{"path":"/%s/{**rest}","cluster":%q%s}`, id, id, values[0]))
			t.Run(id, func(t *testing.T) {
				t.Parallel() // it waits
				for seen, deadline := 0, time.Now().Add(2*patience); seen < leavings && time.Now().Before(deadline); {
					took, busy := p.leaves(t, "/"+id, holds, leave)
					if busy { // it says nothing of the agent
						continue
					}
					seen++
					if t.Log(took); took > freedWithin {
						t.Errorf("the place is free after %v; want %v at most", took, freedWithin)
					}
				}
			})
		}
	}
}

// leaves takes the only place below a path, gives it up, and tells how long it was not free, and whether the machine was
// too busy to know.
func (p *process) leaves(t *testing.T, path string, holds <-chan struct{}, leave func(*net.TCPConn)) (took time.Duration, busy bool) {
	t.Helper()
	conn := p.hold(t, path, holds)
	defer conn.Close()
	if got := p.ask(t.Context(), "GET", path+"/quick", ""); got.status != 503 || got.code() != "overloaded" || got.header.Get("Retry-After") == "" {
		t.Fatalf("beside one that is held: %d %s %v", got.status, got.body, got.err)
	}
	leave(conn)
	left := time.Now()
	for last := left; ; {
		asked := time.Since(left)
		busy = busy || time.Since(last) > gap
		last = time.Now()
		switch got := p.ask(t.Context(), "GET", path+"/quick", ""); {
		case got.status == 200:
			return asked, busy
		case asked > patience:
			t.Fatalf("the place of a client that left is not free: %d %s", got.status, got.body)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// hold takes the only place below a path. That of a request before may be free only when its client has the answer already.
func (p *process) hold(t *testing.T, path string, holds <-chan struct{}) *net.TCPConn {
	t.Helper()
	for deadline := time.After(patience); ; {
		conn, err := net.Dial("tcp", p.proxy)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s/held HTTP/1.1\r\nHost: x\r\n\r\n", path)
		answered := make(chan struct{})
		go func() {
			_, _ = conn.Read(make([]byte, 1)) // until it is closed, at last
			close(answered)
		}()
		select {
		case <-holds:
			return conn.(*net.TCPConn)
		case <-answered:
			conn.Close()
		case <-deadline:
			t.Fatal("the request does not reach its backend")
		}
	}
}

// failing is a backend that answers 503 to all, after a moment, and counts.
type failing struct {
	calls, repeats atomic.Int64
	now, most      atomic.Int64 // repeats at the same time
}

func (f *failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.calls.Add(1)
	if r.Header.Get("X-Gateway-Attempt") != "" {
		f.repeats.Add(1)
		n := f.now.Add(1)
		defer f.now.Add(-1)
		for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); most = f.most.Load() {
		}
	}
	<-time.After(20 * time.Millisecond)
	w.WriteHeader(503)
}

// When all of a cluster fails, and each request may be tried three times more, the cluster gets a part more than it is
// asked, and not four times as much.
func TestRetriesHaveABudget(t *testing.T) {
	p := startAgent(t, t.TempDir())
	bad := &failing{}
	one, other := httptest.NewServer(bad), httptest.NewServer(bad)
	defer one.Close()
	defer other.Close()
	p.put("clusters/bad", fmt.Sprintf(`{"destinations":{"a":%q,"b":%q},"health":{"passive":{"enabled":false}}}`, one.URL, other.URL))
	p.put("routes/bad", `{"path":"/bad","cluster":"bad","retry":{"attempts":3,"on":["503"]}}`)

	const clients, each, percent = 40, 20, 20
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: patience}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				response, err := client.Get("http://" + p.proxy + "/bad")
				if err != nil {
					t.Error(err)
					return
				}
				if response.Body.Close(); response.StatusCode != 503 {
					t.Errorf("got %d", response.StatusCode)
				}
			}
		})
	}
	all.Wait()
	requests, calls, repeats := int64(clients*each), bad.calls.Load(), bad.repeats.Load()
	t.Logf("%d requests, %d attempts, %d of them again, at most %d of these at once", requests, calls, repeats, bad.most.Load())
	if calls != requests+repeats {
		t.Errorf("%d requests and %d repeats are not %d attempts", requests, repeats, calls)
	}
	if most := bad.most.Load(); most < 1 || most > clients*percent/100 {
		t.Errorf("%d repeats at once of %d requests in flight; want %d %% at most", most, clients, percent)
	}
	// On a busy machine fewer are in flight, of which three may be repeats still.
	if repeats*10 > requests*4 {
		t.Errorf("%d repeats of %d requests", repeats, requests)
	}
	if !strings.Contains(p.must("GET", "/metrics", ""), "\ngrapevine_upstream_retries_denied_total{cluster=\"bad\"} ") {
		t.Error("no retry was denied")
	}
}

// breaking is a backend that breaks off requests at a point that it draws, and counts by their path how often it was
// asked to do something.
type breaking struct {
	mu     sync.Mutex
	chance *rand.Rand     // guarded by mu
	times  map[string]int // guarded by mu
	ways   map[string]int // guarded by mu
}

var breakings = []string{"answers", "before the body", "in the body", "before the head", "in the head", "in the answer", "behind the answer", "hangs", "503"}

func (b *breaking) begin(path string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	way := breakings[b.chance.IntN(len(breakings))]
	b.times[path]++
	b.ways[way]++
	return way
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	way := b.begin(r.Method + " " + r.URL.Path)
	switch way {
	case "before the body":
		reset(w, "")
		return
	case "in the body":
		io.CopyN(io.Discard, r.Body, 1000)
		reset(w, "")
		return
	}
	io.Copy(io.Discard, r.Body)
	switch way {
	case "before the head":
		reset(w, "")
	case "in the head":
		reset(w, "HTTP/1.1 200 OK\r\nContent-Le")
	case "in the answer":
		reset(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
	case "behind the answer": // the connection is kept, as far as the gateway knows
		reset(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	case "hangs":
		<-r.Context().Done()
	case "503":
		w.WriteHeader(503)
	}
}

// reset ends a connection with a reset, after some last bytes.
func reset(w http.ResponseWriter, last string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if last != "" {
		io.WriteString(conn, last)
		<-time.After(time.Millisecond) // a reset may overtake what was written before it
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// However backends break off, and whatever a route's policy asks for: no POST reaches a second one.
func TestNoPostIsSentTwice(t *testing.T) {
	p := startAgent(t, t.TempDir())
	seed := uint64(time.Now().UnixNano())
	b := &breaking{chance: rand.New(rand.NewPCG(seed, 0)), times: map[string]int{}, ways: map[string]int{}}
	one, other := httptest.NewServer(b), httptest.NewServer(b)
	defer one.Close()
	defer other.Close()
	p.put("clusters/orders", fmt.Sprintf(`{"destinations":{"a":%q,"b":%q,"dead":%q},"health":{"passive":{"enabled":false}}}`, one.URL, other.URL, dead(t)))
	p.put("routes/orders", `{"path":"/orders/{**rest}","cluster":"orders","timeout":"2s","retry":
		{"attempts":3,"on":["connect","reset","timeout","502","503","504"],"perTryTimeout":"50ms","budgetPercent":100}}`)

	const clients = 8
	each := 40
	if long {
		each = 1000
	}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for n := range each {
				method, body := "POST", strings.Repeat("x", []int{0, 100, 100_000}[n%3])
				if n%4 == 3 {
					method, body = "PUT", "small"
				}
				send(t, transport, p, method, fmt.Sprintf("/orders/%d-%d", c, n), body)
			}
		})
	}
	all.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	posts, repeats := 0, 0
	for request, times := range b.times {
		switch post := strings.HasPrefix(request, "POST "); {
		case post && times > 1:
			t.Errorf("seed %d: %s reached backends %d times", seed, request, times)
		case post:
			posts++
		case times > 1:
			repeats++
		}
	}
	t.Logf("seed %d: %d POSTs once each, %d PUTs more than once; %v", seed, posts, repeats, b.ways)
	// Some meet a connection that is closed already, and reach nobody.
	if posts < clients*each/2 || repeats == 0 {
		t.Errorf("%d POSTs and %d repeats show nothing", posts, repeats)
	}
}

// send sends a request once and reads what comes. A client of Go sends no POST twice by itself, but a PUT without a body.
func send(t *testing.T, transport *http.Transport, p *process, method, path, body string) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.proxy+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Errorf("%s %s: %v; want an answer, of the gateway at least", method, path, err)
		return
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // it may break off
}
