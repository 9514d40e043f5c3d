package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/kv"
)

// announcer writes instances as a node does.
type announcer struct {
	*fixture
	t   *testing.T
	own *kv.Own
}

const ownNode = "node1"

func announceTo(t *testing.T, f *fixture) *announcer {
	t.Helper()
	own, err := f.store.Own(ownNode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.Begin(0); err != nil {
		t.Fatal(err)
	}
	return &announcer{f, t, own}
}

func instanceKey(name string) kv.Key { return kv.Key("gateway/instances/" + name) }

// values is an instance's value; pairs are further fields and their JSON.
func values(path, address string, pairs ...string) string {
	v := fmt.Sprintf(`{"path":%q,"address":%q`, path, address)
	for i := 0; i < len(pairs); i += 2 {
		v += fmt.Sprintf(`,%q:%s`, pairs[i], pairs[i+1])
	}
	return v + "}"
}

func (a *announcer) announce(name, path, address string, pairs ...string) {
	a.t.Helper()
	a.do(a.own.Put(instanceKey(name), []byte(values(path, address, pairs...))))
}

func (a *announcer) drain(name string) {
	a.t.Helper()
	a.do(a.own.Drain(instanceKey(name)))
}

func (a *announcer) withdraw(name string) {
	a.t.Helper()
	a.do(a.own.Withdraw(instanceKey(name)))
}

// do waits until what was done is served.
func (a *announcer) do(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	if err := a.gateway.WaitOwned(ctx, ownNode, a.own.Mark()); err != nil {
		a.t.Fatal(err)
	}
}

// other is another owner, whose changes come as from another node.
func (a *announcer) other(owner kv.OwnerID, seq uint64, ops ...kv.OwnerOp) {
	a.t.Helper()
	a.store.SetOwner(owner, kv.OwnerActive)
	for i := range ops {
		ops[i].Seq = seq - uint64(len(ops)-1-i)
	}
	change := kv.OwnerChange{Owner: owner, Incarnation: 1, From: seq - uint64(len(ops)), Seq: seq, Ops: ops}
	if _, gap, err := a.store.ApplyOwned([][]byte{kv.AppendOwnerChange(nil, change)}); err != nil || gap {
		a.t.Fatal(gap, err)
	}
	a.settle()
}

// settle waits until the table is of the view of now.
func (a *announcer) settle() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	if err := a.gateway.WaitOwned(ctx, "nobody", kv.OwnerMark{}); err != nil {
		a.t.Fatal(err)
	}
}

// served are the backends that answer n requests, once each, in order.
func (a *announcer) served(target string, n int) (names []string) {
	a.t.Helper()
	for range n {
		name := a.get(target).seen(a.t).Backend
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (a *announcer) serve(target string, n int, want ...string) {
	a.t.Helper()
	if got := a.served(target, n); !slices.Equal(got, want) {
		a.t.Errorf("%s is served by %v; want %v", target, got, want)
	}
}

func (a *announcer) instance(name string) gateway.InstanceStatus {
	a.t.Helper()
	for _, s := range a.gateway.Instances() {
		if s.Key == instanceKey(name) {
			return s
		}
	}
	a.t.Fatalf("no instance %s in %+v", name, a.gateway.Instances())
	return gateway.InstanceStatus{}
}

// One route per route id, one destination per instance, in turn (P-26).
func TestInstancesMakeARoute(t *testing.T) {
	a := announceTo(t, start(t, ""))
	a.get("/warehouse").problem(t, 404, "no_route")
	a.announce("warehouse/a", "/warehouse/{**rest}", backend(t, "a"), "pathRemovePrefix", `"/warehouse"`, "version", `"1.2.0"`)
	if got := a.get("/warehouse/x?y").seen(t); got.Backend != "a" || got.Target != "/x?y" {
		t.Errorf("backend got %+v", got)
	}
	a.announce("warehouse/b", "/warehouse/{**rest}", backend(t, "b"), "pathRemovePrefix", `"/warehouse"`)
	a.serve("/warehouse/x", 4, "a", "b")
	row := a.row(t, "warehouse", "announced")
	if row.State != "live" || row.Target != "cluster warehouse" || row.Rev != "" {
		t.Errorf("row %+v", row)
	}
	c, found := a.gateway.Table().Cluster("warehouse")
	if !found || c.Source != "announced" || len(c.Destinations) != 2 || c.Destinations[0].Version != "1.2.0" || c.Destinations[0].Instance != "a" {
		t.Errorf("cluster %+v", c)
	}
	e, err := a.gateway.Table().Explain(gateway.Question{URL: "/warehouse/x"})
	if err != nil || e.Route != "warehouse" || e.Candidates[0].Source != "announced" {
		t.Errorf("explained as %+v, %v", e, err)
	}
	a.withdraw("warehouse/a")
	a.serve("/warehouse/x", 4, "b")
	effective, notices := a.gateway.Effective("warehouse")
	if want := `{"cluster":"warehouse","path":"/warehouse/{**rest}","pathRemovePrefix":"/warehouse"}`; string(effective) != want || len(notices) > 0 {
		t.Errorf("effective %s %v; want %s", effective, notices, want)
	}
}

// Operator over announced over static, with fall-through both ways (P-29).
func TestAnnouncedPrecedence(t *testing.T) {
	a := announceTo(t, start(t, static("r", "/r", backend(t, "static"))))
	a.serve("/r", 1, "static")
	a.announce("r/1", "/r", backend(t, "announced"))
	a.serve("/r", 1, "announced")
	if row := a.row(t, "r", "static"); row.State != "shadowed" || row.Problem != "instances announce the route of this id" {
		t.Errorf("static row %+v", row)
	}
	a.put("gateway/routes/r", route("/r", backend(t, "operator")))
	a.serve("/r", 2, "operator")
	if s := a.instance("r/1"); s.Serves || !strings.Contains(s.Why, "operator") {
		t.Errorf("instance %+v; want hidden by the operator", s)
	}
	if rows := []gateway.RouteStatus{a.row(t, "r", "static"), a.row(t, "r", "announced")}; rows[0].State != "shadowed" || rows[1].State != "shadowed" {
		t.Errorf("rows %+v", rows)
	}
	a.withdraw("r/1")
	a.serve("/r", 1, "operator")
	a.announce("r/1", "/r", backend(t, "announced"))
	a.put("gateway/routes/r", `{"enabled":false}`)
	a.get("/r").problem(t, 404, "no_route")
	a.delete("gateway/routes/r")
	a.serve("/r", 1, "announced")
	a.withdraw("r/1")
	a.serve("/r", 1, "static") // at once: there is no linger where something shows through (C-13)
}

// An operator's route and an operator's policy may use the announced instances.
func TestOperatorNamesInstances(t *testing.T) {
	a := announceTo(t, start(t, "clusters: {c: {destinations: {s: '"+backend(t, "static")+"'}}}"))
	a.put("gateway/routes/pinned", `{"path":"/pinned","cluster":"c"}`)
	a.serve("/pinned", 1, "static")
	a.announce("c/1", "/c", backend(t, "announced"))
	a.serve("/pinned", 2, "announced")
	a.put("gateway/clusters/c", `{"loadBalancing":"random","allowDegraded":false}`)
	a.serve("/c", 2, "announced")
	a.serve("/pinned", 2, "announced")
	if c, _ := a.gateway.Table().Cluster("c"); c.Balancing != "random" || c.Source != "announced" {
		t.Errorf("cluster %+v", c)
	}
	a.put("gateway/clusters/c", `{"destinations":{"o":"`+backend(t, "operator")+`"}}`)
	a.serve("/c", 2, "operator")
	a.serve("/pinned", 2, "operator")
	if s := a.instance("c/1"); s.Serves || !strings.Contains(s.Why, "operator") {
		t.Errorf("instance %+v", s)
	}
	if _, notices := a.gateway.Effective("c"); len(notices) != 1 || !strings.Contains(notices[0], "1 instances announce themselves for it too") {
		t.Errorf("notices %q", notices)
	}
	a.delete("gateway/clusters/c")
	a.serve("/pinned", 1, "announced")
	if err := a.check(kv.Put("gateway/routes/p2", []byte(`{"path":"/p2","cluster":"c"}`))); err != nil {
		t.Error(err)
	}
	a.put("gateway/routes/c", `{"enabled":false}`) // the route, not its instances
	a.get("/c").problem(t, 404, "no_route")
	a.serve("/pinned", 1, "announced")
	if s := a.instance("c/1"); !s.Serves {
		t.Errorf("instance %+v; want it to serve /pinned", s)
	}
}

// What this version can't guard is not served, and no announcement opens what an
// operator has guarded.
func TestAnnouncedAccess(t *testing.T) {
	a := announceTo(t, start(t, ""))
	a.announce("auth/1", "/auth", backend(t, "auth"), "requireAuth", "true")
	a.announce("claims/1", "/claims", backend(t, "claims"), "claims", `[{"type":"role","value":"admin"}]`)
	a.announce("open/1", "/open", backend(t, "open"), "allowAnonymous", "true")
	a.get("/auth").problem(t, 503, "route_quarantined")
	a.get("/claims").problem(t, 503, "route_quarantined")
	a.serve("/open", 1, "open")
	if s := a.instance("auth/1"); s.Serves || !strings.Contains(s.Why, "requireAuth") {
		t.Errorf("instance %+v", s)
	}
	if row := a.row(t, "auth", "announced"); row.State != "invalid" || !strings.Contains(row.Problem, "requireAuth: this version") {
		t.Errorf("row %+v", row)
	}
	if err := a.gateway.SetStatic(parse(t, "")); err != nil {
		t.Errorf("a file is refused for what somebody announced: %v", err)
	}
	// An operator's route that says nothing does not open what the instances guard.
	a.put("gateway/routes/pin", `{"path":"/pin","cluster":"auth"}`)
	a.get("/pin").problem(t, 503, "route_quarantined")
	a.put("gateway/routes/pin", `{"path":"/pin","cluster":"auth","allowAnonymous":true}`)
	a.serve("/pin", 1, "auth")
	// An operator's guarded path is not opened below.
	a.put("gateway/routes/admin", `{"path":"/admin/{**rest}","backends":["http://127.0.0.1:1"],"requireAuth":true}`)
	a.announce("hole/1", "/admin/users/{**rest}", backend(t, "hole"))
	a.get("/admin/users/1").problem(t, 503, "route_quarantined")
	if s := a.instance("hole/1"); s.Serves || !strings.Contains(s.Why, `route "admin"`) {
		t.Errorf("instance %+v", s)
	}
	a.delete("gateway/routes/admin")
	a.serve("/admin/users/1", 1, "hole")
	a.put("gateway/routes/admin", `{"path":"/admin/{**rest}","backends":["http://127.0.0.1:1"],"auth":{}}`)
	a.get("/admin/users/1").problem(t, 503, "route_quarantined")
	// Nobody announces the root, and what is announced is read as anything else.
	a.announce("root/1", "/{any}/x", backend(t, "root"))
	a.announce("root/2", "/root", backend(t, "root"), "surplus", "1")
	a.announce("root/3", "/root", backend(t, "root"), "tunnel", "true")
	a.get("/root/x").problem(t, 404, "no_route")
	a.get("/root").problem(t, 404, "no_route")
	for name, why := range map[string]string{"root/1": "root", "root/2": "surplus", "root/3": "tunnel"} {
		if s := a.instance(name); s.Serves || !strings.Contains(s.Why, why) {
			t.Errorf("instance %+v; want %s", s, why)
		}
	}
	a.announce("probe/1", "/ready", backend(t, "probe"))
	if got := a.get("/ready"); !strings.Contains(got.body, `"ready"`) {
		t.Errorf("a probe was answered with %d %q", got.StatusCode, got.body)
	}
}

// Instances that disagree are resolved alike on every node, and reported.
func TestConflictingInstances(t *testing.T) {
	a := announceTo(t, start(t, ""))
	type announced struct{ id, path, version, started string }
	for _, tt := range []struct {
		name      string
		instances []announced
		winner    string // path
	}{
		{"highest version", []announced{{"a", "/old", "1.9.0", ""}, {"b", "/old", "1.9.0", ""}, {"c", "/new", "1.10.0", ""}}, "/new"},
		{"no version is the lowest", []announced{{"a", "/none", "", ""}, {"b", "/none", "today", ""}, {"c", "/pre", "1.0.0-rc.1", ""}}, "/pre"},
		{"a release is above its candidates", []announced{{"a", "/rc", "2.0.0-rc.1", ""}, {"b", "/release", "v2.0.0", ""}}, "/release"},
		{"the most", []announced{{"a", "/one", "1.0.0", ""}, {"b", "/two", "1.0.0", ""}, {"c", "/two", "0.1.0", ""}}, "/two"},
		{"the youngest", []announced{{"a", "/first", "", "2026-01-01T00:00:00Z"}, {"b", "/last", "", "2026-01-01T00:00:00.5Z"}}, "/last"},
		{"the lowest id", []announced{{"b", "/b", "", ""}, {"a", "/a", "", ""}}, "/a"},
	} {
		agree := 0
		for _, i := range tt.instances {
			fields := []string{"version", fmt.Sprintf("%q", i.version)}
			if i.started != "" {
				fields = append(fields, "startedAt", fmt.Sprintf("%q", i.started))
			}
			a.announce("r/"+i.id, i.path, "http://"+i.id+".test:1", fields...)
			if i.path == tt.winner {
				agree++
			}
		}
		row := a.row(t, "r", "announced")
		c, _ := a.gateway.Table().Cluster("r")
		if row.Path != tt.winner || len(c.Destinations) != agree {
			t.Errorf("%s: %s by %d; want %s by %d", tt.name, row.Path, len(c.Destinations), tt.winner, agree)
		}
		for _, i := range tt.instances {
			if s := a.instance("r/" + i.id); s.Serves != (i.path == tt.winner) || !s.Serves && !strings.Contains(s.Why, "announces "+tt.winner) {
				t.Errorf("%s: %+v", tt.name, s)
			}
		}
		a.metric(t, `grapevine_announced_excluded_instances{route="r"}`, float64(len(tt.instances)-agree))
		notices := a.gateway.Table().Notices()
		if len(notices) != 1 || notices[0].Key != "gateway/instances/r" || !strings.Contains(notices[0].Problem, "get no requests") {
			t.Errorf("%s: notices %v", tt.name, notices)
		}
		for _, i := range tt.instances {
			a.withdraw("r/" + i.id)
		}
		a.metric(t, `grapevine_announced_excluded_instances{route="r"}`, -1)
	}
}

// Those that agree on what matters stay, and one that leaves does not decide for
// those who stay.
func TestAgreeingInstances(t *testing.T) {
	a := announceTo(t, start(t, ""))
	a.announce("r/a", "/r/{**rest}", backend(t, "a"), "version", `"1.0.0"`, "description", `"old"`)
	a.announce("r/b", "/r/{**all}", backend(t, "b"), "version", `"2.0.0"`, "description", `"new"`)
	a.serve("/r/x", 4, "a", "b")
	if effective, _ := a.gateway.Effective("r"); !strings.Contains(string(effective), `"new"`) {
		t.Errorf("effective %s; want that of the higher version", effective)
	}
	a.announce("r/c", "/s", backend(t, "c"), "version", `"3.0.0"`)
	a.serve("/s", 2, "c")
	a.drain("r/c")
	a.serve("/r/x", 4, "a", "b")
}

// An address belongs to who announced it last, whatever its route and owner.
func TestAddressIsAnnouncedAnew(t *testing.T) {
	a := announceTo(t, start(t, ""))
	address := backend(t, "moved")
	old := func(second int) (field, value string) {
		return "startedAt", fmt.Sprintf(`"2026-01-01T00:00:0%dZ"`, second)
	}
	one, two := func() (string, string) { return old(1) }, func() (string, string) { return old(2) }
	f, v := one()
	a.announce("old/1", "/old", address, f, v)
	a.serve("/old", 1, "moved")
	f, v = two()
	a.announce("new/2", "/new", address, f, v)
	a.serve("/new", 1, "moved")
	a.get("/old").problem(t, 503, "no_destination") // it lingers
	if s := a.instance("old/1"); s.Serves || s.Why != "instance new/2 has announced its address since" {
		t.Errorf("%+v", s)
	}
	a.withdraw("new/2")
	a.serve("/old", 1, "moved")
	// Another node's counts too, and of what is orphaned nothing does.
	a.other("node2", 1, kv.OwnerOp{Key: instanceKey("new/2"), Value: []byte(values("/new", address, f, v))})
	a.serve("/new", 1, "moved")
	a.store.SetOwner("node2", kv.OwnerOrphaned)
	a.settle()
	a.serve("/old", 1, "moved")
	// One process may serve several routes.
	a.announce("other/1", "/other", address)
	a.serve("/other", 1, "moved")
	a.serve("/old", 1, "moved")
}

// Weights and states reach the picker; orphans come behind the living.
func TestInstanceStates(t *testing.T) {
	a := announceTo(t, start(t, ""))
	a.announce("r/a", "/r", backend(t, "a"), "weight", "3")
	a.announce("r/b", "/r", backend(t, "b"), "weight", "1")
	counts := map[string]int{}
	for range 8 {
		counts[a.get("/r").seen(t).Backend]++
	}
	if counts["a"] != 6 || counts["b"] != 2 {
		t.Errorf("%v; want 3 to 1", counts)
	}
	a.announce("r/a", "/r", backend(t, "a"), "status", `"degraded"`)
	a.serve("/r", 4, "b")
	a.announce("r/b", "/r", backend(t, "b"), "status", `"unhealthy"`)
	a.serve("/r", 4, "a")
	a.withdraw("r/b")
	a.other("node2", 1, kv.OwnerOp{Key: instanceKey("r/c"), Value: []byte(values("/r", backend(t, "c")))})
	a.serve("/r", 4, "c")
	a.store.SetOwner("node2", kv.OwnerOrphaned)
	a.settle()
	a.serve("/r", 4, "a")
	if s := a.instance("r/c"); !s.Orphaned || !s.Serves {
		t.Errorf("%+v; want an orphan that serves", s)
	}
	a.drain("r/a")
	a.serve("/r", 4, "c")
	a.store.SetOwner("node2", kv.OwnerHidden)
	a.settle()
	a.serve("/r", 4, "a") // better than 503
	a.announce("r/a", "/r", backend(t, "a"))
	a.announce("r/b", "/r", backend(t, "b"), "weight", "0")
	a.serve("/r", 4, "a")
}

// A node prefers the instances of its own region.
func TestInstancesOfTheRegion(t *testing.T) {
	a := announceTo(t, startWith(t, storeOf(t), gateway.Options{Region: "eu"}))
	a.announce("r/a", "/r", backend(t, "a"), "region", `"us"`)
	a.announce("r/b", "/r", backend(t, "b"), "region", `"eu"`)
	a.serve("/r", 4, "b")
	a.drain("r/b")
	a.serve("/r", 4, "a")
}

// The only instance goes and comes back (O26).
func TestLastInstanceComesBack(t *testing.T) {
	a := announceTo(t, start(t, ""))
	address := backend(t, "a")
	a.announce("r/1", "/r", address)
	a.serve("/r", 1, "a")
	a.withdraw("r/1")
	got := a.get("/r")
	got.problem(t, 503, "no_destination")
	if got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	row := a.row(t, "r", "announced")
	if row.State != "invalid" || !strings.Contains(row.Problem, "its last instance is gone") {
		t.Errorf("row %+v", row)
	}
	if err := a.gateway.SetStatic(parse(t, "routes: {s: {path: /s, backends: ['"+address+"']}}")); err != nil {
		t.Fatal(err)
	}
	a.get("/r").problem(t, 503, "no_destination") // also when everything is made anew
	added := time.Now()
	a.announce("r/2", "/r", address)
	a.serve("/r", 1, "a")
	if took := time.Since(added); took > time.Second {
		t.Errorf("served %v after it was added", took)
	}
}
