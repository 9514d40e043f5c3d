package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// recorder is a backend that keeps what it received.
type recorder struct {
	url    string
	answer func(n int, w http.ResponseWriter, r *http.Request)

	mu   sync.Mutex
	list []string
}

// newRecorder answers the n-th of its requests by answer, n from 1 on.
func newRecorder(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *recorder {
	rec := &recorder{answer: answer}
	rec.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rec.mu.Lock()
		rec.list = append(rec.list, fmt.Sprintf("%s %s %s", r.Method, body, r.Header.Get("X-Gateway-Attempt")))
		n := len(rec.list)
		rec.mu.Unlock()
		rec.answer(n, w, r)
	})
	return rec
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

func answering503(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }
func answering200(_ int, _ http.ResponseWriter, _ *http.Request) {}
func hangs(_ int, _ http.ResponseWriter, r *http.Request)        { <-r.Context().Done() }
func resets(_ int, w http.ResponseWriter, r *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

func retrying(retry string, backends ...string) string {
	list := `"` + strings.Join(backends, `","`) + `"`
	return fmt.Sprintf(`{"path":"/r","timeout":"2s","backends":[%s],"retry":%s}`, list, retry)
}

const everything = `{"attempts":1,"on":["connect","reset","timeout","503"],"perTryTimeout":"100ms"}`

// What a retry does for each way in which a first destination fails: a POST is
// executed once, whatever happens (O03); what is idempotent goes to the other one,
// with its body, if that was in memory.
func TestRetry(t *testing.T) {
	if overNetHTTP {
		t.Skip("net/http keeps no body in memory")
	}
	for name, fails := range map[string]func(int, http.ResponseWriter, *http.Request){
		"503": answering503, "hangs": hangs, "resets": resets,
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, "")
			bad, good := newRecorder(t, fails), newRecorder(t, answering200)
			status := map[string]int{"503": 503, "hangs": 504, "resets": 502}[name]
			for i, tt := range []struct {
				method, body, field string
				again               bool
			}{
				{"GET", "", "", true},
				{"DELETE", "", "", true},
				{"HEAD", "", "", true},
				{"PUT", "hello", "Content-Length: 5", true},
				{"PUT", "5\nhello\n0\n", "Transfer-Encoding: chunked", true},
				{"POST", "hello", "Content-Length: 5", false},
				{"POST", "hello", "Content-Length: 5\nIdempotency-Key: k", false},
				{"POST", "", "Content-Length: 0", false},
				{"PATCH", "", "", false},
				{"LOCK", "", "", false},
			} {
				path := fmt.Sprint("/r", i) // of a cluster that is new, so that the bad one is first
				f.put("gateway/routes"+path, strings.Replace(retrying(everything, bad.url, good.url), "/r", path, 1))
				ask := []string{"X-Gateway-Attempt: 7", "x_gateway_attempt: 7"}
				if tt.field != "" {
					ask = append(ask, tt.field)
				}
				if tt.body != "" {
					ask = append(ask, "", strings.TrimSuffix(tt.body, "\n"))
					if strings.Contains(tt.field, "chunked") {
						ask[len(ask)-1] += "\n"
					}
				}
				var got answer
				if tt.method == "HEAD" {
					response, err := http.Head("http://" + f.address + path)
					if err != nil {
						t.Fatal(err)
					}
					got = answer{Response: response}
				} else {
					got = f.ask(tt.method, path, ask...)
				}
				first, second := bad.take(), good.take()
				sent := ""
				if tt.body != "" {
					sent = "hello"
				}
				wantFirst, wantSecond, wantStatus := []string{fmt.Sprintf("%s %s ", tt.method, sent)}, []string(nil), status
				if tt.again {
					wantSecond, wantStatus = []string{fmt.Sprintf("%s %s 2", tt.method, sent)}, 200
				}
				if !slices.Equal(first, wantFirst) || !slices.Equal(second, wantSecond) || got.StatusCode != wantStatus {
					t.Errorf("%s %q: %d, first %q, second %q; want %d, %q, %q", tt.method, tt.field, got.StatusCode, first, second, wantStatus, wantFirst, wantSecond)
				}
			}
		})
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A body that is not in memory can't be sent a second time, and is not.
func TestRetryNeedsTheBody(t *testing.T) {
	f := start(t, "")
	bad, good := newRecorder(t, answering503), newRecorder(t, answering200)
	f.put("gateway/routes/r", retrying(everything, bad.url, good.url))
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "PUT /r HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nhel")
	<-time.After(50 * time.Millisecond)
	io.WriteString(conn, "lo!")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 503 {
		t.Fatalf("got %v, %v; want the first one's 503", response, err)
	}
	if first, second := bad.take(), good.take(); !slices.Equal(first, []string{"PUT hello! "}) || second != nil {
		t.Errorf("they had %q and %q", first, second)
	}
}

// Without a policy nothing is sent twice; without a destination that is left the
// same one is asked, after a pause.
func TestRetryWhere(t *testing.T) {
	f := start(t, "")
	only := newRecorder(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(503)
		}
	})
	f.put("gateway/routes/r", route("/r", only.url))
	if got := f.get("/r"); got.StatusCode != 503 || len(only.take()) != 1 {
		t.Errorf("without a policy: %d", got.StatusCode)
	}
	f.put("gateway/routes/r", retrying(`{"attempts":5,"on":["503"]}`, only.url))
	if got, had := f.get("/r"), only.take(); got.StatusCode != 200 || !slices.Equal(had, []string{"GET  ", "GET  2", "GET  3"}) {
		t.Errorf("got %d after %q", got.StatusCode, had)
	}
	dead := unused(t)
	f.put("gateway/routes/r", retrying(`{"attempts":2}`, dead))
	f.get("/r").problem(t, 502, "connect_failed")
	f.ask("POST", "/r", "Content-Length: 1", "", "x").problem(t, 502, "connect_failed") // which has reached nobody either
	want := `# HELP grapevine_upstream_retries_total Attempts that a route's retry policy asked for, by what ended the one before: connect, reset, timeout or status.
# TYPE grapevine_upstream_retries_total counter
grapevine_upstream_retries_total{cluster="r",reason="connect"} 4
grapevine_upstream_retries_total{cluster="r",reason="status"} 2
`
	if err := testutil.CollectAndCompare(f.gateway.Collector(), strings.NewReader(want), "grapevine_upstream_retries_total"); err != nil {
		t.Error(err)
	}
}

// All attempts together have the route's time, and no more.
func TestRetryWithinTheTime(t *testing.T) {
	f := start(t, "")
	slow := newRecorder(t, hangs)
	f.put("gateway/routes/r", fmt.Sprintf(
		`{"path":"/r","timeout":"300ms","backends":[%q],"retry":{"attempts":10,"on":["timeout"],"perTryTimeout":"80ms"}}`, slow.url))
	began := time.Now()
	f.get("/r").problem(t, 504, "timeout")
	if took, n := time.Since(began), len(slow.take()); took < 200*time.Millisecond || took > 2*time.Second || n < 2 || n > 4 {
		t.Errorf("%d attempts took %s", n, took)
	}
}

// The last attempt has what is left of the time, and when nothing is left there is none.
func TestRetryHasWhatIsLeft(t *testing.T) {
	f := start(t, "")
	var mu sync.Mutex
	var held []time.Duration
	var backends []string
	for range 6 {
		backends = append(backends, newRecorder(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			began := time.Now()
			<-r.Context().Done()
			mu.Lock()
			defer mu.Unlock()
			held = append(held, time.Since(began))
		}).url)
	}
	policy := `{"attempts":5,"on":["timeout"],"perTryTimeout":"400ms"}`
	f.put("gateway/routes/r", strings.Replace(retrying(policy, backends...), `"2s"`, `"500ms"`, 1))
	f.get("/r").problem(t, 504, "timeout")
	f.counts(`grapevine_upstream_attempts_total{cluster="r"}`, 2)
	for deadline := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		mu.Lock()
		n := len(held)
		mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d attempts have ended", n)
		}
	}
	if held[1] > 300*time.Millisecond {
		t.Errorf("the second one had %v of the 100 ms that were left", held[1])
	}
}

// When everything fails, retries are a small part of the load, not twice the load.
func TestRetryBudget(t *testing.T) {
	f := start(t, "")
	var calls, now, most atomic.Int64
	const clients = 50
	arrived := make(chan struct{})
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Gateway-Attempt") == "" {
			if calls.Add(1) == clients {
				close(arrived) // all are in flight: now all fail together
			}
			<-arrived
		} else {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-time.After(100 * time.Millisecond)
			now.Add(-1)
		}
		w.WriteHeader(503)
	})
	f.put("gateway/routes/r", retrying(`{"attempts":3,"on":["503"],"budgetPercent":10}`, backend))
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			if got := f.get("/r"); got.StatusCode != 503 {
				t.Errorf("got %d", got.StatusCode)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n == 0 || n > clients/10 {
		t.Errorf("%d retries at once among %d requests", n, clients)
	}
	if n := testutil.CollectAndCount(f.gateway.Collector(), "grapevine_upstream_retries_denied_total"); n != 1 {
		t.Error("none was denied")
	}
}

// A part of the budget is given back, and so is the place at a destination whose answer was not taken.
func TestRetryGivesBack(t *testing.T) {
	f := start(t, "")
	only := newRecorder(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%2 == 1 {
			w.WriteHeader(503)
		}
	})
	f.put("gateway/clusters/c", fmt.Sprintf(`{"destinations":{"a":%q},"maxConnections":1}`, only.url))
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c","retry":{"attempts":1,"on":["503"]}}`)
	for n := range 2 * 3 { // twice as many as the least budget
		deadline := time.Now().Add(patience)
		got := f.get("/r")
		for ; got.StatusCode == 503 && strings.Contains(got.body, "overloaded") && time.Now().Before(deadline); got = f.get("/r") {
			// the place of the request before is free when its client has the answer already
			if n == 0 {
				t.Fatal("the first finds no place")
			}
			<-time.After(5 * time.Millisecond)
		}
		if got.StatusCode != 200 {
			t.Fatalf("request %d: %d %s", n, got.StatusCode, got.body)
		}
	}
}

// Where each destination was tried, all come again in their order, after pauses that grow.
func TestRetryPauses(t *testing.T) {
	f := start(t, "")
	var mu sync.Mutex
	var came []string
	var at []time.Time
	failing := func(name string) string {
		return newRecorder(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			came, at = append(came, name), append(at, time.Now())
			w.WriteHeader(503)
		}).url
	}
	f.put("gateway/routes/r", retrying(`{"attempts":5,"on":["503"]}`, failing("a"), failing("b")))
	if got := f.get("/r"); got.StatusCode != 503 {
		t.Errorf("got %d", got.StatusCode)
	}
	mu.Lock()
	defer mu.Unlock()
	if order := strings.Join(came, ""); order != "ababab" {
		t.Fatalf("it came to %s", order)
	}
	// Half of 50 ms and half of 100 ms are the least that chance leaves.
	if first, second := at[2].Sub(at[1]), at[4].Sub(at[3]); first < 25*time.Millisecond || second < 50*time.Millisecond {
		t.Errorf("the pauses were %v and %v", first, second)
	}
}

// A cluster whose breaker has opened meanwhile is not asked again: every
// destination is the cluster's.
func TestRetryStopsAtTheBreaker(t *testing.T) {
	f := start(t, "")
	one, two := newRecorder(t, answering503), newRecorder(t, answering503)
	f.put("gateway/clusters/c", guarded("", one.url, two.url))
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c","retry":{"attempts":1,"on":["503"]}}`)
	for range 3 {
		if got := f.get("/r"); got.StatusCode != 503 || got.body != "" {
			t.Errorf("got %d %q", got.StatusCode, got.body)
		}
	}
	if n := len(one.take()) + len(two.take()); n != 6 {
		t.Errorf("%d attempts for three requests; want two each", n)
	}
	f.get("/r").problem(t, 503, "circuit_open")
	if n := len(one.take()) + len(two.take()); n != 0 {
		t.Errorf("%d attempts while it is open", n)
	}
}

// Nor is it while the request that would come again was under way as the breaker opened.
func TestRetrySeesTheBreakerOpen(t *testing.T) {
	f := start(t, "")
	began, release := make(chan struct{}), make(chan struct{})
	bad := newRecorder(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			close(began)
			<-release
		}
		w.WriteHeader(503)
	})
	f.put("gateway/clusters/c", strings.Replace(guarded("", bad.url), "300ms", "1h", 1))
	f.put("gateway/routes/r", `{"path":"/r","cluster":"c","retry":{"attempts":1,"on":["503"]}}`)
	f.put("gateway/routes/once", onCluster("/once", "c"))
	ended := make(chan int)
	go func() { ended <- f.get("/r").StatusCode }()
	<-began
	for range 3 {
		f.get("/once")
	}
	f.get("/once").problem(t, 503, "circuit_open")
	close(release)
	if status := <-ended; status != 503 {
		t.Errorf("got %d", status)
	}
	if n := len(bad.take()); n != 4 {
		t.Errorf("%d attempts of four requests that each should have one", n)
	}
}

// A request counts once for the breaker, by how it ended: a destination that is
// down and passed by opens nothing.
func TestBreakerCountsRequests(t *testing.T) {
	f := start(t, "")
	f.put("gateway/clusters/c", guarded("", unused(t), newFickle(t).url))
	f.put("gateway/routes/r", onCluster("/r", "c"))
	for range 12 {
		if got := f.get("/r"); got.StatusCode != 200 {
			t.Fatalf("got %d %q", got.StatusCode, got.body)
		}
	}
}
