package gateway

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"grapevine/kv"
)

// A change of one instance among many, 10,000 in the long run, touches its route
// alone.
func TestOneOfManyInstances(t *testing.T) {
	instances := 1_000
	if os.Getenv("GRAPEVINE_LONG") != "" {
		instances = 10_000
	}
	for _, routes := range []int{instances / 10, 1} {
		store, put := announceMany(t, instances, routes)
		own, err := store.Own("node1")
		if err != nil {
			t.Fatal(err)
		}
		key := func(i int) kv.Key { return manyKey(i, routes) }
		g := New(Options{Source: store, Keeper: store})
		started := time.Now()
		if err := g.Load(); err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		t.Logf("%d routes: the first table took %v", routes, time.Since(started))
		var least time.Duration
		for i := range 20 {
			switch i % 3 {
			case 0:
				put(i, 2)
			case 1:
				if err := own.Drain(key(i)); err != nil {
					t.Fatal(err)
				}
			default:
				if err := own.Withdraw(key(i)); err != nil {
					t.Fatal(err)
				}
			}
			was := g.Table().clusters.get(clusterPrefix + fmt.Sprintf("r%d", i%routes)).destinations
			started := time.Now()
			g.refresh()
			if took := time.Since(started); least == 0 || took < least {
				least = took
			}
			if n := len(g.live.changes); n != 3 { // its fleet, cluster and route
				t.Fatalf("%d verdicts changed; want 3: %v", n, g.live.changes)
			}
			made := 0
			for _, d := range g.Table().clusters.get(clusterPrefix + fmt.Sprintf("r%d", i%routes)).destinations {
				if !slices.Contains(was, d) {
					made++
				}
			}
			if want := 1 - i%3/2; made != want { // none for one that is withdrawn
				t.Errorf("%d destinations were made; want %d", made, want)
			}
		}
		t.Logf("%d routes: a change took %v", routes, least)
		before := g.Table()
		if err := own.Put("gateway/health/x", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if g.refresh(); g.Table() != before {
			t.Error("a key that is no concern of the gateway's made a table")
		}
		if !g.view.Is(store.View()) {
			t.Error("the view of now is not served")
		}
	}
}
