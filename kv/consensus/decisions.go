package consensus

import "grapevine/kv"

// maxDecisions is how many answers without a commit a leader remembers: as many as
// a store remembers commits.
const maxDecisions = kv.KeptRequests

// decisions remembers what a leader answered in its term without making a commit:
// refusals, and compares that did not hold. Commits are remembered by the store.
// A call that comes a second time, late, must not find another answer than its
// caller was given. It is for one goroutine.
type decisions struct {
	term  uint64
	byID  map[string]decision
	order []string // oldest first
}

type decision struct {
	result kv.Result
	err    error
}

func newDecisions() *decisions { return &decisions{byID: map[string]decision{}} }

// begin forgets those of another term: calls that are meant for it are not
// carried out any more.
func (d *decisions) begin(term uint64) {
	if d.term != term {
		*d = decisions{term: term, byID: map[string]decision{}}
	}
}

func (d *decisions) find(id string) (kv.Result, error, bool) {
	known, ok := d.byID[id]
	return known.result, known.err, ok
}

func (d *decisions) add(id string, result kv.Result, err error) {
	if _, known := d.byID[id]; known {
		return
	}
	if len(d.order) == maxDecisions {
		delete(d.byID, d.order[0])
		d.order = d.order[1:]
	}
	d.byID[id] = decision{result, err}
	d.order = append(d.order, id)
}
