package balance

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// shares are the weights in their lowest terms, laid side by side: target i has
// the slots from ends[i-1] to ends[i]-1, and none without weight.
type shares struct {
	ends   []uint64
	total  uint64
	stride uint64 // from the slot of one turn to that of the next
}

func newShares(targets []Target) shares {
	var unit, open uint64
	for _, t := range targets {
		if t.Weight > 0 {
			unit = gcd(unit, uint64(t.Weight))
			open++
		}
	}
	s := shares{ends: make([]uint64, len(targets)), stride: 1}
	for i, t := range targets {
		s.total += uint64(t.Weight) / max(unit, 1)
		s.ends[i] = s.total
	}
	if s.total > open { // with equal weights the turns are those of the list
		s.stride = goldenStride(s.total)
	}
	return s
}

// goldenStride is the number next to total/φ that shares no factor with total.
// Being coprime, total turns visit each slot once; being near the golden section,
// any few turns in a row spread evenly over the slots (Knuth, The Art of Computer
// Programming, vol. 3, §6.4, theorem S).
func goldenStride(total uint64) uint64 {
	near := uint64(math.Round(float64(total) / math.Phi))
	for off := uint64(0); ; off++ {
		if gcd(near+off, total) == 1 {
			return near + off
		}
		if gcd(near-off, total) == 1 {
			return near - off
		}
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// inTurn gives each target its exact share in any total turns in a row.
func (s *shares) inTurn(turn uint64) int {
	high, low := bits.Mul64(turn%s.total, s.stride)
	return s.at(bits.Rem64(high, low, s.total))
}

func (s *shares) byChance() int { return s.at(rand.Uint64N(s.total)) }

// byChanceBut draws among the targets that are not i, -1 if there is none.
func (s *shares) byChanceBut(i int) int {
	var begin uint64
	if i > 0 {
		begin = s.ends[i-1]
	}
	width := s.ends[i] - begin
	if width == s.total {
		return -1
	}
	slot := rand.Uint64N(s.total - width)
	if slot >= begin {
		slot += width
	}
	return s.at(slot)
}

// at is the target that has the slot.
func (s *shares) at(slot uint64) int {
	i, _ := slices.BinarySearch(s.ends, slot+1)
	return i
}
