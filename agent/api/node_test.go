package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"grapevine/agent/api"
	"grapevine/gateway"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

func TestValidateTellsAllFaults(t *testing.T) {
	n := startNode(t)
	v := want[api.Verdict](t, n.tcp.do("POST", "/v1/validate", `{"values": {
		"gateway/routes/good": `+booking+`,
		"gateway/routes/short": "path=/short,backends=http://127.0.0.1:5010",
		"gateway/routes/bad": {"path": "x"},
		"gateway/routes/lost": {"path": "/lost", "cluster": "nowhere"},
		"gateway/route/x": {},
		"a//b": 1
	}}`), 200)
	keys := map[string]bool{}
	for _, fault := range v.Faults {
		keys[fault.Key] = true
	}
	for _, key := range []string{"gateway/routes/bad", "gateway/routes/lost", "gateway/route/x", "a//b"} {
		if !keys[key] {
			t.Errorf("no fault names %s: %+v", key, v.Faults)
		}
	}
	if len(keys) != 4 {
		t.Errorf("faults %+v", v.Faults)
	}
	v = want[api.Verdict](t, n.tcp.do("POST", "/v1/validate", `{"values": {"gateway/routes/good": `+booking+`}}`), 200)
	if v.Faults == nil || len(v.Faults) != 0 || n.store.View().Len() != 0 {
		t.Errorf("verdict %+v", v)
	}
}

func TestStatusAndRoutes(t *testing.T) {
	n := startNode(t)
	n.tcp.do("PUT", "/v1/kv/gateway/routes/booking", booking)
	s := want[api.Status](t, n.tcp.do("GET", "/v1/status", ""), 200)
	if s.Rev != "1.1" || s.Keys != 1 || !s.Ready || s.Table.Rev != "1.1" || s.Table.Hash == "" || s.Table.Routes != 1 || s.Name != "test" {
		t.Errorf("status %+v", s)
	}
	r := want[api.RouteList](t, n.tcp.do("GET", "/v1/routes", ""), 200)
	if r.Rev != "1.1" || len(r.Routes) != 1 || r.Routes[0].ID != "booking" || r.Routes[0].State != "live" {
		t.Errorf("routes %+v", r)
	}
}

func TestExplain(t *testing.T) {
	n := startNode(t)
	n.tcp.do("PUT", "/v1/kv/gateway/routes/booking", booking)
	query := url.Values{
		"method": {"POST"}, "url": {"http://api.test/booking/42?x=1"}, "header": {"X-Beta: 1", "X-Empty:"}, "client": {"::ffff:10.0.0.7"},
	}
	e := want[gateway.Explanation](t, n.tcp.do("GET", "/v1/routes/explain?"+query.Encode(), ""), 200)
	if e.Rev != "1.1" || e.Method != "POST" || e.Host != "api.test" || e.Path != "/booking/42" || e.Client != "10.0.0.7" || e.Route != "booking" {
		t.Errorf("explanation %+v", e)
	}
	if len(e.Candidates) != 1 || e.Candidates[0].ID != "booking" || e.Candidates[0].State != "taken" {
		t.Errorf("candidates %+v", e.Candidates)
	}
	f := e.Forward
	if f == nil || f.Target != "/booking/42?x=1" || f.Cluster != "booking" || len(f.Destinations) != 1 || f.Destinations[0].Weight != 1 ||
		!slices.Contains(f.Fields, "X-Beta: 1") {
		t.Errorf("forward %+v", f)
	}

	e = want[gateway.Explanation](t, n.tcp.do("GET", "/v1/routes/explain?url=/nothing", ""), 200)
	if e.Method != "GET" || e.Route != "" || e.Status != 404 || e.Code != "no_route" || e.Forward != nil {
		t.Errorf("explanation %+v", e)
	}
}

// Each parameter that can't be meant is named, with its value.
func TestExplainRefusesWhatIsNoRequest(t *testing.T) {
	n := startNode(t)
	for _, c := range []struct{ query, detail string }{
		{"", `query parameter "url": is missing`},
		{"url=", `query parameter "url": is missing`},
		{"url=/&url=/", `query parameter "url": given 2 times`},
		{"url=/&path=/", `query parameter "path": not known here; known are url, method, header, client`},
		{"url=x", `url "x": `},
		{"url=http://a+b/", `url "http://a b/": `},
		{"url=ftp://a/", `url "ftp://a/": `},
		{"url=/%25zz", `url "/%zz": `},
		{"url=/&method=", `method "": is not a request method`},
		{"url=/&method=G+T", `method "G T": is not a request method`},
		{"url=/&method=*", `method "*": is not a request method`},
		{"url=/&method=get", `method "get": methods are in upper case: write GET`},
		{"url=/&header=X-A", `header "X-A": is not of the form "Name: value"`},
		{"url=/&header=X-B:+1&header=X-A", `header "X-A": is not of the form "Name: value"`},
		{"url=/&header=X+A:+1", `header "X A: 1": name "X A" is not a name`},
		{"url=/&header=:+1", `header ": 1": name "" is not a name`},
		{"url=/&header=X-A:+1%0d%0aX-B:+2", `header "X-A: 1\r\nX-B: 2": the value must not hold the control character '\r'`},
		{"url=/&header=host:+a.test", `header "host: a.test": the host is part of the url`},
		{"url=/&client=", `client "": is not an IP address`},
		{"url=/&client=10.0.0.0/8", `client "10.0.0.0/8": is not an IP address`},
		{"url=/&client=localhost", `client "localhost": is not an IP address`},
	} {
		p := problem(t, n.tcp.do("GET", "/v1/routes/explain?"+c.query, ""), 400, "bad_request")
		if !strings.HasPrefix(p.Detail, c.detail) {
			t.Errorf("%s: %s, want %s", c.query, p.Detail, c.detail)
		}
	}
}

func TestLint(t *testing.T) {
	n := startNode(t)
	l := want[api.Lint](t, n.tcp.do("GET", "/v1/routes/lint", ""), 200)
	if l.Rev != "1.0" || l.Notices == nil || len(l.Notices) != 0 {
		t.Errorf("lint of nothing %+v", l)
	}
	shadowing(n)
	l = want[api.Lint](t, n.tcp.do("GET", "/v1/routes/lint", ""), 200)
	if l.Rev != "1.2" || len(l.Notices) != 1 || l.Notices[0].Key != "gateway/routes/second" || !strings.Contains(l.Notices[0].Problem, "first") {
		t.Errorf("lint %+v", l)
	}
}

func TestProbes(t *testing.T) {
	n := startNode(t)
	live, ready := spec.DefaultProbePaths().Live, append(spec.DefaultProbePaths().Ready, spec.DefaultProbePaths().Startup...)
	for _, path := range append(live, ready...) {
		want[api.Health](t, n.tcp.do("GET", string(path), ""), 200)
	}
	n.gateway.Drain()
	for _, path := range live {
		want[api.Health](t, n.tcp.do("GET", string(path), ""), 200)
	}
	for _, path := range ready {
		p := problem(t, n.tcp.do("GET", string(path), ""), 503, "not_ready")
		if !strings.Contains(p.Detail, "draining") {
			t.Errorf("problem %+v", p)
		}
	}
}

// The write happened; only its receipt is missing.
func TestReceiptThatDoesNotCome(t *testing.T) {
	n := startNode(t, idle, func(s *setup) { s.WaitBound = 1 })
	w := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/app/x", "1"), http.StatusAccepted)
	if w.Rev != "1.1" || w.Applied.Nodes != 0 || w.Applied.Of != 1 {
		t.Errorf("put answered %+v", w)
	}
	w = want[api.Written](t, n.tcp.do("PUT", "/v1/kv/app/x?wait=none", "1"), 200)
	if w.Rev != "1.2" || w.Applied.Nodes != 0 {
		t.Errorf("put answered %+v", w)
	}
}

// refusing is a log whose every write fails with one error.
type refusing struct{ err error }

func (r refusing) Propose(context.Context, kv.Txn) (kv.Result, error) { return kv.Result{}, r.err }
func (r refusing) Trial(context.Context, kv.Txn) (kv.Result, error)   { return kv.Result{}, r.err }

func TestKindsOfFailure(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		known  bool // the client is told, and nothing was written
	}{
		{fmt.Errorf("store kv.db: %w", kv.ErrDiskFull), 507, "disk_full", true},
		{fmt.Errorf("store kv.db: %w: fdatasync: input/output error", kv.ErrReadOnly), 503, "read_only", true},
		{&kv.LimitError{What: "operations", Got: 10_001, Max: kv.MaxTxnOps}, 413, "too_large", true},
		{&kv.KeyError{Key: "x", Problem: "is odd"}, 400, "bad_key", true},
		{spec.Faults{{Key: "app/x", Problem: "is odd"}}, 422, "invalid", true},
		{errors.New("secret detail"), 500, "internal", false},
	} {
		n := startNode(t, func(s *setup) { s.Log = refusing{c.err} })
		p := problem(t, n.tcp.do("PUT", "/v1/kv/app/x", "1"), c.status, c.code)
		if p.NothingWritten != c.known || strings.Contains(p.Detail, "secret") || c.known && p.Detail != c.err.Error() {
			t.Errorf("%v: problem %+v", c.err, p)
		}
		if inLog := strings.Contains(n.log.String(), "secret detail"); inLog == c.known {
			t.Errorf("%v: log %q", c.err, n.log)
		}
	}
}

// panicking panics in place of writing.
type panicking struct{}

func (panicking) Propose(context.Context, kv.Txn) (kv.Result, error) { panic("out of order") }
func (panicking) Trial(context.Context, kv.Txn) (kv.Result, error)   { panic("out of order") }

func TestPanicBecomesAProblemAndALine(t *testing.T) {
	n := startNode(t, func(s *setup) { s.Log = panicking{} })
	r := n.tcp.do("PUT", "/v1/kv/app/x", "1")
	p := problem(t, r, 500, "internal")
	id := r.header.Get("X-Correlation-ID")
	if p.NothingWritten || id == "" || !strings.Contains(p.Detail, id) || strings.Contains(r.body, "goroutine") {
		t.Errorf("problem %+v", p)
	}
	for _, part := range []string{"out of order", id, "panicking"} {
		if !strings.Contains(n.log.String(), part) {
			t.Errorf("the log lacks %q: %s", part, n.log)
		}
	}
	if r := n.tcp.do("GET", "/alive", ""); r.status != 200 {
		t.Errorf("after a panic: %+v", r)
	}
}

// A panic in the middle of an answer must not let it look whole.
func TestPanicInTheMiddleCutsTheAnswer(t *testing.T) {
	n := startNode(t, func(s *setup) {
		s.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("up 1\n", 10_000))
			panic("out of order")
		})
	})
	response := n.tcp.open("GET", "/metrics", "")
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("the answer looks whole: %d bytes", len(body))
	}
	if !strings.Contains(n.log.String(), "out of order") {
		t.Errorf("log %q", n.log)
	}
}

func TestAnswersAreObserved(t *testing.T) {
	seen := make(chan string, 4) // one for each request
	n := startNode(t, func(s *setup) {
		s.Observe = func(operation string, status int) { seen <- fmt.Sprint(operation, " ", status) }
	})
	n.tcp.do("PUT", "/v1/kv/app/x", "1")
	n.tcp.do("GET", "/v1/kv/app/y", "")
	n.tcp.do("GET", "/nothing", "")
	n.tcp.do("GET", "/v1/status", "", "Host: evil.example")
	for _, want := range []string{"putKey 200", "getKey 404", " 404", " 403"} {
		if got := <-seen; got != want {
			t.Errorf("observed %q, want %q", got, want)
		}
	}
}
