package gateway

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// drawValue makes the value of a key out of few words, good ones and bad ones,
// so that routes and clusters meet.
func drawValue(t *rapid.T, key string) string {
	one := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	if idOf(key) == "timeouts" {
		return one("timeouts", `{"timeout":"1s"}`, `{"timeout":"2s"}`, `{"timeout":"never"}`)
	}
	if strings.HasPrefix(key, clusterPrefix) {
		return one("cluster", `{}`, `{"destinations":{"a":"http://h:1"}}`, `{"destinations":{"a":"http://h:1","b":"http://h:2"},"loadBalancing":"random"}`,
			`{"bad":1}`, `{"affinity":{"cookie":"c"},"destinations":{"a":"http://h:1"}}`, `{"tls":{"serverName":"h"}}`)
	}
	route := map[string]any{"path": one("path", "/a", "/a/{x}", "/{**r}", "/b")}
	switch one("target", "backends", "cluster", "redirect", "bad", "auth", "split") {
	case "backends":
		route["backends"] = []string{one("backend", "http://h:1", "http://h:3")}
	case "cluster":
		route["cluster"] = one("name", "x", "y", "z")
	case "split":
		route["split"] = []map[string]any{{"cluster": one("name", "x", "y"), "weight": 1}, {"cluster": "z", "weight": 2}}
	case "redirect":
		route["redirect"] = map[string]any{"to": "/b"}
	case "bad":
		route["bad"] = true
	case "auth":
		route["backends"], route["requireAuth"] = []string{"http://h:1"}, true
	}
	if one("enabled", "", "", "", "no") == "no" {
		route["enabled"] = false
	}
	value, err := json.Marshal(route)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

var planKeys = []string{
	"gateway/routes/x", "gateway/routes/y", "gateway/routes/s", "gateway/routes/t",
	"gateway/clusters/x", "gateway/clusters/y", "gateway/clusters/z", "gateway/config/timeouts",
}

const planStatic = `
routes:
  s: {path: /s, backends: ['http://h:9']}
  y: {path: /y, cluster: z}
clusters:
  z: {destinations: {a: 'http://h:8'}}
`

// A plan that was made from what changed is the one that is made from nothing,
// and so is its table.
func TestPlanFromChanges(t *testing.T) {
	static, err := spec.ParseFiles(spec.Input{Name: "f.yaml", Data: []byte(planStatic)})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		g := New(Options{Source: store, Keeper: store, Static: static})
		defer g.Close()
		if err := g.Load(); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			var ops []kv.Op
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(planKeys), 1, 3, rapid.ID).Draw(t, "keys") {
				if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
					ops = append(ops, kv.Delete(kv.Key(key)))
				} else {
					ops = append(ops, kv.Put(kv.Key(key), []byte(drawValue(t, key))))
				}
			}
			commit, _, err := store.View().Resolve(kv.Txn{Then: ops})
			if err == nil && len(commit.Effects) > 0 { // deleting what is not there is no change
				err = store.Merge(commit)
			}
			if err != nil {
				t.Fatal(err)
			}
			anew := newPlan(nil, static, store.View(), g.lastGood)
			g.refresh()
			samePlan(t, g.live, anew)
			table, _ := compile(nil, anew, newEstate(newMetrics(nil), "", slog.New(slog.DiscardHandler), nil, nil), chainOptions{})
			sameTable(t, g.Table(), table)
			g.estate.check(t, g.Table())
		}
	})
}

func samePlan(t *rapid.T, got, want *plan) {
	t.Helper()
	if got.hash() != want.hash() || got.counts != want.counts {
		t.Fatalf("hash %s and %+v; want %s and %+v", got.hash(), got.counts, want.hash(), want.counts)
	}
	if !reflect.DeepEqual(identities(got.faults()), identities(want.faults())) || !reflect.DeepEqual(got.notices(), want.notices()) {
		t.Fatalf("faults %v, notices %v\nwant %v\nand %v", got.faults(), got.notices(), want.faults(), want.notices())
	}
	if g, w := maps.Collect(got.users.under("")), maps.Collect(want.users.under("")); !maps.Equal(g, w) {
		t.Fatalf("users %v; want %v", g, w)
	}
	for key, v := range want.verdicts.under("") {
		if now := got.verdicts.get(key); now == nil || now.sum != v.sum || now.good != nil && v.good != nil && now.good.rev != v.good.rev {
			t.Fatalf("%s: %+v; want %+v", key, now, v)
		}
	}
	if got.verdicts.len() != want.verdicts.len() || got.decoded.len() != want.decoded.len() || got.troubled.len() != want.troubled.len() {
		t.Fatalf("%d verdicts on %d keys, %d troubled; want %d, %d, %d", got.verdicts.len(), got.decoded.len(), got.troubled.len(),
			want.verdicts.len(), want.decoded.len(), want.troubled.len())
	}
	if !reflect.DeepEqual(got.settings.timeouts, want.settings.timeouts) {
		t.Fatalf("timeouts %+v; want %+v", got.settings.timeouts, want.settings.timeouts)
	}
}

func identities(faults spec.Faults) (all spec.Faults) {
	for _, f := range faults {
		all = append(all, identity(f))
	}
	return all
}

func sameTable(t *rapid.T, got, want *Table) {
	t.Helper()
	if !reflect.DeepEqual(got.Routes(), want.Routes()) {
		t.Fatalf("routes %+v\nwant %+v", got.Routes(), want.Routes())
	}
	for _, path := range []string{"/", "/a", "/a/b", "/b", "/s", "/y", "/c/d/e"} {
		ask := routing.Request{Method: "GET", Path: []byte(path)}
		g, w := routeOf(got.trie.Match(&ask)), routeOf(want.trie.Match(&ask))
		if describeRoute(g) != describeRoute(w) {
			t.Fatalf("%s goes to %s; want %s", path, describeRoute(g), describeRoute(w))
		}
	}
	if got.routes.len() != want.routes.len() || got.clusters.len() != want.clusters.len() {
		t.Fatalf("%d routes, %d clusters; want %d, %d", got.routes.len(), got.clusters.len(), want.routes.len(), want.clusters.len())
	}
}

// describeRoute is all that a request would notice.
func describeRoute(r *route) string {
	if r == nil {
		return "none"
	}
	text := fmt.Sprint(r.id, " ", r.planned.layer, r.planned.serving, r.way.bounds, r.way.total, r.answer != nil)
	if r.way.retry != nil {
		text += fmt.Sprintf(" %+v", *r.way.retry)
	}
	if r.limits != nil {
		text += fmt.Sprint(" ", r.limits.most, r.limits.body)
	}
	if r.split != nil {
		for _, p := range r.split.parts {
			text += fmt.Sprint(" part ", p.cluster.name())
		}
	}
	if r.cluster != nil {
		text += " " + r.cluster.planned.balancing()
		if g := r.cluster.guard; g != nil {
			text += fmt.Sprintf(" %+v %v", g.breaker.Policy(), g.failing)
		}
		for _, d := range r.cluster.destinations {
			text += fmt.Sprint(" ", d.address, d.weight)
		}
	}
	return text
}

// check holds the estate against the clusters that are live.
func (e *estate) check(t *rapid.T, table *Table) {
	t.Helper()
	pools, states := map[spec.Address]int{}, map[string]int{}
	count := func(c *cluster) {
		states[c.id]++
		for _, d := range c.destinations {
			pools[d.id]++
		}
	}
	for _, c := range table.clusters.under("") {
		count(c)
	}
	for _, r := range table.routes.under("") {
		if r.cluster != nil && !r.planned.cluster.named {
			count(r.cluster)
		}
	}
	users := func(n int) string { return fmt.Sprint(n) }
	var got, want []string
	for address, n := range pools {
		want = append(want, string(address)+users(n))
	}
	for address, tenure := range e.pools {
		got = append(got, string(address)+users(tenure.users))
		if tenure.thing.retired.Load() {
			t.Fatalf("the pool of %s is retired", address)
		}
	}
	for id, n := range states {
		want = append(want, id+users(n))
	}
	for id, tenure := range e.states {
		got = append(got, id+users(tenure.users))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("estate has %v; live are %v", got, want)
	}
}
