package balance

import (
	"math"
	"sync/atomic"
	"time"

	"grapevine/gateway/exchange"
)

// Peak-EWMA, as Finagle has it: how long a destination takes is an average that
// forgets with time, jumps to what is longer at once, and comes down slowly. What
// a request may expect there is that, times the requests that are before it.
// See https://twitter.github.io/finagle/guide/Clients.html#power-of-two-choices-p2c-peak-ewma
// and, for why two choices are enough, Mitzenmacher, "The Power of Two Choices in
// Randomized Load Balancing", IEEE TPDS 12(10), 2001.

const (
	// memory is the time in which an average forgets all but 1/e, Finagle's default.
	memory = 10 * time.Second
	// A failure counts as twice what is known, and at least failedLeast: what fails
	// in no time must not look fast. By that alone it counts for no more than
	// failedMost, from which it takes about a minute to come back to a millisecond.
	failedLeast, failedMost = 10 * time.Millisecond, time.Second
)

// pace is how long a destination has taken lately. The zero pace is unknown. It is
// one word, so that it needs no lock: the seconds as the bits of a float32, above
// the moment of the last change.
type pace struct{ word atomic.Uint64 }

// origin is what moments are counted from: by a clock that nobody sets.
var origin = time.Now()

// moment is now in milliseconds. It begins again after 49 days: what has been idle
// for more than half of that may be taken for fresh, until its next answer.
func moment() uint32 { return uint32(time.Since(origin) / time.Millisecond) }

// now is the average in seconds at a moment, 0 if it is not known or forgotten.
func (p *pace) now(at uint32) float64 {
	seconds, _ := unpack(p.word.Load(), at)
	return seconds
}

// unpack gives the average as it is at a moment, and the part that is left of what
// it was when it changed last.
func unpack(word uint64, at uint32) (seconds, left float64) {
	before := math.Float32frombits(uint32(word >> 32))
	if before == 0 {
		return 0, 0
	}
	passed := int32(at - uint32(word)) // below 0 when another goroutine was later
	if passed <= 0 {
		return float64(before), 1
	}
	left = math.Exp(-float64(passed) / float64(memory/time.Millisecond))
	return float64(before) * left, left
}

// change replaces the average by what next makes of it.
func (p *pace) change(next func(seconds, left float64) float64) {
	at := moment()
	for {
		word := p.word.Load()
		before, left := unpack(word, at)
		after := next(before, left)
		if after == before && left == 1 { // within a millisecond one that is no peak says nothing
			return
		}
		if p.word.CompareAndSwap(word, uint64(math.Float32bits(float32(after)))<<32|uint64(at)) {
			return
		}
	}
}

// Answered tells that the destination took so long for an answer.
func (l *Load) Answered(took time.Duration) {
	now := max(took, time.Microsecond).Seconds() // 0 is for what is not known
	l.pace.change(func(seconds, left float64) float64 {
		if now >= seconds {
			return now
		}
		// seconds has been made less by the time already: what is left of it is
		// joined by the new.
		return seconds + now*(1-left)
	})
}

// Waited tells that a request got no answer for so long, and was given up: what is
// known can only get worse by that.
func (l *Load) Waited(took time.Duration) {
	l.pace.change(func(seconds, _ float64) float64 { return max(seconds, took.Seconds()) })
}

// Failed tells of a request that failed because of the destination after so long.
func (l *Load) Failed(took time.Duration) {
	l.pace.change(func(seconds, _ float64) float64 {
		blame := min(max(2*seconds, failedLeast.Seconds()), failedMost.Seconds())
		return max(seconds, took.Seconds(), blame)
	})
}

// noticeable is how much sooner an answer must be promised for that to count. What
// is less is noise, and leaves the choice to the weights.
const noticeable = 0.8

// fasterOfTwo looks at two targets, drawn by their weights, and takes the second
// if it promises a noticeably earlier answer. One of which nothing is known is as
// good as can be while it is idle, and else the last choice: until its first
// request is answered, the others are the better known.
func (b *Balancer) fasterOfTwo(uint64, *exchange.Request) int {
	first := b.shares.byChance()
	second := b.shares.byChanceBut(first)
	if second < 0 {
		return first
	}
	at := moment()
	p, q := b.promise(first, at), b.promise(second, at)
	switch {
	case q < p*noticeable:
		return second
	case math.IsInf(p, 1) && math.IsInf(q, 1) && b.scoreOf(second).less(b.scoreOf(first)):
		return second
	}
	return first
}

// promise is how long a request would be under way, in seconds. The weight counts
// for those that are before it alone, so that at rest the targets' own times are
// compared, and under load each has requests by its weight.
func (b *Balancer) promise(i int, at uint32) float64 {
	t := &b.targets[i]
	seconds, n := t.Load.pace.now(at), t.Load.Now()
	if seconds == 0 && n > 0 {
		return math.Inf(1)
	}
	return seconds * (1 + float64(n)*b.mean/float64(t.Weight))
}
