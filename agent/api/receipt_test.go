package api_test

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/agent/api"
	"grapevine/kv"
)

func TestReceipts(t *testing.T) {
	behind := &api.Receipt{Nodes: 2, Of: 3, Took: 5 * time.Second, Slowest: "edge-2", Missing: []string{"edge-3"}}
	for _, c := range []struct {
		wait    string
		receipt *api.Receipt
		status  int
		applied api.Applied
		did     []string
	}{
		{"", nil, 200, api.Applied{Nodes: 1, Of: 2}, nil},
		{"?wait=local", nil, 200, api.Applied{Nodes: 1, Of: 2}, nil},
		{"?wait=none", nil, 200, api.Applied{Of: 2}, nil},
		{"?wait=all&dryRun", nil, 200, api.Applied{Of: 2}, nil},
		{"?wait=all", nil, 200, api.Applied{Nodes: 2, Of: 2, Ms: 9, Slowest: "edge-2"}, []string{"await 1.1 all"}},
		{"?wait=all", behind, 202, api.Applied{Nodes: 2, Of: 3, Ms: 5000, Slowest: "edge-2", Missing: []string{"edge-3"}}, []string{"await 1.1 all"}},
		{"?wait=67%25", behind, 202, api.Applied{Nodes: 2, Of: 3, Ms: 5000, Slowest: "edge-2", Missing: []string{"edge-3"}}, []string{"await 1.1 67%"}},
		{"?wait=50%25", behind, 200, api.Applied{Nodes: 2, Of: 3, Ms: 5000, Slowest: "edge-2", Missing: []string{"edge-3"}}, []string{"await 1.1 50%"}},
	} {
		cluster := newTrio()
		cluster.receipt = c.receipt
		cluster.members = append(cluster.members, api.Member{Node: "host-4", ID: "01d", Status: "alive", Role: "edge", NoGateway: true})
		n := startNode(t, cluster.in)
		w := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/app/x"+c.wait, "1"), c.status)
		if c.applied.Slowest == "" {
			w.Applied.Ms = 0
		}
		if !reflect.DeepEqual(w.Applied, c.applied) || !slices.Equal(cluster.calls(), c.did) {
			t.Errorf("%s: %+v, and did %q; want %+v, %q", c.wait, w.Applied, cluster.calls(), c.applied, c.did)
		}
	}
}

// A node without a gateway holds what others serve, and says so.
func TestReceiptsWithoutAGateway(t *testing.T) {
	for wait, applied := range map[string]api.Applied{
		"local": {Nodes: 1, Of: 2, NoGateway: true},
		"all":   {Nodes: 2, Of: 2, Ms: 9, Slowest: "edge-2", NoGateway: true},
		"none":  {Of: 2, NoGateway: true},
	} {
		cluster := newTrio()
		n := startNode(t, func(s *setup) { cluster.in(s); s.bare = true })
		w := want[api.Written](t, n.tcp.do("PUT", "/v1/kv/app/x?wait="+wait, "1"), 200)
		if wait == "local" {
			w.Applied.Ms = 0
		}
		if !reflect.DeepEqual(w.Applied, applied) {
			t.Errorf("%s: %+v; want %+v", wait, w.Applied, applied)
		}
	}
}

// A write that changed nothing has nobody to wait for.
func TestReceiptOfNothing(t *testing.T) {
	cluster := newTrio()
	n := startNode(t, cluster.in)
	w := want[api.Committed](t, n.tcp.do("POST", "/v1/txn?wait=all", `{"compare":[{"key":"app/x","target":"absent","value":false}],"then":[]}`), 200)
	if w.Succeeded || w.Applied.Nodes != 0 || cluster.calls() != nil {
		t.Errorf("%+v, and did %q", w, cluster.calls())
	}
}

// waiting is a log in which a write gets no turn.
type waiting struct{}

func (waiting) Propose(ctx context.Context, _ kv.Txn) (kv.Result, error) {
	<-ctx.Done()
	return kv.Result{}, ctx.Err()
}

func (w waiting) Trial(ctx context.Context, t kv.Txn) (kv.Result, error) { return w.Propose(ctx, t) }

// A write that got no turn did nothing; the client's time bounds it.
func TestWriteThatGetsNoTurn(t *testing.T) {
	n := startNode(t, func(s *setup) { s.Log = waiting{} })
	for _, query := range []string{"timeout=1ms", "timeout=1ms&dryRun", "timeout=1ms&wait=none"} {
		p := problem(t, n.tcp.do("PUT", "/v1/kv/app/x?"+query, "1"), http.StatusGatewayTimeout, "timeout")
		if !p.NothingWritten || !strings.Contains(p.Detail, "within 1ms") {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// A write is refused, or its outcome unknown, as the leader says.
func TestWritesWithoutALeader(t *testing.T) {
	n := startNode(t, func(s *setup) { s.Log = refusing{quorumLost} })
	if p := problem(t, n.tcp.do("PUT", "/v1/kv/app/x", "1"), 503, "no_quorum"); !p.NothingWritten || !strings.Contains(p.Detail, "edge-2, edge-3") {
		t.Errorf("%+v", p)
	}
	n = startNode(t, func(s *setup) { s.Log = refusing{&api.UnknownOutcomeError{Err: context.DeadlineExceeded}} })
	if p := problem(t, n.tcp.do("PUT", "/v1/kv/app/x", "1"), 504, "unknown_outcome"); p.NothingWritten {
		t.Errorf("%+v", p)
	}
}
