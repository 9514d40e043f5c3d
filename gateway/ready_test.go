package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/kv"
)

// details asks a probe for all that there is.
func (f *fixture) details(status int) gateway.Readiness {
	f.t.Helper()
	a := f.get("/health/ready?verbose")
	var r gateway.Readiness
	if err := json.Unmarshal([]byte(a.body), &r); err != nil || a.StatusCode != status || a.Header.Get("Content-Type") != "application/json" {
		f.t.Fatalf("got %d %v %s", a.StatusCode, a.Header, a.body)
	}
	return r
}

func TestRequiredClusters(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/booking", route("/booking", backend(t, "a")))
	f.put("gateway/clusters/empty", `{"destinations":{"a":{"address":"http://127.0.0.1:1","weight":0}}}`)
	f.put("gateway/clusters/draining", `{"destinations":{"a":{"address":"http://127.0.0.1:1","status":"draining"}}}`)
	f.put("gateway/clusters/degraded", `{"destinations":{"a":{"address":"http://127.0.0.1:1","status":"degraded"}}}`)
	for _, row := range []struct {
		require string
		status  int
		reason  string
	}{
		{`{}`, 200, ""},
		{`{"require":["booking"]}`, 200, ""},
		{`{"require":["degraded"]}`, 200, ""},
		{`{"require":["book"]}`, 503, "book (there is no such cluster)"},
		{`{"require":["booking-v2"]}`, 503, "booking-v2 (there is no such cluster)"},
		{`{"require":["empty"]}`, 503, "empty (none of its destinations is healthy or degraded)"},
		{`{"require":["booking","draining"]}`, 503, "without a live destination: draining (none"},
		{`{"require":["booking","draining"],"policy":"any"}`, 200, ""},
		{`{"require":["gone","draining"],"policy":"any"}`, 503, "gone (there is no such cluster), draining"},
	} {
		f.put("gateway/config/ready", row.require)
		if a := f.get("/ready"); a.StatusCode != row.status || !strings.Contains(a.body, row.reason) {
			t.Errorf("%s: %d %s", row.require, a.StatusCode, a.body)
		}
		if r := f.details(row.status); !strings.Contains(r.Reason, row.reason) || (r.Status == "ready") != (row.status == 200) {
			t.Errorf("%s: %+v", row.require, r)
		}
		f.wants("/alive", 200) // whatever becomes of others
	}
	// Its own maintenance makes no node unready, and is told.
	f.put("gateway/config/ready", `{"require":["booking"]}`)
	f.maintain("booking", "enabled:true,until:2999-01-01T00:00:00Z")
	f.maintain("", "on")
	r := f.details(200)
	if len(r.Maintenance) != 2 || r.Maintenance[0].Cluster != "" || r.Maintenance[1].Until == nil || r.Require.Clusters[0].Live != 1 || r.Table.Routes != 1 {
		t.Errorf("got %+v", r)
	}
	if a := f.get("/ready", "Host: h", "Accept: application/json"); !strings.Contains(a.body, `"policy":"all"`) {
		t.Errorf("by its type: %s", a.body)
	}
	for _, plain := range []string{"/ready", "/ready?verbose=0", "/ready?verbosely"} {
		if a := f.wants(plain, 200); a.body != "{\"status\":\"ready\"}\n" {
			t.Errorf("%s: %s", plain, a.body)
		}
	}
	f.gateway.Drain()
	if r := f.details(503); !r.Draining || r.Reason != "the node is draining" {
		t.Errorf("got %+v", r)
	}
	f.wants("/alive", 200)
}

// An announced instance that says that it is unhealthy is not what others require.
func TestRequiredInstanceIsUnhealthy(t *testing.T) {
	f := start(t, "")
	a := announceTo(t, f)
	f.put("gateway/config/ready", `{"require":["r"]}`)
	for _, status := range []string{"unhealthy", "healthy", "unhealthy", "degraded"} {
		a.announce("r/a", "/r", "http://127.0.0.1:1", "status", fmt.Sprintf("%q", status))
		want := 200
		if status == "unhealthy" {
			want = 503
		}
		f.wants("/ready", want)
	}
}

// A node that waits for what its cluster serves is alive, and not ready; that it drains comes first.
func TestNotReadyWhileItWaits(t *testing.T) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var waits atomic.Value
	waits.Store("it has not joined its cluster")
	f := startWith(t, store, gateway.Options{Waiting: func() string { return waits.Load().(string) }})
	if r := f.details(503); r.Reason != "it has not joined its cluster" || r.Draining {
		t.Errorf("got %+v", r)
	}
	f.wants("/ready", 503).problem(t, 503, "not_ready")
	f.wants("/alive", 200)
	waits.Store("")
	f.wants("/ready", 200)
	waits.Store("again")
	f.gateway.Drain()
	if r := f.details(503); r.Reason != "the node is draining" {
		t.Errorf("got %+v", r)
	}
}

// A required cluster whose destinations are all found to be bad makes the node
// unready, and ready again when one is well.
func TestRequiredClusterFallsIll(t *testing.T) {
	var ill atomic.Bool
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if ill.Load() {
			w.WriteHeader(500)
		}
	})
	f := start(t, "")
	f.put("gateway/clusters/booking", `{"destinations":{"a":"`+address+`"},"health":{"active":{"path":"/alive","interval":"1s","timeout":"1s","healthyAfter":1,"unhealthyAfter":1}}}`)
	f.put("gateway/routes/booking", `{"path":"/booking","cluster":"booking"}`)
	f.put("gateway/config/ready", `{"require":["booking"]}`)
	f.wants("/ready", 200)
	for _, now := range []bool{true, false} {
		ill.Store(now)
		status := map[bool]int{true: 503, false: 200}[now]
		for deadline := time.Now().Add(patience); f.get("/ready").StatusCode != status; <-time.After(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("ill: %v, and the probe does not say so", now)
			}
		}
	}
}
