package api_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"grapevine/agent/api"
	"grapevine/gateway"
	"grapevine/kv"
)

// unmaintained is a log that takes everything but maintenance.
type unmaintained struct {
	api.Log
	err error
}

func (u unmaintained) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	if strings.HasPrefix(string(t.Then[0].Key), "gateway/maintenance") {
		return kv.Result{}, u.err
	}
	return u.Log.Propose(ctx, t)
}

// maintenanceContracts are those of each path, with the cluster shop there.
func maintenanceContracts() map[string]contract {
	all := map[string]contract{"listMaintenance 200": request("GET", "/v1/maintenance", "").on(maintained)}
	for name, path := range map[string]string{"Maintenance": "/v1/maintenance", "ClusterMaintenance": "/v1/maintenance/shop"} {
		begin, end := "begin"+name+" ", "end"+name+" "
		some := map[string]contract{
			begin + "200": request("PUT", path+"?for=30m", " ").on(referred),
			begin + "202": request("PUT", path+"?wait=all", " ").on(referred).with(func(s *setup) {
				cluster := newTrio()
				cluster.receipt = &api.Receipt{Nodes: 1, Of: 2, Missing: []string{"edge-2"}}
				cluster.in(s)
			}),
			begin + "400": request("PUT", path+"?for=soon", " ").on(referred),
			begin + "413": request("PUT", path, strings.Repeat(" ", kv.MaxValueBytes+1)).on(referred),
			begin + "422": request("PUT", path, `{"enabled":false}`).on(referred),
			end + "200":   request("DELETE", path, "").on(maintained),
			end + "400":   request("DELETE", path+"?local=1&wait=all", ""),
			end + "404":   request("DELETE", path, ""),
			end + "202": request("DELETE", path+"?wait=all", "").on(maintained).with(func(s *setup) {
				cluster := newTrio()
				cluster.receipt = &api.Receipt{Nodes: 1, Of: 2, Missing: []string{"edge-2"}}
				cluster.in(s)
			}),
		}
		for status, err := range map[string]error{"503": kv.ErrReadOnly, "504": &api.UnknownOutcomeError{Err: kv.ErrClosed}, "507": kv.ErrDiskFull} {
			broken := func(s *setup) { s.around = func(l api.Log) api.Log { return unmaintained{l, err} } }
			some[begin+status] = request("PUT", path, " ").on(referred).with(broken)
			some[end+status] = request("DELETE", path, "").on(referred).with(broken)
		}
		maps.Copy(all, some)
	}
	all["beginClusterMaintenance 404"] = request("PUT", "/v1/maintenance/shopp", " ").on(referred)
	return all
}

// maintained is a cluster under maintenance, and the whole gateway.
func maintained(n *node) {
	referred(n)
	n.socket.do("PUT", "/v1/maintenance/shop?for=30m", `{"enabled":true,"reason":"deploy","allow":["10.0.0.0/8"]}`)
	n.socket.do("PUT", "/v1/maintenance", "")
}

func TestMaintenance(t *testing.T) {
	n := startNode(t)
	referred(n)
	done := want[api.MaintenanceChange](t, n.socket.do("PUT", "/v1/maintenance/Shop?for=90s&message=new+disk", "reason:deploy,enabled:on"), 200)
	if done.Cluster != "shop" || done.Scope != "all" || !done.On || done.Rev == "" || done.Applied.Nodes != 1 {
		t.Errorf("got %+v", done)
	}
	row := want[api.MaintenanceList](t, n.tcp.do("GET", "/v1/maintenance", ""), 200).Maintenance[0]
	if left := time.Until(*row.Until); row.Cluster != "shop" || row.Reason != "deploy" || row.By == "" || left > 90*time.Second || left < 60*time.Second {
		t.Errorf("got %+v", row)
	}
	envelope := want[api.Envelope](t, n.tcp.do("GET", "/v1/kv/gateway/maintenance/shop?detail=1", ""), 200)
	if string(envelope.Value) != string(done.Value) || envelope.Reason != "new disk" {
		t.Errorf("got %+v; want %s", envelope, done.Value)
	}
	status := want[api.Status](t, n.tcp.do("GET", "/v1/status", ""), 200)
	if len(status.Maintenance) != 1 || !status.Ready {
		t.Errorf("got %+v", status)
	}
	dry := want[api.MaintenanceChange](t, n.socket.do("PUT", "/v1/maintenance?dryRun=1", ""), 200)
	if !dry.DryRun || len(n.gateway.Table().Maintenance()) != 1 {
		t.Errorf("got %+v", dry)
	}
	done = want[api.MaintenanceChange](t, n.socket.do("DELETE", "/v1/maintenance/shop", ""), 200)
	if done.On || done.Cluster != "shop" || len(n.gateway.Table().Maintenance()) != 0 {
		t.Errorf("got %+v", done)
	}
}

func TestWrongMaintenance(t *testing.T) {
	n := startNode(t)
	referred(n)
	past := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	for _, row := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/v1/maintenance/shopp", "", 404, `there is none (did you mean \"shop\"?)`},
		{"PUT", "/v1/maintenance/a%20b", "", 400, "gateway/maintenance/a b"},
		{"PUT", "/v1/maintenance/shop", "enabled:true,reson:x", 422, `did you mean \"reason\"?`},
		{"PUT", "/v1/maintenance/shop", "off", 422, "DELETE ends a maintenance"},
		{"PUT", "/v1/maintenance/shop", `{"enabled":true,"until":"` + past + `"}`, 422, "has passed"},
		{"PUT", "/v1/maintenance/shop?for=1m", `{"enabled":true,"until":"2999-01-01T00:00:00Z"}`, 400, "give one of them"},
		{"PUT", "/v1/maintenance/shop?for=0s", "", 400, `for \"0s\": must be from 1s`},
		{"PUT", "/v1/maintenance/shop?for=9000h", "", 400, "must be from 1s"},
		{"PUT", "/v1/maintenance/shop?local=1&dryRun=1", "", 400, "dryRun: is for what the cluster writes"},
		{"DELETE", "/v1/maintenance/shop?local=1", "", 404, "no maintenance of its own"},
		{"DELETE", "/v1/maintenance/shop", "", 404, "cluster shop is under no maintenance"},
		{"DELETE", "/v1/maintenance", "", 404, "the whole gateway is under no maintenance"},
	} {
		if r := n.socket.do(row.method, row.path, row.body); r.status != row.status || !strings.Contains(r.body, row.want) {
			t.Errorf("%s %s %s: %d %s; want %d, %s", row.method, row.path, row.body, r.status, r.body, row.status, row.want)
		}
	}
	if rows := n.gateway.Table().Maintenance(); len(rows) != 0 {
		t.Errorf("got %+v", rows)
	}
}

// What is one node's own needs no cluster that can write.
func TestLocalMaintenanceWithoutAQuorum(t *testing.T) {
	n := startNode(t, func(s *setup) { s.around = func(l api.Log) api.Log { return unmaintained{l, quorumLost} } })
	referred(n)
	if r := n.socket.do("PUT", "/v1/maintenance/shop", ""); r.status != http.StatusServiceUnavailable {
		t.Fatal(r)
	}
	done := want[api.MaintenanceChange](t, n.socket.do("PUT", "/v1/maintenance/shop?local=1", `{"enabled":true,"reason":"fire"}`), 200)
	if done.Scope != gateway.ScopeNode || !done.On || done.Rev != "" || done.Applied.Nodes != 1 {
		t.Errorf("got %+v", done)
	}
	rows := want[api.MaintenanceList](t, n.tcp.do("GET", "/v1/maintenance", ""), 200).Maintenance
	if len(rows) != 1 || rows[0].Scope != gateway.ScopeNode || rows[0].By == "" {
		t.Errorf("got %+v", rows)
	}
	if r := n.socket.do("DELETE", "/v1/maintenance/shop", ""); r.status == 200 {
		t.Error(r)
	}
	if done = want[api.MaintenanceChange](t, n.socket.do("DELETE", "/v1/maintenance/shop?local=1", ""), 200); done.On {
		t.Errorf("got %+v", done)
	}
	if got := fmt.Sprint(n.gateway.Table().Maintenance()); got != "[]" {
		t.Error(got)
	}
}
