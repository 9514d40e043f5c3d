package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Whatever is announced, withdrawn and written, what is served is what a naive
// reading of all there is makes of it, and a table made from changes is the one that
// is made from nothing.
func TestAnnouncedModel(t *testing.T) {
	static, err := spec.ParseFiles(spec.Input{Name: "f.yaml", Data: []byte("routes: {r0: {path: /s, backends: ['http://static:1']}}")})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		store, err := kv.Open(kv.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		own, err := store.Own("node1")
		if err != nil {
			t.Fatal(err)
		}
		g := New(Options{Source: store, Keeper: store, Static: static})
		if err := g.Load(); err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		m := &model{lingering: map[string]bool{}}
		var seq uint64
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				changeSomething(t, store, own, &seq)
			}
			g.refresh()
			m.check(t, g, store.View())
			again := *static // another file: all is judged anew
			anew := newPlan(g.live, &again, store.View(), g.lastGood)
			samePlan(t, g.live, anew)
			table, _ := compile(nil, anew, newEstate(newMetrics(nil), "", slog.New(slog.DiscardHandler), nil, nil), chainOptions{})
			sameTable(t, g.Table(), table)
			g.estate.check(t, g.Table())
		}
	})
}

// changeSomething makes one random change of either plane.
func changeSomething(t *rapid.T, store *kv.Store, own *kv.Own, seq *uint64) {
	id := rapid.SampledFrom([]string{"r0", "r1", "r2"}).Draw(t, "route")
	key := kv.Key(instancePrefix + id + "/" + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "instance"))
	value := fmt.Appendf(nil, `{"path":%q,"address":"http://h%d:1","version":%q,"requireAuth":%t}`,
		rapid.SampledFrom([]string{"/a/{**rest}", "/b", "/a/b"}).Draw(t, "path"), rapid.IntRange(1, 5).Draw(t, "address"),
		rapid.SampledFrom([]string{"", "1.0.0", "1.10.0"}).Draw(t, "version"), rapid.IntRange(0, 7).Draw(t, "auth") == 0)
	switch rapid.IntRange(0, 8).Draw(t, "what") {
	case 0, 1, 2:
		must(t, own.Put(key, value))
	case 3:
		must(t, own.Drain(key))
	case 4:
		must(t, own.Withdraw(key))
	case 5:
		store.SetOwner("node2", kv.OwnerActive)
		*seq++
		op := kv.OwnerOp{Seq: *seq, Key: key, Value: value, Deleted: rapid.Bool().Draw(t, "deleted")}
		if op.Deleted {
			op.Value = nil
		}
		_, _, err := store.ApplyOwned([][]byte{kv.AppendOwnerChange(nil, kv.OwnerChange{Owner: "node2", Incarnation: 1, From: *seq - 1, Seq: *seq, Ops: []kv.OwnerOp{op}})})
		must(t, err)
	case 6:
		store.SetOwner("node2", rapid.SampledFrom([]kv.OwnerState{kv.OwnerActive, kv.OwnerOrphaned, kv.OwnerHidden}).Draw(t, "state"))
	case 7:
		write(t, store, kv.Key(routePrefix+id), rapid.SampledFrom([]string{
			"", `{"path":"/o","backends":["http://operator:1"]}`, `{"path":"/o","cluster":"r1"}`, `{"enabled":false}`,
			`{"path":"/a/{**rest}","backends":["http://operator:1"],"requireAuth":true}`,
		}).Draw(t, "value"))
	case 8:
		write(t, store, kv.Key(clusterPrefix+id), rapid.SampledFrom([]string{
			"", `{"loadBalancing":"random"}`, `{"destinations":{"x":"http://cluster:1"}}`, `{"surplus":1}`,
		}).Draw(t, "value"))
	}
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *rapid.T, store *kv.Store, key kv.Key, value string) {
	op := kv.Put(key, []byte(value))
	if value == "" {
		op = kv.Delete(key)
	}
	commit, _, err := store.View().Resolve(kv.Txn{Then: []kv.Op{op}})
	must(t, err)
	if len(commit.Effects) > 0 {
		must(t, store.Merge(commit))
	}
}

// model reads everything each time.
type model struct{ lingering map[string]bool }

type word struct {
	Path, Address, Version string
	RequireAuth            bool
	key                    string
	own                    kv.Ownership
}

func (s word) id() string { return idOf(s.key) }

// check holds the announced routes, and the destinations of announced clusters,
// against the table.
func (m *model) check(t *rapid.T, g *Gateway, view kv.View) {
	t.Helper()
	all, byAddress := map[string][]word{}, map[string][]word{}
	for entry := range view.Under("gateway/instances") {
		s := word{key: string(entry.Key), own: *entry.Own}
		must(t, json.Unmarshal(entry.Value, &s))
		id := strings.Split(s.key, "/")[2]
		all[id], byAddress[s.Address] = append(all[id], s), append(byAddress[s.Address], s)
	}
	for _, id := range []string{"r0", "r1", "r2"} {
		serving := agreeing(slices.DeleteFunc(slices.Clone(all[id]), func(s word) bool {
			newest := slices.MinFunc(byAddress[s.Address], latest)
			return newest.key != s.key && (newest.id() != s.id() || newest.own.Owner != s.own.Owner)
		}))
		var want []string
		for _, s := range serving {
			want = append(want, s.Address)
		}
		if len(want) > 0 {
			m.lingering[id] = true
		}
		_, operator := view.Get(kv.Key(routePrefix + id))
		wantLayer := ""
		switch {
		case operator:
			wantLayer = layerOperator
		case len(want) > 0:
			wantLayer = layerAnnounced
		case id == "r0":
			wantLayer = layerStatic
		case m.lingering[id]:
			wantLayer = layerAnnounced
		}
		r := g.Table().routes.get(routePrefix + id)
		gotLayer := ""
		if v := g.live.verdicts.get(routePrefix + id); r != nil {
			gotLayer = r.planned.layer
		} else if v != nil && operator { // not enabled
			gotLayer = layerOperator
		}
		if gotLayer != wantLayer {
			t.Fatalf("route %s is %q; want %q", id, gotLayer, wantLayer)
		}
		if gotLayer == layerAnnounced && len(serving) > 0 && (pathOf(r.planned.spec) != serving[0].Path || serving[0].RequireAuth && !r.planned.blocked) {
			t.Fatalf("route %s takes %s, blocked %t; want %+v", id, pathOf(r.planned.spec), r.planned.blocked, serving[0])
		}
		c := g.Table().clusters.get(clusterPrefix + id)
		if c == nil || c.planned.layer != layerAnnounced {
			continue
		}
		var got []string
		for _, d := range c.destinations {
			got = append(got, d.address)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("cluster %s has %v; want %v", id, got, want)
		}
	}
}

// latest orders claims of an address.
func latest(a, b word) int {
	if a.own.Orphaned != b.own.Orphaned {
		if b.own.Orphaned {
			return -1
		}
		return 1
	}
	return -cmp.Or(a.own.Mark.Compare(b.own.Mark), cmp.Compare(a.own.Owner, b.own.Owner), cmp.Compare(a.key, b.key))
}

// agreeing are those that agree with the best definition.
func agreeing(sound []word) (members []word) {
	type definition struct {
		path string
		auth bool
	}
	score := func(d definition) (score [4]string) {
		stays, version, n, lowest := 1, "", 0, "z"
		for _, s := range sound {
			if d != (definition{s.Path, s.RequireAuth}) {
				continue
			}
			if n++; !s.own.Draining {
				stays = 0
			}
			version, lowest = max(version, s.Version), min(lowest, s.id())
		}
		invert := map[string]string{"1.10.0": "0", "1.0.0": "1", "": "2"} // as texts 1.10.0 is above 1.0.0 too
		return [4]string{fmt.Sprint(stays), invert[version], fmt.Sprint(9 - n), lowest}
	}
	var best definition
	for i, s := range sound {
		d := definition{s.Path, s.RequireAuth}
		a, b := score(d), score(best)
		if i == 0 || slices.Compare(a[:], b[:]) < 0 {
			best = d
		}
	}
	for _, s := range sound {
		if best == (definition{s.Path, s.RequireAuth}) {
			members = append(members, s)
		}
	}
	return members
}
