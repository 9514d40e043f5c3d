package gateway

import (
	"cmp"
	"slices"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Check judges a write before it is accepted: candidate is current with the
// write applied. What is returned is spec.Faults: those that the write brings
// with it, in what it changes or elsewhere. Faults that were there before and
// have nothing to do with it don't count.
func (g *Gateway) Check(current, candidate kv.View) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.live
	if !current.Is(before.view) {
		before = newPlan(g.live, g.static, current, g.lastGood)
	}
	after := newPlan(before, g.static, candidate, g.lastGood)
	touched := func(key string) bool { return written(kv.Key(key), current, candidate) }
	if faults := worsened(before, after, touched); len(faults) > 0 {
		return after.told(faults)
	}
	return nil
}

// told is faults as a person needs them: with their place in the file, and what
// there is instead.
func (p *plan) told(faults spec.Faults) spec.Faults {
	for i, f := range faults {
		if faults[i] = p.known(f); p.decoded.get(f.Key) == nil { // else it is about the operator's value
			faults[i] = p.static.Locate(faults[i])
		}
	}
	return faults
}

// worsened are the faults that after has and before had not, those of touched
// keys in any case, and one for each route that after answers with 503 and before
// did not: it may have been served by a last good version that after takes away.
func worsened(before, after *plan, touched func(key string) bool) spec.Faults {
	var worse spec.Faults
	for c := range after.since(before) {
		worse = append(worse, c.worsened(touched(c.key))...)
	}
	sortFaults(worse)
	return worse
}

func (c change) worsened(touched bool) (worse spec.Faults) {
	if c.now == nil {
		return nil
	}
	known := map[spec.Fault]bool{}
	if c.old != nil {
		for _, f := range c.old.faults {
			known[identity(f)] = true
		}
	}
	for _, f := range c.now.faults {
		if touched || !known[identity(f)] {
			worse = append(worse, f)
		}
	}
	if r := c.now.route; len(worse) == 0 && r != nil && r.blocked && c.old.serves() {
		worse = spec.Faults{{Key: c.key, Problem: "would be served no more: " + r.problem}}
	}
	return worse
}

// serves tells whether a route's key is served, by whatever version.
func (v *verdict) serves() bool { return v != nil && v.route != nil && !v.route.blocked }

func sortFaults(faults spec.Faults) {
	slices.SortStableFunc(faults, func(a, b spec.Fault) int { return cmp.Compare(a.Key, b.Key) })
}

// identity is what makes a fault the same one: its wording may name things that
// change, such as the clusters that there are.
func identity(f spec.Fault) spec.Fault {
	return spec.Fault{Key: f.Key, Field: f.Field, Value: f.Value}
}

// written tells whether candidate has another version of key.
func written(key kv.Key, current, candidate kv.View) bool {
	before, had := current.Get(key)
	after, has := candidate.Get(key)
	return has && (!had || before.ModRev != after.ModRev)
}
