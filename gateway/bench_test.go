package gateway_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"grapevine/gateway"
	"grapevine/kv"
)

// mixedRoute is the i-th route of a table as a company may have it: 30 % with
// parameters, 10 % with a wildcard host, 5 % with an order, 10 % with conditions,
// the half of them on clusters, of which there is one for 20 routes.
func mixedRoute(i, version int) (key kv.Key, value []byte) {
	r := map[string]any{"path": fmt.Sprintf("/api/v%d/service-%d/{**rest}", i%3, i), "description": fmt.Sprint("version ", version)}
	if i%10 < 3 {
		r["path"] = fmt.Sprintf("/api/v%d/service-%d/items/{id}", i%3, i)
	}
	if i%10 == 4 {
		r["hosts"] = []string{fmt.Sprintf("*.zone%d.example.com", i%50)}
	}
	if i%20 == 5 {
		r["order"] = i % 7
	}
	if i%10 == 6 {
		r["headers"] = []any{map[string]any{"name": "X-Beta", "value": "1"}}
	}
	if i%2 == 0 {
		r["cluster"] = fmt.Sprintf("c%d", i/20)
	} else {
		r["backends"] = []string{fmt.Sprintf("http://10.0.%d.%d:8080", i/250%250, i%250), "http://10.1.1.1:80"}
	}
	value, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return kv.Key(fmt.Sprintf("gateway/routes/r%d", i)), value
}

func apply(b testing.TB, store *kv.Store, ops ...kv.Op) {
	commit, _, err := store.View().Resolve(kv.Txn{Then: ops})
	if err == nil {
		err = store.Merge(commit)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// filled is a store in memory with n routes.
func filled(b testing.TB, n int) *kv.Store {
	store, err := kv.Open(kv.Options{HistoryRevs: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	var ops []kv.Op
	for i := range n {
		if i%20 == 0 {
			value := fmt.Sprintf(`{"destinations":{"a":"http://10.2.%d.%d:80"}}`, i/20/250%250, i/20%250)
			ops = append(ops, kv.Put(kv.Key(fmt.Sprintf("gateway/clusters/c%d", i/20)), []byte(value)))
		}
		key, value := mixedRoute(i, 0)
		if ops = append(ops, kv.Put(key, value)); len(ops) >= 5000 || i == n-1 {
			apply(b, store, ops...)
			ops = nil
		}
	}
	return store
}

var sizes = []int{10, 1_000, 10_000, 100_000}

// From a committed change of one route to the table that serves it.
func BenchmarkSwap(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("routes=%d", size), func(b *testing.B) {
			store := filled(b, size)
			g := gateway.New(gateway.Options{Source: store, Keeper: store})
			defer g.Close()
			if err := g.Load(); err != nil {
				b.Fatal(err)
			}
			if n := g.Table().Len(); n != size {
				b.Fatalf("%d routes are live", n)
			}
			i := 0
			for b.Loop() {
				b.StopTimer()
				i++
				key, value := mixedRoute(i*7919%size, i)
				apply(b, store, kv.Put(key, value))
				b.StartTimer()
				g.Refresh()
			}
			b.StopTimer()
			if g.Table().Rev() != store.View().Rev() {
				b.Fatal("the table is not of the last change")
			}
		})
	}
}

// The judgement of a write of one route before it is accepted.
func BenchmarkCheck(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("routes=%d", size), func(b *testing.B) {
			store := filled(b, size)
			g := gateway.New(gateway.Options{Source: store, Keeper: store})
			defer g.Close()
			if err := g.Load(); err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				i++
				key, value := mixedRoute(i*7919%size, i)
				view := store.View()
				commit, _, err := view.Resolve(kv.Txn{Then: []kv.Op{kv.Put(key, value)}})
				if err != nil {
					b.Fatal(err)
				}
				candidate, err := view.Apply(commit)
				if err != nil {
					b.Fatal(err)
				}
				if err := g.Check(view, candidate); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The first table of a node that starts, and what it keeps in memory.
func BenchmarkLoad(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("routes=%d", size), func(b *testing.B) {
			store := filled(b, size)
			before := heap()
			for b.Loop() {
				g := gateway.New(gateway.Options{Source: store, Keeper: store})
				if err := g.Load(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric(float64(heap()-before)/float64(size), "B/route")
				runtime.KeepAlive(g)
				g.Close()
				b.StartTimer()
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
