package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"grapevine/agent/announcing"
	"grapevine/agent/api"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

const instance = `{"routeId":"shop","instanceId":"one","path":"/shop/{**rest}","address":"http://10.0.0.5:80"}`

// announced announces an instance without a connection, and returns its lease.
func announced(n *node) *announcing.Lease {
	a, err := announcing.Parse([]byte(instance))
	if err != nil {
		n.t.Fatal(err)
	}
	lease, _, err := n.leases.Announce(n.t.Context(), a, "")
	if err != nil {
		n.t.Fatal(err)
	}
	return lease
}

// ofLease is a contract of a request about an announced instance; LEASE stands for its lease.
func ofLease(method, path, body string) contract {
	return contract{send: func(n *node) reply {
		return n.tcp.do(method, strings.Replace(path, "LEASE", announced(n).State().Lease, 1), body)
	}}
}

// owned is a store in which an instance belongs to another node.
func owned(s *setup) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		panic(err)
	}
	own, err := store.Own("other")
	if err == nil {
		err = own.Put("gateway/instances/shop/one", []byte(`{"path":"/shop","address":"http://10.0.0.5:80"}`))
	}
	if err != nil {
		panic(err)
	}
	s.Store = store
}

func announceContracts() map[string]contract {
	one := "/v1/instances/shop/one/drain"
	here := func(n *node) { announced(n) }
	goes := func(n *node) {
		if _, err := announced(n).Drain(n.t.Context(), announcing.ByClient, ""); err != nil {
			n.t.Fatal(err)
		}
	}
	return map[string]contract{
		"announce 200": {send: func(n *node) reply {
			n.background(func(context.Context) {
				for changed := n.store.OwnerChanged(); n.leases.Len() == 0; changed = n.store.OwnerChanged() {
					<-changed
				}
				n.leases.Close()
			})
			return n.tcp.do("POST", "/v1/announce", instance)
		}},
		"announce 413": request("POST", "/v1/announce", `"`+strings.Repeat("a", announcing.MaxBody)+`"`),
		"announce 422": request("POST", "/v1/announce", `{"path":"/"}`),
		"announce 429": request("POST", "/v1/announce", strings.Replace(instance, "one", "two", 1)).with(func(s *setup) { s.most = 1 }).on(here),
		"announce 503": request("POST", "/v1/announce", instance).on(func(n *node) { n.leases.Close() }),

		"getLease 200":      ofLease("GET", "/v1/announce/LEASE", ""),
		"getLease 404":      request("GET", "/v1/announce/x", ""),
		"beat 200":          ofLease("PATCH", "/v1/announce/LEASE", `{"status":"degraded"}`),
		"beat 400":          ofLease("PATCH", "/v1/announce/LEASE", `{"status":"dead"}`),
		"beat 404":          request("PATCH", "/v1/announce/x", "{}"),
		"drainLease 200":    ofLease("POST", "/v1/announce/LEASE/drain", ""),
		"drainLease 400":    ofLease("POST", "/v1/announce/LEASE/drain?timeout=x", ""),
		"drainLease 404":    request("POST", "/v1/announce/x/drain", ""),
		"withdrawLease 204": ofLease("DELETE", "/v1/announce/LEASE", ""),
		"withdrawLease 404": request("DELETE", "/v1/announce/x", ""),

		"listInstances 200":   request("GET", "/v1/instances?route=shop", "").on(here),
		"listInstances 400":   request("GET", "/v1/instances?path=/", ""),
		"drainInstance 200":   request("POST", one, "").on(here),
		"drainInstance 400":   request("POST", "/v1/instances/shop/%20/drain", ""),
		"drainInstance 404":   request("POST", one, ""),
		"drainInstance 502":   request("POST", one, "").with(owned),
		"undrainInstance 200": request("DELETE", one, "").on(here),
		"undrainInstance 400": request("DELETE", "/v1/instances/shop/%20/drain", ""),
		"undrainInstance 404": request("DELETE", one, ""),
		"undrainInstance 409": request("DELETE", one, "").on(goes),
		"undrainInstance 502": request("DELETE", one, "").with(owned),
	}
}

// A lease is its connection, on both doors: the events come as they happen, and its end withdraws.
func TestAnnounceStreams(t *testing.T) {
	for _, door := range []string{"tcp", "socket"} {
		t.Run(door, func(t *testing.T) {
			n := startNode(t)
			c := map[string]*client{"tcp": n.tcp, "socket": n.socket}[door]
			response, err := c.http.Post(c.base+"/v1/announce", "application/json", strings.NewReader(instance))
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(response.Body)
			next := func(v any) {
				t.Helper()
				if !lines.Scan() {
					t.Fatalf("the stream ended: %v", lines.Err())
				}
				if err := json.Unmarshal(lines.Bytes(), v); err != nil {
					t.Fatal(err)
				}
			}
			var accepted announcing.Accepted
			if next(&accepted); accepted.Event != "accepted" || accepted.Node != nodeID || response.Header.Get("Content-Type") != "application/x-ndjson" {
				t.Fatalf("first came %+v as %s", accepted, response.Header)
			}
			list := want[api.InstanceList](t, n.tcp.do("GET", "/v1/instances", ""), 200)
			if len(list.Instances) != 1 || list.Instances[0].Address != "http://10.0.0.5:80" || list.Instances[0].Owner != "test" || list.Instances[0].State != "healthy" {
				t.Errorf("listed %+v", list)
			}
			want[announcing.Handshake](t, n.tcp.do("POST", "/v1/instances/shop/one/drain", ""), 200)
			var draining announcing.Draining
			for draining.Event != "draining" { // after how many gateways there are
				next(&draining)
			}
			if draining.Event != "draining" || draining.By != "operator" || !strings.HasPrefix(draining.Reason, "by ") {
				t.Errorf("then came %+v", draining)
			}
			changed := n.store.OwnerChanged()
			response.Body.Close()
			for there := true; there; {
				<-changed
				changed = n.store.OwnerChanged()
				_, there = n.store.View().Get(kv.Key(accepted.Key))
			}
		})
	}
}

// A grant is for who shows the token.
func TestAnnounceTakesABearerToken(t *testing.T) {
	n := startNode(t)
	decoded, err := spec.Decode("gateway/config/announce",
		[]byte(`{"default":"deny","grants":[{"token":"`+announcing.HashToken("secret")+`","routes":["shop"]}]}`), spec.FormJSON)
	if err != nil {
		t.Fatal(err)
	}
	n.leases.SetPolicy(decoded.Value.(*spec.Announce))
	problem(t, n.tcp.do("POST", "/v1/announce", instance), 403, "denied")
	problem(t, n.tcp.do("POST", "/v1/announce", instance, "Authorization: Bearer wrong"), 403, "denied")
	request, err := http.NewRequestWithContext(t.Context(), "POST", n.tcp.base+"/v1/announce", strings.NewReader(instance))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "bearer secret")
	request.Header.Set("Content-Type", "application/json")
	response, err := n.tcp.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("status %d", response.StatusCode)
	}
}
