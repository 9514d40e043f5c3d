package cli

import (
	"strings"
	"testing"
	"time"

	"grapevine/agent/api"
	"grapevine/gateway"
	"grapevine/gateway/spec"
)

func TestRoutesList(t *testing.T) {
	n := startNode(t)
	line := "routes list"
	n.call(line).check(t, line, 0, "", "no routes at revision 0\n")
	line = "routes list -o json"
	n.call(line).check(t, line, 0, "[]\n", "")
	n.must("config set gateway/routes/booking " + bookingRoute)
	line = "routes list"
	n.call(line).check(t, line, 0, ""+
		"ID       ORDER  HOST  PATH                    TARGET                 SOURCE    REV  STATE\n"+
		"booking  0      -     /booking/{**catch-all}  http://ADDRESS  operator  1    live\n", "")
	line = "routes list -o name"
	n.call(line).check(t, line, 0, "booking\n", "")
}

func TestRouteTable(t *testing.T) {
	routes := []gateway.RouteStatus{
		{ID: "a", Hosts: []string{"x.test", "*.y.test"}, Path: "/a", Target: "cluster a", Source: "static", State: "live"},
		{ID: "b", Order: -1, Path: "/b", Target: "http://h:80", Source: "operator", Rev: "1.12", State: "invalid", Problem: `timeout "x": not a duration`, ServingRev: "1.9"},
		{ID: "c", Path: "/c", Source: "operator", Rev: "1.13", State: "invalid", Problem: "auth: unknown provider"},
		{ID: "d", Path: "/d", Target: "http://h:80", Source: "static", State: "shadowed", Problem: "an operator route has the id"},
	}
	want := "" +
		"ID  ORDER  HOST             PATH  TARGET       SOURCE    REV  STATE\n" +
		"a   0      x.test,*.y.test  /a    cluster a    static    -    live\n" +
		"b   -1     -                /b    http://h:80  operator  12   INVALID: timeout \"x\": not a duration (revision 9 is served)\n" +
		"c   0      -                /c    -            operator  13   INVALID: auth: unknown provider (answers 503)\n" +
		"d   0      -                /d    http://h:80  static    -    shadowed: an operator route has the id\n"
	var b strings.Builder
	if err := routeTable(routes, style{}).write(&b); err != nil || b.String() != want {
		t.Errorf("got %v\n%swant\n%s", err, b.String(), want)
	}
	b.Reset()
	if err := routeTable(routes, style{colour: true}).write(&b); err != nil || !strings.Contains(b.String(), "\x1b[31mINVALID: auth: unknown provider (answers 503)\x1b[0m\n") {
		t.Errorf("in colour: %v\n%q", err, b.String())
	}
}

func TestStatus(t *testing.T) {
	n := startNode(t)
	n.must("config set gateway/routes/booking " + bookingRoute)
	r := n.must("status")
	for _, want := range []string{"node     test (", "version  0.0.1", "ready    yes", "store    revision 1, 1 key", "table    revision 1, 1 route, hash ", "in memory"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("status lacks %q:\n%s", want, r.stdout)
		}
	}
	if r := n.must("status -o name"); r.stdout != "test\n" {
		t.Errorf("status -o name: %q", r.stdout)
	}
	if r := n.must("status -o json"); !strings.Contains(r.stdout, `"rev": "1.1"`) {
		t.Errorf("status -o json: %s", r.stdout)
	}
}

func TestStatusOfATroubledNode(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	err := writeStatus(&b, api.Status{
		Node: api.Node{
			ID: "01h", Name: "edge-1", Region: "eu", Version: "0.1.0", PID: 7, StartedAt: now.Add(-time.Hour), DataDir: "/data",
			Listeners: map[string]string{"socket": "/s", "http": ":80"},
			Reload:    &api.Reload{At: now.Add(-time.Minute), Error: "listeners.http changed"},
		},
		Rev: "1.42", Keys: 3, Waiting: "draining",
		Table: api.TableStatus{
			Rev: "1.41", Hash: "0123456789abcdef", Routes: 2,
			Faults: []spec.Fault{{Key: "gateway/routes/x", Field: "path", Problem: "is empty"}},
		},
	}, now)
	want := "" +
		"node     edge-1 (01h)\n" +
		"region   eu\n" +
		"version  0.1.0\n" +
		"started  2026-05-01T11:00:00Z, 1h00m ago, process 7\n" +
		"data     /data\n" +
		"ready    no: draining\n" +
		"store    revision 42, 3 keys\n" +
		"table    revision 41, 2 routes, hash 0123456789ab\n" +
		"http     :80\n" +
		"socket   /s\n" +
		"reload   refused 1m00s ago: listeners.http changed\n" +
		"fault    gateway/routes/x: path: is empty\n"
	if err != nil || b.String() != want {
		t.Errorf("%v, got\n%swant\n%s", err, b.String(), want)
	}
}
