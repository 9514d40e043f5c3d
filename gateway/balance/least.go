package balance

import "grapevine/gateway/exchange"

// leastLoaded looks at all targets, beginning with the one whose turn it is, and
// takes the first of equals. The one whose turn it is is taken at once when it is
// idle: by their scores alone, the heaviest of idle targets would get every
// request.
func (b *Balancer) leastLoaded(turn uint64, _ *exchange.Request) int {
	first := b.shares.inTurn(turn)
	best := b.scoreOf(first)
	if best.load == 0 {
		return first
	}
	at := first
	for step := 1; step < len(b.targets); step++ {
		i := (first + step) % len(b.targets)
		if s := b.scoreOf(i); s.less(best) {
			at, best = i, s
		}
	}
	return at
}

// betterOfTwo looks at two targets, drawn by their weights. The first is taken at
// once when it is idle, as in leastLoaded.
func (b *Balancer) betterOfTwo(uint64, *exchange.Request) int {
	first := b.shares.byChance()
	one := b.scoreOf(first)
	if one.load == 0 {
		return first
	}
	second := b.shares.byChanceBut(first)
	if second >= 0 && b.scoreOf(second).less(one) {
		return second
	}
	return first
}

// score is how long a request would have to wait: the load with it, per weight.
type score struct{ load, weight int64 }

func (b *Balancer) scoreOf(i int) score {
	t := &b.targets[i]
	return score{t.Load.Now(), int64(t.Weight)}
}

// less compares fractions without a division. Without weight, s is never less.
func (s score) less(than score) bool {
	return (s.load+1)*than.weight < (than.load+1)*s.weight
}
