package api_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"grapevine/agent/api"
)

// through is a way to another node's API, over real connections. It notes the queries that pass.
func through(t *testing.T, n *node, passed *[]string) http.Handler {
	t.Helper()
	peers := n.api.Handler(api.Peers)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*passed = append(*passed, r.URL.RawQuery)
		peers.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1, ErrorHandler: api.RefuseAsked, ErrorLog: log.New(io.Discard, "", 0),
	}
}

// twoNodes are the API of edge-1, and that of edge-2 behind it.
func twoNodes(t *testing.T) (first, second *node, passed *[]string) {
	t.Helper()
	passed = new([]string)
	second = startNode(t, func(s *setup) {
		cluster := newTrio()
		cluster.in(s)
		cluster.members[0].Self, cluster.members[1].Self = false, true
		s.Node = func() api.Node { return api.Node{ID: "01b", Name: "edge-2", Listeners: map[string]string{}} }
	})
	cluster := newTrio()
	cluster.others = map[string]http.Handler{"01b": through(t, second, passed)}
	return startNode(t, cluster.in), second, passed
}

func TestAnotherNodeAnswers(t *testing.T) {
	first, second, passed := twoNodes(t)
	for _, node := range []string{"edge-2", "01b"} {
		if s := want[api.Status](t, first.tcp.do("GET", "/v1/status?node="+node, ""), 200); s.Name != "edge-2" {
			t.Errorf("node=%s: %s answered", node, s.Name)
		}
	}
	for _, node := range []string{"edge-1", "01a"} {
		if s := want[api.Status](t, first.tcp.do("GET", "/v1/status?node="+node, ""), 200); s.Name != "edge-1" {
			t.Errorf("node=%s: %s answered", node, s.Name)
		}
	}

	// Everything that a request has goes along, and everything of the answer comes back.
	r := first.tcp.do("PUT", "/v1/kv/app/x?node=edge-2&message=why+not", `{"a":1}`)
	w := want[api.Written](t, r, 200)
	if r.header.Get("ETag") != `"1.1"` || w.Rev != "1.1" || second.store.View().Len() != 1 || first.store.View().Len() != 0 {
		t.Errorf("put answered %+v", r)
	}
	e := want[api.Envelope](t, first.tcp.do("GET", "/v1/kv/app/x?detail&node=edge-2", ""), 200)
	if !strings.HasPrefix(e.By, "tcp:127.0.0.1:") || e.Reason != "why not" {
		t.Errorf("the author is %q, the reason %q", e.By, e.Reason)
	}
	problem(t, first.tcp.do("PUT", "/v1/kv/app/x?node=edge-2", "2", `If-Match: "1.7"`), 412, "conflict")
	problem(t, first.tcp.do("GET", "/v1/kv/app/x?node=edge-1", ""), 404, "not_found")
	if want := []string{"", "", "message=why+not", "detail=", ""}; !slices.Equal(*passed, want) {
		t.Errorf("passed %q, want %q", *passed, want)
	}
	if ids := r.header.Values("X-Correlation-ID"); len(ids) != 1 || len(r.header.Values("X-Content-Type-Options")) != 1 {
		t.Errorf("headers %v", r.header)
	}
}

// A watch of another node streams, and is cut when this one stops: it must not hold that up.
func TestWatchOfAnotherNode(t *testing.T) {
	first, second, _ := twoNodes(t)
	response := first.tcp.open("GET", "/v1/watch?node=edge-2", "")
	defer response.Body.Close()
	second.socket.do("PUT", "/v1/kv/app/x", "1")
	read := make([]byte, 4096)
	seen := ""
	for !strings.Contains(seen, "event: put") {
		n, err := response.Body.Read(read)
		if seen += string(read[:n]); err != nil {
			t.Fatalf("%v after %s", err, seen)
		}
	}
	first.api.Close()
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("the stream looks whole")
	}
}

func TestNodesThatCannotBeAsked(t *testing.T) {
	first, second, _ := twoNodes(t)
	for _, c := range []struct {
		node   string
		status int
		code   string
		detail string
	}{
		{"edge-9", 404, "not_found", `node "edge-9": there is none; known are edge-1, edge-2, edge-3`},
		{"", 404, "not_found", `node "": there is none`},
		{"edge-3", 502, "node_unreachable", `node "01c": can't be reached: context deadline exceeded`},
	} {
		p := problem(t, first.tcp.do("PUT", "/v1/kv/app/x?node="+c.node, "1"), c.status, c.code)
		if !strings.HasPrefix(p.Detail, c.detail) || !p.NothingWritten {
			t.Errorf("%+v, want %s", p, c.detail)
		}
	}
	problem(t, first.tcp.do("GET", "/v1/status?node=edge-2&node=edge-1", ""), 400, "bad_request")
	problem(t, first.tcp.do("GET", "/alive?node=edge-2", ""), 400, "bad_request")
	large := `"` + strings.Repeat("a", 300<<10) + `"`
	problem(t, first.tcp.do("PUT", "/v1/kv/app/x?node=edge-2", large), 413, "too_large")
	if second.store.View().Len() != 0 {
		t.Error("something was written")
	}
}

// What comes from another node is not passed on, so that no two can send a request to and fro.
func TestRequestsGoNoFurtherThanOneNode(t *testing.T) {
	n := startNode(t, newTrio().in)
	peers := n.api.Handler(api.Peers)
	for query, status := range map[string]int{"node=edge-2": 508, "node=edge-1": 200, "": 200, "node=nobody": 404} {
		w := httptest.NewRecorder()
		peers.ServeHTTP(w, httptest.NewRequest("GET", "/v1/status?"+query, nil))
		if w.Code != status {
			t.Errorf("%q: %d %s, want %d", query, w.Code, w.Body, status)
		}
	}
}

// Who wrote is believed from another node, and from nobody else.
func TestAuthorOfAnotherNode(t *testing.T) {
	cluster := newTrio()
	n := startNode(t, cluster.in)
	r := httptest.NewRequest("PUT", "/v1/kv/app/x", strings.NewReader("1"))
	r.Header.Set(api.AuthorHeader, "ada")
	n.api.Handler(api.Peers).ServeHTTP(httptest.NewRecorder(), r)
	n.socket.do("PUT", "/v1/kv/app/y", "1", api.AuthorHeader+": eve")
	n.tcp.do("PUT", "/v1/kv/app/z", "1", api.AuthorHeader+": eve")
	r = httptest.NewRequest("POST", "/v1/tokens", strings.NewReader("{}"))
	r.Header.Set(api.AuthorHeader, "ada")
	n.api.Handler(api.Peers).ServeHTTP(httptest.NewRecorder(), r)
	if cluster.asker != "ada" {
		t.Errorf("the token is asked for by %q", cluster.asker)
	}
	n.socket.do("POST", "/v1/tokens", "{}", api.AuthorHeader+": eve")
	if cluster.asker == "" || cluster.asker == "eve" {
		t.Errorf("the token is asked for by %q", cluster.asker)
	}
	for entry := range n.store.View().Under("app") {
		if by := entry.By; (by == "ada") != (entry.Key == "app/x") || by == "eve" {
			t.Errorf("%s by %q", entry.Key, by)
		}
	}
}

// An answer that did not come is told as what it is.
func TestRefuseAsked(t *testing.T) {
	for _, c := range []struct {
		method string
		err    error
		status int
		code   string
		known  bool
	}{
		{"GET", io.ErrUnexpectedEOF, 502, "node_unreachable", true},
		{"HEAD", io.ErrUnexpectedEOF, 502, "node_unreachable", true},
		{"PUT", io.ErrUnexpectedEOF, 504, "unknown_outcome", false},
		{"DELETE", errors.New("reset"), 504, "unknown_outcome", false},
		{"PUT", fmt.Errorf("gv-peer/1: %w", &net.OpError{Op: "dial", Err: io.EOF}), 502, "node_unreachable", true},
		{"PUT", &net.OpError{Op: "read", Err: io.EOF}, 504, "unknown_outcome", false},
		{"PUT", &api.UnreachableError{Node: "edge-2", Err: io.EOF}, 502, "node_unreachable", true},
	} {
		w := httptest.NewRecorder()
		api.RefuseAsked(w, httptest.NewRequest(c.method, "/v1/kv/app/x", nil), c.err)
		p := problem(t, reply{w.Code, w.Header(), w.Body.String()}, c.status, c.code)
		if p.NothingWritten != c.known || p.Detail == "" {
			t.Errorf("%s after %v: %+v", c.method, c.err, p)
		}
	}
}
