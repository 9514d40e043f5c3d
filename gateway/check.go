package gateway

import (
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
	before := newPlan(g.live, g.static, current, g.lastGood)
	after := newPlan(before, g.static, candidate, g.lastGood)
	known := make(map[spec.Fault]bool, len(before.faults))
	for _, f := range before.faults {
		known[f] = true
	}
	var added spec.Faults
	for _, f := range after.faults {
		if !known[f] || written(kv.Key(f.Key), current, candidate) {
			added = append(added, g.static.Locate(f))
		}
	}
	if len(added) == 0 {
		return nil
	}
	return added
}

// written tells whether candidate has another version of key.
func written(key kv.Key, current, candidate kv.View) bool {
	before, had := current.Get(key)
	after, has := candidate.Get(key)
	return has && (!had || before.ModRev != after.ModRev)
}
