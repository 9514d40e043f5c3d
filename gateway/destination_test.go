package gateway

import (
	"testing"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// A destination is the same as long as what is configured for it, and for its cluster, is; and goes on with its load
// as long as its address is.
func TestDestinationsThatChange(t *testing.T) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g := New(Options{Source: store, Keeper: store})
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	destinations := func(cluster string) []*destination {
		t.Helper()
		file, err := spec.ParseFiles(spec.Input{Name: "gateway.yaml", Data: []byte("clusters: {c: {" + cluster + "}}")})
		if err == nil {
			err = g.SetStatic(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		return g.Table().clusters.get(clusterPrefix + "c").destinations
	}
	const a, b = "a: {address: 'http://a.test:1'}", "b: {address: 'http://b.test:1', weight: 2}"
	for _, c := range []struct {
		what, cluster string
		same, load    bool // the last of the destinations, which is b
	}{
		{what: "nothing", cluster: "destinations: {" + a + ", " + b + "}", same: true, load: true},
		{what: "one before it", cluster: "destinations: {a: {address: 'http://a.test:2'}, " + b + "}", same: true, load: true},
		{what: "one before it goes", cluster: "destinations: {" + b + "}", same: true, load: true},
		{what: "one before it comes", cluster: "destinations: {" + a + ", aa: {address: 'http://aa.test:1'}, " + b + "}", same: true, load: true},
		{what: "its weight", cluster: "destinations: {" + a + ", b: {address: 'http://b.test:1', weight: 3}}", load: true},
		{what: "its status", cluster: "destinations: {" + a + ", b: {address: 'http://b.test:1', weight: 2, status: degraded}}", load: true},
		{what: "its region", cluster: "destinations: {" + a + ", b: {address: 'http://b.test:1', weight: 2, region: eu}}", load: true},
		{what: "its address", cluster: "destinations: {" + a + ", b: {address: 'http://b.test:2', weight: 2}}"},
		{what: "its id", cluster: "destinations: {" + a + ", z: {address: 'http://b.test:1', weight: 2}}", load: true},
		{what: "the balance", cluster: "loadBalancing: latency, destinations: {" + a + ", " + b + "}", load: true},
		{what: "what takes it out", cluster: "health: {passive: {consecutiveFailures: 3}}, destinations: {" + a + ", " + b + "}", load: true},
	} {
		was := destinations("destinations: {" + a + ", " + b + "}")[1]
		list := destinations(c.cluster)
		now := list[len(list)-1]
		if same, load := was == now, was.load == now.load; same != c.same || load != c.load {
			t.Errorf("%s changes: the same %t, with its load %t; want %t, %t", c.what, same, load, c.same, c.load)
		}
		planned := g.Table().clusters.get(clusterPrefix + "c").planned.destinations[len(list)-1]
		if now.weight != planned.weight || now.status != planned.status || now.region != planned.region || now.id != planned.address {
			t.Errorf("%s changes: %+v is made of %+v", c.what, now, planned)
		}
	}
}
