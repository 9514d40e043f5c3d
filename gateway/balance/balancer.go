package balance

import (
	"fmt"
	"slices"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Target is a destination to pick. An index that a Balancer gives is that in the
// list of targets it was made of.
type Target struct {
	// Address is what the hash of the destination is made of: a key stays where
	// it is as long as the address and the weights do, on whatever node.
	Address string
	// Weight is the share of the requests, relative to the others', up to
	// 1,000,000. A target without weight, 0 or less, is never picked.
	Weight int
	// Load is asked by leastRequest, powerOfTwo and latency alone; others let it be
	// nil. For latency it has to be told how requests end, see Timed.
	Load *Load
}

// Balancer picks one of its targets. It never changes.
type Balancer struct {
	targets []Target
	shares  shares
	choose  chooser
	rank    *rank   // of policy hash alone
	mean    float64 // weight of those that have some
}

// chooser picks one of targets that have weight.
type chooser func(b *Balancer, turn uint64, x *exchange.Request) int

var policies = map[string]chooser{
	"":             (*Balancer).inTurn,
	"roundRobin":   (*Balancer).inTurn,
	"random":       (*Balancer).byChance,
	"leastRequest": (*Balancer).leastLoaded,
	"powerOfTwo":   (*Balancer).betterOfTwo,
	"latency":      (*Balancer).fasterOfTwo,
	"hash":         (*Balancer).byHash,
}

// New makes a balancer of targets by a spec.Cluster's loadBalancing and hashOn;
// the empty ones mean roundRobin and ip. It panics on a policy that is not in
// the package's words: roundRobin, random, leastRequest, powerOfTwo, latency and
// hash. The caller has to refuse others by name.
func New(policy string, hashOn spec.HashOn, targets []Target) *Balancer {
	choose, known := policies[policy]
	if !known {
		panic(fmt.Sprintf("balance: no policy %q", policy))
	}
	targets = slices.Clone(targets)
	for i := range targets {
		targets[i].Weight = max(targets[i].Weight, 0)
	}
	b := &Balancer{targets: targets, shares: newShares(targets), choose: choose, mean: meanWeight(targets)}
	if policy == "hash" {
		b.rank = newRank(hashOn, targets)
	}
	return b
}

func meanWeight(targets []Target) float64 {
	sum, n := 0.0, 0.0
	for _, t := range targets {
		if t.Weight > 0 {
			sum, n = sum+float64(t.Weight), n+1
		}
	}
	return sum / max(n, 1)
}

// Timed tells whether a policy wants Answered, Waited or Failed called for each
// request that a Load counts.
func Timed(policy string) bool { return policy == "latency" }

// Pick gives the index of the destination to try first, -1 when no target has
// weight. turn counts the picks: each caller adds one to what they share. x is
// looked at by policy hash alone.
func (b *Balancer) Pick(turn uint64, x *exchange.Request) int {
	if b.shares.total == 0 {
		return -1
	}
	return b.choose(b, turn, x)
}

// After gives the destination to try when those of the indexes in tried could
// not be reached, -1 when none with weight is left. For a request with a key of
// policy hash it is the next best for the key, which all nodes agree on; else
// the next in the list after the one tried last.
func (b *Balancer) After(tried []int, x *exchange.Request) int {
	if b.rank != nil {
		if key, ok := b.rank.key.of(x); ok {
			return b.rank.best(key, tried)
		}
	}
	last := -1
	if len(tried) > 0 {
		last = tried[len(tried)-1]
	}
	for i := range b.targets {
		next := (last + 1 + i) % len(b.targets)
		if b.targets[next].Weight > 0 && !slices.Contains(tried, next) {
			return next
		}
	}
	return -1
}

func (b *Balancer) inTurn(turn uint64, _ *exchange.Request) int { return b.shares.inTurn(turn) }

func (b *Balancer) byChance(uint64, *exchange.Request) int { return b.shares.byChance() }

// byHash lets requests without the key take turns: together they are not one
// client.
func (b *Balancer) byHash(turn uint64, x *exchange.Request) int {
	if key, ok := b.rank.key.of(x); ok {
		return b.rank.best(key, nil)
	}
	return b.shares.inTurn(turn)
}
