package gateway

import (
	"fmt"
	"syscall"
	"testing"

	"grapevine/kv"
)

// BenchmarkInstanceChange makes the table for one instance that has another weight,
// among 10,000: ten of a route, and all of one. cpu-ns/op is what it costs, also where
// others are on the processors.
func BenchmarkInstanceChange(b *testing.B) {
	const instances = 10_000
	for _, routes := range []int{instances / 10, 1} {
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			store, put := announceMany(b, instances, routes)
			g := New(Options{Source: store, Keeper: store})
			if err := g.Load(); err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			b.ReportAllocs()
			before, n := processorTime(b), 0
			for b.Loop() {
				put(n%instances, n%100+2)
				g.refresh()
				n++
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(n), "cpu-ns/op")
		})
	}
}

// processorTime is what this process has used, in nanoseconds.
func processorTime(t testing.TB) int64 {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// announceMany makes a store with instances of some routes, in turn, and what gives one
// another weight.
func announceMany(t testing.TB, instances, routes int) (_ *kv.Store, put func(i, weight int)) {
	t.Helper()
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	own, err := store.Own("node1")
	if err != nil {
		t.Fatal(err)
	}
	put = func(i, weight int) {
		value := fmt.Appendf(nil, `{"path":"/r%d/{**rest}","address":"http://10.0.%d.%d:1","weight":%d}`, i%routes, i/250, i%250, weight)
		if err := own.Put(manyKey(i, routes), value); err != nil {
			t.Fatal(err)
		}
	}
	for i := range instances {
		put(i, 1)
	}
	return store, put
}

// manyKey is the key of an instance of announceMany.
func manyKey(i, routes int) kv.Key {
	return kv.Key(fmt.Sprintf("%sr%d/%d", instancePrefix, i%routes, i))
}
