package gateway_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// Explain tells what the state of the node makes of a request: maintenance, the
// breaker, health, and a split.
func TestExplainState(t *testing.T) {
	f := start(t, "")
	failing := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503); io.WriteString(w, "no") })
	f.put("gateway/clusters/good", `{"destinations":{"a":"`+backend(t, "a")+`","b":{"address":"`+backend(t, "b")+`","status":"draining"}},"affinity":{"cookie":"c"}}`)
	f.put("gateway/clusters/bad", `{"destinations":{"a":"`+failing+`"},"resilience":{"circuitBreaker":{"failureThreshold":2,"minimumThroughput":2}}}`)
	f.put("gateway/routes/good", `{"path":"/good","cluster":"good"}`)
	f.put("gateway/routes/bad", `{"path":"/bad","cluster":"bad"}`)
	f.put("gateway/routes/split", `{"path":"/split","split":[{"cluster":"good","weight":1},{"cluster":"bad","weight":0,"headers":[{"name":"X-Canary","value":"1"}]}]}`)
	f.put("gateway/routes/hello", `{"path":"/hello","respond":{"status":200}}`)

	e := f.asking("GET /good")
	if d := e.Forward.Destinations; e.Status != 0 || e.Forward.Chosen != d[0].Address || d[0].Use != "yes" || d[1].Use != "no" || d[1].Status != "draining" || e.Forward.Breaker != nil {
		t.Errorf("well: %+v %+v", e, e.Forward)
	}
	for range 3 {
		f.get("/bad")
	}
	e = f.asking("GET /bad")
	if b := e.Forward.Breaker; e.Status != 503 || e.Code != "circuit_open" || b.State != "open" || b.OpenForMs <= 0 {
		t.Errorf("breaker: %+v %+v", e, b)
	}
	e = f.asking("GET /split\nX-Canary: 1")
	if s := e.Split; len(s) != 2 || s[0].Chosen || !s[1].Chosen || !s[1].Conditional || e.Code != "circuit_open" {
		t.Errorf("split: %+v", e)
	}

	f.maintain("good", "enabled:true,reason:deploy,allow:10.0.0.0/8")
	e = f.asking("GET /good")
	if len(e.Maintenance) != 1 || e.Status != 503 || e.Code != "maintenance" || e.Route != "good" || !strings.Contains(e.Detail, "cluster good is under maintenance") {
		t.Errorf("maintenance: %+v", e)
	}
	q := question("GET /good")
	q.Client = netip.MustParseAddr("10.1.2.3")
	if e, _ := f.gateway.Table().Explain(q); e.Status != 0 || len(e.Maintenance) != 1 {
		t.Errorf("who is let through: %+v", e)
	}
	if e = f.asking("GET /split"); e.Code != "maintenance" || !e.Split[0].Maintenance {
		t.Errorf("split under maintenance: %+v", e)
	}
	if e = f.asking("GET /hello"); e.Status != 200 || e.Maintenance != nil {
		t.Errorf("another: %+v", e)
	}
	f.maintain("", "on")
	if e = f.asking("GET /hello"); e.Status != 503 || e.Code != "maintenance" || !strings.Contains(e.Detail, "the whole gateway") {
		t.Errorf("all: %+v", e)
	}
	if e = f.asking("GET /alive"); e.Status != 200 {
		t.Errorf("a probe: %+v", e)
	}
	// To ask changes nothing.
	if row := f.gateway.Table().Maintenance()[0]; row.TurnedAway != 0 {
		t.Errorf("got %+v", row)
	}
}
