package balance

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"grapevine/gateway/spec"
)

// rank orders the targets anew for each key, by weighted rendezvous hashing: each
// target draws a number that follows from the key and its address alone, and the
// highest wins. A target that goes takes no other's keys with it, and one whose
// weight rises takes keys from others and gives none away.
//
// See Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates",
// IEEE/ACM Transactions on Networking 6(1), 1998; for the weights, Schindelhauer
// and Schomaker, "Weighted Distributed Hash Tables", SPAA 2005.
type rank struct {
	key     key
	hashes  []uint64 // of the addresses
	weights []float64
	// equal says that all weights are, but those that are 0: what was drawn is in
	// the order of the scores then.
	equal bool
}

func newRank(hashOn spec.HashOn, targets []Target) *rank {
	r := &rank{key: newKey(hashOn), equal: true}
	first := 0.0
	for _, t := range targets {
		weight := float64(t.Weight)
		r.hashes = append(r.hashes, xxhash.Sum64String(t.Address))
		r.weights = append(r.weights, weight)
		if first == 0 {
			first = weight
		}
		r.equal = r.equal && (weight == 0 || weight == first)
	}
	return r
}

// best is the highest target for the key that is not in tried, -1 if none is left.
// Nodes agree on it up to the last bit of a logarithm, which processors may round
// in different ways.
func (r *rank) best(key uint64, tried []int) int {
	best, highest := -1, 0.0
	for i, weight := range r.weights {
		if weight == 0 {
			continue
		}
		drawn := draw(key, r.hashes[i])
		if !r.equal {
			if weight <= highest*(1-drawn) { // 1-u < -ln u: it can't win, and a logarithm takes time
				continue
			}
			drawn = -weight / math.Log(drawn)
		}
		if drawn > highest && !slices.Contains(tried, i) {
			best, highest = i, drawn
		}
	}
	return best
}

// draw is a number between 0 and 1, both excluded: 52 bits and a half, which a
// float64 holds exactly.
func draw(key, address uint64) float64 {
	return (float64(mix(key^address)>>12) + 0.5) / (1 << 52)
}

// mix is the finalizer of SplitMix64, as java.util.SplittableRandom has it: each
// bit of h may flip each bit of the result.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
