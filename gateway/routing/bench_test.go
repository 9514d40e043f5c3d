package routing

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// mixedTable is a table as a company may have it: 30 % of the routes have
// parameters, 10 % a wildcard host and 20 % an exact one, 5 % an explicit order,
// 10 % conditions. Rules of any number are drawn alike, so that only the number
// differs.
func mixedTable(n int) []*Rule {
	chance := rand.New(rand.NewPCG(1, 2))
	rules := make([]*Rule, n)
	for i := range rules {
		path := fmt.Sprintf("/api/v%d/service-%d", i%3, i)
		switch {
		case i%10 < 3:
			path += "/items/{id}/details"
		case i%10 < 7:
			path += "/{**rest}"
		}
		r := &spec.Route{Path: spec.Path(path)}
		switch chance.IntN(10) {
		case 0:
			r.Hosts = []spec.Host{spec.Host(fmt.Sprintf("*.zone%d.example.com", i%50))}
		case 1, 2:
			r.Hosts = []spec.Host{spec.Host(fmt.Sprintf("h%d.example.com", i%500))}
		}
		if chance.IntN(20) == 0 {
			r.Order = chance.IntN(5) - 2
		}
		switch chance.IntN(30) {
		case 0:
			r.Methods = []spec.Method{"GET", "HEAD"}
		case 1:
			r.Headers = []spec.Match{{Name: "X-Beta", Value: "1"}}
		case 2:
			r.Clients = []spec.CIDR{"10.0.0.0/8"}
		}
		rules[i] = NewRule(fmt.Sprintf("r%d", i), r, nil)
	}
	return rules
}

// requestsFor makes requests of the rules that draw picks, one in five of which
// no rule takes. Their bytes lie one behind the other, since those of a real request have
// just been read.
func requestsFor(rules []*Rule, n int, draw func() int) []Request {
	requests := make([]Request, n)
	fields := exchange.Fields{{Name: []byte("Accept"), Value: []byte("*/*")}, {Name: []byte("X-Beta"), Value: []byte("1")}}
	bytes := make([]byte, 0, 256*n)
	keep := func(s string) []byte {
		start := len(bytes)
		bytes = append(bytes, s...)
		return bytes[start:]
	}
	for i := range requests {
		rule := rules[draw()]
		path := strings.NewReplacer("{id}", fmt.Sprint("i", i), "{**rest}", "a/b").Replace(rule.Path.String())
		host := "www.example.com"
		if len(rule.Hosts) > 0 {
			host = strings.Replace(rule.Hosts[0], "*", "x", 1)
		}
		if i%5 == 0 {
			path += "/none/such"
		}
		requests[i] = Request{Method: "GET", Host: keep(host), Path: keep(path), Client: netip.MustParseAddr("10.1.2.3"), Fields: fields}
	}
	return requests
}

var sizes = []int{10, 1_000, 10_000, 100_000}

// Requests are spread over the routes in three ways: as traffic is (a few routes
// get most of it, by Zipf's law with exponent 1.1), over 64 routes alone, and
// over all alike, which is the worst for a cache.
func BenchmarkMatch(b *testing.B) {
	chance := rand.New(rand.NewPCG(3, 4))
	for _, spread := range []string{"zipf", "few", "even"} {
		for _, size := range sizes {
			rules := mixedTable(size)
			trie := trieOf(rules...)
			draw := func() int { return chance.IntN(size) }
			switch spread {
			case "zipf":
				zipf := rand.NewZipf(chance, 1.1, 1, uint64(size-1))
				order := chance.Perm(size)
				draw = func() int { return order[zipf.Uint64()] }
			case "few":
				first := chance.IntN(size)
				draw = func() int { return (first + chance.IntN(64)*size/64) % size }
			}
			requests := requestsFor(rules, 4096, draw)
			b.Run(fmt.Sprintf("spread=%s/routes=%d", spread, size), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					trie.Match(&requests[i%len(requests)])
					i++
				}
			})
		}
	}
}

// Routes that differ in their last segments only, and a request that no one of
// them takes although it follows both ways at every step.
func BenchmarkMatchBacktracking(b *testing.B) {
	const depth = 8
	for _, size := range sizes {
		var rules []*Rule
		for i := range size {
			path := ""
			for level := range depth {
				if i>>level&1 == 0 {
					path += "/a"
				} else {
					path += fmt.Sprintf("/{p%d}", level)
				}
			}
			rules = append(rules, NewRule(fmt.Sprintf("r%d", i), &spec.Route{Path: spec.Path(fmt.Sprintf("%s/end-%d", path, i))}, nil))
		}
		trie := trieOf(rules...)
		request := &Request{Method: "GET", Path: []byte(strings.Repeat("/a", depth) + "/none")}
		b.Run(fmt.Sprintf("routes=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				trie.Match(request)
			}
		})
	}
}

// One route of a table changes.
func BenchmarkChange(b *testing.B) {
	for _, size := range sizes {
		rules := mixedTable(size)
		trie := trieOf(rules...)
		b.Run(fmt.Sprintf("routes=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				rule := rules[i%len(rules)]
				i++
				e := trie.Edit()
				e.Remove(rule)
				e.Insert(rule)
				trie = e.Done()
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, size := range sizes {
		rules := mixedTable(size)
		b.Run(fmt.Sprintf("routes=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				trieOf(rules...)
			}
		})
	}
}

// What a route costs in memory: its rule, and its share of the trie.
func BenchmarkMemory(b *testing.B) {
	const size = 100_000
	for b.Loop() {
		before := heap()
		rules := mixedTable(size)
		between := heap()
		trie := trieOf(rules...)
		after := heap()
		b.ReportMetric(float64(between-before)/size, "rule-B/route")
		b.ReportMetric(float64(after-between)/size, "trie-B/route")
		runtime.KeepAlive(trie)
		runtime.KeepAlive(rules)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// What the benchmarks measure is right: the judge agrees on their tables.
func TestMixedTable(t *testing.T) {
	size, asked := 2000, 500
	if os.Getenv("GRAPEVINE_LONG") != "" {
		size, asked = 100_000, 60
	}
	rules := mixedTable(size)
	trie, judge := trieOf(rules...), newJudge(rules)
	taken := 0
	requests := requestsFor(rules, asked, func() int { return rand.IntN(len(rules)) })
	for i := range requests {
		request := &requests[i]
		got, want := trie.Match(request), judge.match(request)
		if got.Rule != want.Rule || !slices.Equal(got.Allow, want.Allow) {
			t.Fatalf("%s%s: %q; judge %q", request.Host, request.Path, id(got), id(want))
		}
		if got.Rule != nil {
			taken++
		}
		if allocated := testing.AllocsPerRun(10, func() { trie.Match(request) }); got.Rule != nil && allocated > 0 {
			t.Fatalf("%s%s: %v allocations", request.Host, request.Path, allocated)
		}
	}
	if taken < asked/2 || taken == asked {
		t.Errorf("%d of %d requests are taken", taken, asked)
	}
}
