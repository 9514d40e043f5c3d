package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grapevine/agent"
	"grapevine/agent/api"
)

func TestNodeServesWhatItsFileSays(t *testing.T) {
	c := config(t)
	c.Metrics = "127.0.0.1:0"
	c.ConfigFiles = []string{file(t, "gateway.yaml", `
routes:
  hello: {path: "/hello/{**rest}", backends: ["`+backend(t, "hello")+`"]}
`)}
	n := start(t, c)
	if r := n.get("http", "/hello/world"); r.body != "hello /hello/world" {
		t.Errorf("the route answers %s", r)
	}
	for _, listener := range []string{"http", "admin", "socket"} {
		if r := n.get(listener, "/health/ready"); r.status != 200 {
			t.Errorf("%s is not ready: %s", listener, r)
		}
	}
	s := decode[api.Status](t, n.get("socket", "/v1/status"))
	if s.Name != "test" || len(s.ID) != 26 || s.Version != "0.0.1" || s.Build != "abc" || s.PID != os.Getpid() ||
		s.StartedAt.IsZero() || s.DataDir != c.DataDir || len(s.Listeners) != 5 || s.Reload != nil || s.Table.Routes != 1 {
		t.Errorf("status %+v", s)
	}
	// The proxy's listener never serves the API, nor the metrics' anything else.
	if r := n.get("http", "/v1/status"); r.status != 404 {
		t.Errorf("the API is on the proxy's listener: %s", r)
	}
	has(t, n.get("metrics", "/metrics").body, `grapevine_build_info{build="abc"`, "go_goroutines")
	if r := n.get("metrics", "/v1/status"); r.status != 404 {
		t.Errorf("the API is on the metrics' listener: %s", r)
	}
	if err := n.stopped(); err != nil {
		t.Error(err)
	}
}

func TestOperatorsRouteIsServedAtOnceAndAfterARestart(t *testing.T) {
	c := config(t)
	n := start(t, c)
	first := decode[api.Status](t, n.get("admin", "/v1/status"))
	n.set("gateway/routes/booking", `{"path":"/booking/{**rest}","pathRemovePrefix":"/booking","backends":["`+backend(t, "booking")+`"]}`)
	if r := n.get("http", "/booking/health"); r.body != "booking /health" {
		t.Errorf("the route answers %s", r)
	}
	if err := n.stopped(); err != nil {
		t.Fatal(err)
	}

	n = start(t, c)
	if r := n.get("http", "/booking/health"); r.body != "booking /health" {
		t.Errorf("after a restart the route answers %s", r)
	}
	if s := decode[api.Status](t, n.get("admin", "/v1/status")); s.ID != first.ID || s.Rev != "1.1" {
		t.Errorf("after a restart the status is %+v", s)
	}
}

// A value that is good by itself and not in its place is refused, and nothing changes.
func TestWriteIsTriedAgainstTheWholeTable(t *testing.T) {
	n := start(t, config(t))
	n.set("gateway/clusters/shop", `{"destinations":{"a":"`+backend(t, "shop")+`"}}`)
	n.set("gateway/routes/shop", `{"path":"/shop","cluster":"shop"}`)
	for _, r := range []reply{
		n.do("admin", "PUT", "/v1/kv/gateway/routes/shop", `{"path":"/shop","cluster":"nowhere"}`),
		n.do("admin", "DELETE", "/v1/kv/gateway/clusters/shop", ""),
	} {
		if r.status != 422 {
			t.Errorf("answered %s", r)
		}
	}
	if s := decode[api.Status](t, n.get("admin", "/v1/status")); s.Rev != "1.2" {
		t.Errorf("status %+v", s)
	}
	if r := n.get("http", "/shop"); r.body != "shop /shop" {
		t.Errorf("the route answers %s", r)
	}
}

func TestDataDirectoryIsPrivate(t *testing.T) {
	c := config(t)
	n := start(t, c)
	for name, mode := range map[string]os.FileMode{
		"": os.ModeDir | 0o700, "agent.sock": os.ModeSocket | 0o660, "agent.lock": 0o600, "node.id": 0o600, "kv.db": 0o600,
	} {
		info, err := os.Lstat(filepath.Join(c.DataDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != mode {
			t.Errorf("%s has mode %s, want %s", name, info.Mode(), mode)
		}
	}
	if err := n.stopped(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(c.DataDir, "agent.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestDevKeepsNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	n := start(t, agent.Config{Dev: true, HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0"})
	n.set("app/x", "1")
	if _, ok := n.Addresses()["socket"]; ok {
		t.Error("there is a socket")
	}
	if s := decode[api.Status](t, n.get("admin", "/v1/status")); s.DataDir != "" || s.Keys != 1 {
		t.Errorf("status %+v", s)
	}
	if err := n.stopped(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left on disk: %v %v", left, err)
	}
}

func TestLogFollowsItsSection(t *testing.T) {
	n := start(t, config(t))
	has(t, n.log.String(), `"msg":"table is live"`, `"node":"test"`)
	n.set("gateway/config/logging", `{"format":"text","level":"error"}`)
	n.set("app/x", "1")
	if n.set("gateway/config/logging", `{"level":"debug"}`); strings.Contains(n.log.String(), "to=1.2") {
		t.Errorf("a table was logged at level error:\n%s", n.log)
	}
	n.set("gateway/config/logging", `{"format":"text"}`)
	n.set("app/x", "2")
	n.log.await(t, `msg="table is live"`)
}

func TestWatchResumesAcrossARestart(t *testing.T) {
	c := config(t)
	n := start(t, c)
	n.set("app/x", "1")
	n.set("app/x", "2")
	if err := n.stopped(); err != nil {
		t.Fatal(err)
	}
	n = start(t, c)
	n.set("app/x", "3")
	events := n.events("/v1/watch?prefix=app", "1.1")
	for _, part := range []string{`"value":2`, `"value":3`, `{"rev":"1.3"}`} {
		if e := events(); !strings.Contains(e, part) {
			t.Fatalf("event %s, want %s", e, part)
		}
	}
}

func TestAddressesAreReal(t *testing.T) {
	began := time.Now()
	n := start(t, config(t))
	for name, address := range n.Addresses() {
		if strings.HasSuffix(address, ":0") {
			t.Errorf("%s is at %s", name, address)
		}
	}
	if s := decode[api.Status](t, n.get("admin", "/v1/status")); s.StartedAt.Before(began) {
		t.Errorf("started at %s", s.StartedAt)
	}
}
