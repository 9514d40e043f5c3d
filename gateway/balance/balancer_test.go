package balance_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grapevine/gateway/balance"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

var policies = []string{"roundRobin", "random", "leastRequest", "powerOfTwo", "latency", "hash"}

func targetsOf(weights ...int) []balance.Target {
	targets := make([]balance.Target, len(weights))
	for i, weight := range weights {
		targets[i] = balance.Target{Address: fmt.Sprintf("http://10.0.0.%d:80", i+1), Weight: weight, Load: new(balance.Load)}
	}
	return targets
}

func setLoads(targets []balance.Target, loads ...int) {
	for i, load := range loads {
		for range load {
			targets[i].Load.Begin()
		}
	}
}

// client is a request from the n-th address.
func client(n int) *exchange.Request {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], uint32(n)+10<<24)
	return &exchange.Request{Client: netip.AddrFrom4(address), Target: []byte("/")}
}

// picks are the first n, each for another client.
func picks(b *balance.Balancer, from uint64, n int) []int {
	got := make([]int, n)
	for i := range got {
		got[i] = b.Pick(from+uint64(i), client(i))
	}
	return got
}

func drawWeights(t *rapid.T, largest int) []int {
	return rapid.SliceOfN(rapid.IntRange(0, largest), 1, 12).
		Filter(func(weights []int) bool { return slices.Max(weights) > 0 }).Draw(t, "weights")
}

func TestRoundRobinTakesTurnsInTheOrderOfTheList(t *testing.T) {
	for _, tt := range []struct {
		weights, want []int
	}{
		{[]int{1}, []int{0, 0, 0}},
		{[]int{1, 1, 1}, []int{0, 1, 2, 0, 1, 2, 0}},
		{[]int{7, 7}, []int{0, 1, 0, 1}},
		{[]int{0, 5, 0, 5, 0}, []int{1, 3, 1, 3}},
		{[]int{-1, 1_000_000}, []int{1, 1}},
		{[]int{3, 1}, []int{0, 1, 0, 0}},
		{[]int{1, 3}, []int{0, 1, 1, 1, 0, 1, 1, 1}},
		{[]int{5, 1, 1}, []int{0, 0, 0, 0, 0, 1, 2}},
		{nil, []int{-1}},
		{[]int{0, 0}, []int{-1}},
	} {
		for _, policy := range []string{"", "roundRobin", "leastRequest"} {
			b := balance.New(policy, "", targetsOf(tt.weights...))
			got := picks(b, 0, len(tt.want))
			if sorted := slices.Sorted(slices.Values(got)); tt.weights != nil && tt.weights[0] == 5 {
				got = sorted // how they are spread is asked by another test
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, weights %v: got %v, want %v", policy, tt.weights, got, tt.want)
			}
		}
	}
}

// In as many turns as the weights sum up to, each gets its weight, wherever the
// count of turns stands.
func TestRoundRobinIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := drawWeights(t, 50)
		sum := 0
		for _, weight := range weights {
			sum += weight
		}
		from := uint64(rapid.Uint32().Draw(t, "turn"))
		got := make([]int, len(weights))
		for _, i := range picks(balance.New("", "", targetsOf(weights...)), from, sum) {
			got[i]++
		}
		if !slices.Equal(got, weights) {
			t.Fatalf("from turn %d: got %v, want %v", from, got, weights)
		}
	})
}

// A heavy target must not get its share in one piece: after any number of turns
// each has had about what it is due.
func TestRoundRobinSpreads(t *testing.T) {
	for _, weights := range [][]int{{5, 1, 1}, {100, 1}, {1, 100}, {50, 50, 1}, {34, 55}, {1, 2, 3, 4, 5, 6, 7}, {999_999, 500_000, 250_001}} {
		sum := 0
		for _, weight := range weights {
			sum += weight
		}
		had := make([]float64, len(weights))
		for n, i := range picks(balance.New("", "", targetsOf(weights...)), 0, 1000) {
			had[i]++
			for j, weight := range weights {
				if due := float64(n+1) * float64(weight) / float64(sum); math.Abs(had[j]-due) > 2 {
					t.Fatalf("weights %v: after %d turns target %d had %v, is due %.2f", weights, n+1, j, had[j], due)
				}
			}
		}
	}
}

// Shares over 10,000 picks. Where chance or a hash decides, seven standard
// deviations are let pass.
func TestSharesByWeight(t *testing.T) {
	const n = 10_000
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				largest := rapid.SampledFrom([]int{1, 5, 100, 1_000_000}).Draw(t, "largest")
				weights := drawWeights(t, largest)
				targets := targetsOf(weights...)
				checkShares(t, weights, picks(balance.New(policy, "ip", targets), rapid.Uint64Range(0, 1<<62).Draw(t, "turn"), n), policy)
			})
		})
	}
}

func checkShares(t *rapid.T, weights, picked []int, policy string) {
	got, sum, n := make([]float64, len(weights)), 0.0, float64(len(picked))
	for _, i := range picked {
		got[i]++
	}
	for _, weight := range weights {
		sum += float64(weight)
	}
	for i, weight := range weights {
		share := float64(weight) / sum
		most := n / 100
		if policy != "roundRobin" && policy != "leastRequest" {
			most = 7*math.Sqrt(n*share*(1-share)) + 5 // the 5 are for shares next to none
		}
		if math.Abs(got[i]-n*share) > most {
			t.Fatalf("target %d of %v: got %v picks of %v, want %.0f ± %.0f", i, weights, got[i], n, n*share, most)
		}
	}
}

// The loads follow the weights too when all are busy.
func TestSharesByWeightUnderLoad(t *testing.T) {
	for _, policy := range []string{"leastRequest", "powerOfTwo"} {
		weights := []int{1, 2, 5}
		targets := targetsOf(weights...)
		b := balance.New(policy, "", targets)
		var underWay []int
		got := make([]int, len(weights))
		for turn := range 10_000 {
			i := b.Pick(uint64(turn), nil)
			got[i]++
			targets[i].Load.Begin()
			if underWay = append(underWay, i); len(underWay) > 200 { // the oldest ends
				targets[underWay[0]].Load.End()
				underWay = underWay[1:]
			}
		}
		for i, weight := range weights {
			if want := 10_000 * weight / 8; math.Abs(float64(got[i]-want)) > 100 {
				t.Errorf("%s: target of weight %d of 8: got %d, want %d ± 100", policy, weight, got[i], want)
			}
		}
	}
}

// leastJudge tries the targets one after the other, beginning with the one whose
// turn it is.
func leastJudge(targets []balance.Target, first int) int {
	if targets[first].Load.Now() == 0 {
		return first
	}
	best, least := -1, math.Inf(1)
	for step := range targets {
		i := (first + step) % len(targets)
		if targets[i].Weight == 0 {
			continue
		}
		if wait := float64(targets[i].Load.Now()+1) / float64(targets[i].Weight); wait < least {
			best, least = i, wait
		}
	}
	return best
}

func TestLeastRequestIsTheJudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := drawWeights(t, rapid.SampledFrom([]int{1, 3, 1_000_000}).Draw(t, "largest"))
		targets := targetsOf(weights...)
		setLoads(targets, rapid.SliceOfN(rapid.IntRange(0, 4), len(weights), len(weights)).Draw(t, "loads")...)
		turns, least := balance.New("roundRobin", "", targets), balance.New("leastRequest", "", targets)
		for turn := range uint64(50) {
			if got, want := least.Pick(turn, nil), leastJudge(targets, turns.Pick(turn, nil)); got != want {
				t.Fatalf("turn %d: got %d, want %d", turn, got, want)
			}
		}
	})
}

func TestPowerOfTwoTakesTheLessLoaded(t *testing.T) {
	for _, tt := range []struct {
		weights, loads []int
		never          int // the target that loses to every other
	}{
		{[]int{1, 1}, []int{5, 4}, 0},
		{[]int{1, 1}, []int{4, 5}, 1},
		{[]int{1000, 1}, []int{3998, 3}, 1},
		{[]int{1000, 1}, []int{4000, 3}, 0},
		{[]int{1, 1, 1}, []int{2, 1, 20}, 2},
		{[]int{3, 0, 1}, []int{8, 0, 3}, 2},
	} {
		targets := targetsOf(tt.weights...)
		setLoads(targets, tt.loads...)
		if got := picks(balance.New("powerOfTwo", "", targets), 0, 1000); slices.Contains(got, tt.never) {
			t.Errorf("weights %v, loads %v: picked %d", tt.weights, tt.loads, tt.never)
		}
	}
	only := targetsOf(0, 1, 0)
	setLoads(only, 0, 9, 0)
	if got := balance.New("powerOfTwo", "", only).Pick(0, nil); got != 1 {
		t.Errorf("the only one: got %d", got)
	}
}

// The two are drawn by weight: of three equally busy ones each is taken.
func TestPowerOfTwoReachesAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 4), 2, 6).Draw(t, "weights")
		targets := targetsOf(weights...)
		for i, weight := range weights {
			setLoads(targets[i:], 10*weight-1) // (load+1)/weight is 10
		}
		checkShares(t, weights, picks(balance.New("powerOfTwo", "", targets), 0, 10_000), "powerOfTwo")
	})
}

func addresses(t *rapid.T) []balance.Target {
	name := rapid.StringMatching(`http://[a-z]{1,3}:80`)
	var targets []balance.Target
	for _, address := range rapid.SliceOfNDistinct(name, 2, 10, rapid.ID).Draw(t, "addresses") {
		targets = append(targets, balance.Target{Address: address, Weight: rapid.SampledFrom([]int{0, 1, 1, 1, 2, 50}).Draw(t, "weight")})
	}
	return targets
}

// chosen are the addresses for 300 clients, "" for none.
func chosen(targets []balance.Target) []string {
	b, all := balance.New("hash", "ip", targets), make([]string, 300)
	for i := range all {
		if at := b.Pick(uint64(i), client(i)); at >= 0 {
			all[i] = targets[at].Address
		}
	}
	return all
}

// Only the keys of the target that goes move, and only to a target whose weight
// rises; the order of the list means nothing.
func TestHashMovesOnlyWhatItMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets := addresses(t)
		before := chosen(targets)
		at := rapid.IntRange(0, len(targets)-1).Draw(t, "target")
		address := targets[at].Address

		for i, after := range chosen(slices.Delete(slices.Clone(targets), at, at+1)) {
			if after != before[i] && before[i] != address {
				t.Fatalf("without %s client %d moved from %s to %s", address, i, before[i], after)
			}
		}
		heavier := slices.Clone(targets)
		heavier[at].Weight += rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "more")
		for i, after := range chosen(heavier) {
			if after != before[i] && after != address {
				t.Fatalf("with more weight on %s client %d moved from %s to %s", address, i, before[i], after)
			}
		}
		shuffled := rapid.Permutation(targets).Draw(t, "shuffled")
		if after := chosen(shuffled); !slices.Equal(after, before) {
			t.Fatalf("in another order: got %v, want %v", after, before)
		}
	})
}

// What every node and every later version must agree on.
func TestHashIsTheSameEverywhere(t *testing.T) {
	for _, tt := range []struct {
		weights []int
		want    string
	}{
		{[]int{1, 1, 1}, "[2 1 2 1 1 2 0 1 0 2 2 2 0 0 0 0 0 0 2 2]"},
		{[]int{1, 2, 5}, "[2 2 2 2 2 2 2 1 2 2 2 2 2 1 2 0 2 2 2 2]"},
	} {
		got := fmt.Sprint(picks(balance.New("hash", "ip", targetsOf(tt.weights...)), 0, 20))
		if got != tt.want {
			t.Errorf("weights %v: got %s, want %s", tt.weights, got, tt.want)
		}
	}
}

// The same client stays, whatever turn it is, and a request without a key does
// not.
func TestHashTurns(t *testing.T) {
	b := balance.New("hash", "cookie:sid", targetsOf(1, 1, 1))
	with := &exchange.Request{Fields: exchange.Fields{{Name: []byte("cookie"), Value: []byte("sid=31d4")}}}
	var kept, turns []int
	for turn := range uint64(6) {
		kept, turns = append(kept, b.Pick(turn, with)), append(turns, b.Pick(turn, &exchange.Request{}))
	}
	if len(slices.Compact(kept)) != 1 || !slices.Equal(turns, []int{0, 1, 2, 0, 1, 2}) {
		t.Errorf("with the cookie %v, without %v", kept, turns)
	}
	if got := b.After([]int{2, 0}, &exchange.Request{}); got != 1 {
		t.Errorf("after 2 and 0 without the cookie: got %d, want 1", got)
	}
}

// From the first pick on, each target with weight is tried once, and no other.
func TestAfterReachesEachTargetOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 1000}), 0, 12).Draw(t, "weights")
		targets := targetsOf(weights...)
		policy := rapid.SampledFrom(policies).Draw(t, "policy")
		b, x := balance.New(policy, "ip", targets), client(rapid.IntRange(0, 1000).Draw(t, "client"))
		if rapid.Bool().Draw(t, "busy") {
			for i := range targets {
				targets[i].Load.Begin()
			}
		}
		var tried, want []int
		for next := b.Pick(rapid.Uint64().Draw(t, "turn"), x); next >= 0; next = b.After(tried, x) {
			if tried = append(tried, next); len(tried) > len(weights) {
				break
			}
		}
		for i, weight := range weights {
			if weight > 0 {
				want = append(want, i)
			}
		}
		if got := slices.Sorted(slices.Values(tried)); !slices.Equal(got, want) {
			t.Fatalf("%s, weights %v: tried %v, want each of %v once", policy, weights, tried, want)
		}
		if policy != "hash" && len(tried) > 0 {
			inOrder := slices.Concat(want[slices.Index(want, tried[0]):], want[:slices.Index(want, tried[0])])
			if !slices.Equal(tried, inOrder) {
				t.Fatalf("%s: tried %v, want %v", policy, tried, inOrder)
			}
		}
	})
}

// What comes after for a key is what would come first if the tried were not there.
func TestAfterOfHashIsTheNextBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		targets, x := addresses(t), client(rapid.IntRange(0, 1000).Draw(t, "client"))
		b := balance.New("hash", "ip", targets)
		tried := []int{b.Pick(0, x)}
		for tried[0] >= 0 {
			rest := slices.Clone(targets)
			for _, i := range tried {
				rest[i].Weight = 0
			}
			got, want := b.After(tried, x), balance.New("hash", "ip", rest).Pick(0, x)
			if got != want {
				t.Fatalf("after %v: got %d, want %d", tried, got, want)
			}
			if got < 0 {
				return
			}
			tried = append(tried, got)
		}
	})
}

func TestNewRefusesWhatItDoesNotHave(t *testing.T) {
	for _, policy := range []string{"fastest", "roundrobin", "first"} {
		func() {
			defer func() {
				if message := fmt.Sprint(recover()); !strings.Contains(message, fmt.Sprintf("%q", policy)) {
					t.Errorf("%s: got %s", policy, message)
				}
			}()
			balance.New(policy, "", nil)
		}()
	}
}

// A balancer is shared; what it was made of may be used again.
func TestBalancerIsShared(t *testing.T) {
	for _, policy := range policies {
		targets := targetsOf(1, 2, 3)
		loads := []*balance.Load{targets[0].Load, targets[1].Load, targets[2].Load}
		b := balance.New(policy, "ip", targets)
		clear(targets)
		var turn atomic.Uint64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range 500 {
					at := b.Pick(turn.Add(1)-1, client(i))
					loads[at].Begin()
					b.After([]int{at}, client(i))
					loads[at].End()
				}
			})
		}
		all.Wait()
		for i, load := range loads {
			if load.Now() != 0 {
				t.Errorf("%s: target %d is left with load %d", policy, i, load.Now())
			}
		}
	}
}

// request has every key that can be asked for.
func request() *exchange.Request {
	return &exchange.Request{
		Client: netip.MustParseAddr("2001:db8::7"), Target: []byte("/booking/17?from=MUC&t%6F=HAM"),
		Fields: exchange.Fields{
			{Name: []byte("accept"), Value: []byte("*/*")},
			{Name: []byte("x-user"), Value: []byte("ada")},
			{Name: []byte("cookie"), Value: []byte("theme=dark; lang=de")},
			{Name: []byte("cookie"), Value: []byte("sid=31d4d96e407aad42")},
		},
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	x, turn, tried := request(), uint64(0), []int{1, 2}
	for _, policy := range policies {
		for _, hashOn := range []string{"ip", "path", "header:X-User", "cookie:sid", "query:to", "query:none"} {
			targets := targetsOf(1, 2, 3, 4)
			setLoads(targets, 1, 1, 1, 1)
			targets[0].Load.Answered(time.Millisecond)
			b := balance.New(policy, spec.HashOn(hashOn), targets)
			if n := testing.AllocsPerRun(100, func() { b.Pick(turn, x); b.After(tried, x); turn++ }); n != 0 {
				t.Errorf("%s on %s: %v allocations", policy, hashOn, n)
			}
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, bm := range []struct{ name, policy, hashOn string }{
		{"roundRobin", "roundRobin", ""},
		{"random", "random", ""},
		{"leastRequest", "leastRequest", ""},
		{"powerOfTwo", "powerOfTwo", ""},
		{"latency", "latency", ""},
		{"hash-ip", "hash", "ip"},
		{"hash-header", "hash", "header:X-User"},
		{"hash-cookie", "hash", "cookie:sid"},
		{"hash-query", "hash", "query:to"},
	} {
		for _, n := range []int{3, 100} {
			for _, weights := range []string{"equal", "mixed"} {
				b.Run(fmt.Sprintf("%s/%d/%s", bm.name, n, weights), func(b *testing.B) {
					balancer, x, turn := balance.New(bm.policy, spec.HashOn(bm.hashOn), busyTargets(n, weights == "mixed")), request(), uint64(0)
					b.ReportAllocs()
					for b.Loop() {
						balancer.Pick(turn, x)
						turn++
					}
				})
			}
		}
	}
}

// busyTargets leave no policy a short way out.
func busyTargets(n int, mixed bool) []balance.Target {
	weights := make([]int, n)
	for i := range weights {
		if weights[i] = 1; mixed {
			weights[i] += i % 7
		}
	}
	targets, chance := targetsOf(weights...), rand.New(rand.NewPCG(1, 2))
	for i := range targets {
		setLoads(targets[i:], 1+chance.IntN(10))
		targets[i].Load.Answered(time.Duration(1+chance.IntN(10)) * time.Millisecond)
	}
	return targets
}
