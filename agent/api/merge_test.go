package api_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"grapevine/agent/api"
	"grapevine/kv"
)

func TestPatchMerges(t *testing.T) {
	n := startNode(t)
	problem(t, n.tcp.do("PATCH", "/v1/kv/gateway/routes/booking", `{"timeout":"5s"}`), 404, "not_found")
	n.socket.do("PUT", "/v1/kv/gateway/routes/booking", booking)
	patched := want[api.Written](t, n.tcp.do("PATCH", "/v1/kv/gateway/routes/booking", `{"timeout":"5s"}`,
		"Content-Type: application/merge-patch+json"), 200)
	if !strings.Contains(string(patched.Value), `"timeout":"5s"`) || patched.Rev != "1.2" {
		t.Errorf("patch answered %+v", patched)
	}
	patched = want[api.Written](t, n.tcp.do("PATCH", "/v1/kv/gateway/routes/booking", `{"timeout":null}`), 200)
	if string(patched.Value) != booking {
		t.Errorf("patch left %s", patched.Value)
	}
	p := problem(t, n.tcp.do("PATCH", "/v1/kv/gateway/routes/booking", `{"timout":"5s"}`), 422, "invalid")
	if !strings.Contains(p.Detail, "timout") {
		t.Errorf("faults %+v", p.Faults)
	}
	n.socket.do("PUT", "/v1/kv/app/x", "text")
	problem(t, n.tcp.do("PATCH", "/v1/kv/app/x", `{"a":1}`), 422, "invalid")
	problem(t, n.tcp.do("PATCH", "/v1/kv/app/x", `{"a":1} {}`), 400, "bad_request")
}

// overtaken is a log in which another write comes before the first one.
type overtaken struct {
	api.Log
	once  sync.Once
	other kv.Txn
}

func (o *overtaken) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	o.once.Do(func() { o.Log.Propose(ctx, o.other) })
	return o.Log.Propose(ctx, t)
}

func TestPatchThatIsOvertakenMergesAnew(t *testing.T) {
	other := kv.Txn{Then: []kv.Op{kv.Put("app/x", []byte(`{"theirs":1}`))}}
	n := startNode(t, func(s *setup) { s.around = func(log api.Log) api.Log { return &overtaken{Log: log, other: other} } })
	seed, _, err := n.store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put("app/x", []byte("{}"))}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.store.Merge(seed); err != nil {
		t.Fatal(err)
	}
	w := want[api.Written](t, n.tcp.do("PATCH", "/v1/kv/app/x", `{"ours":1}`), 200)
	if string(w.Value) != `{"ours":1,"theirs":1}` || w.Rev != "1.3" {
		t.Errorf("patch answered %+v", w)
	}
}

func TestPatchesOfManyAllHold(t *testing.T) {
	n := startNode(t)
	n.socket.do("PUT", "/v1/kv/app/x", "{}")
	const writers = 8
	done := make(chan reply, writers)
	for i := range writers {
		go func() { done <- n.socket.do("PATCH", "/v1/kv/app/x?wait=none", `{"`+string(rune('a'+i))+`":1}`) }()
	}
	for range writers {
		if r := <-done; r.status != 200 {
			t.Errorf("patch answered %+v", r)
		}
	}
	fields := want[map[string]int](t, n.tcp.do("GET", "/v1/kv/app/x", ""), 200)
	if len(fields) != writers {
		t.Errorf("%d of %d patches held: %v", len(fields), writers, fields)
	}
}
