package consensus

import (
	"fmt"

	"grapevine/kv"
)

// try resolves and checks a proposal against view and notes the outcome in it. It
// returns the view after it, if there is anything to merge.
func (c Check) try(p *proposal, view kv.View) (next kv.View, changed bool) {
	p.commit, p.result, p.err = view.Resolve(p.txn)
	if p.err != nil || p.commit.Rev.IsZero() {
		return view, false
	}
	if next, p.err = view.Apply(p.commit); p.err == nil {
		p.err = c.judge(view, next)
	}
	if p.err != nil {
		p.commit, p.result = kv.Commit{}, kv.Result{}
		return view, false
	}
	return next, true
}

// judge runs the check. A check that panics refuses the write: what makes a
// trial fail must not reach the table, nor end the process.
func (c Check) judge(current, candidate kv.View) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the trial of this write panicked: %v", reason)
		}
	}()
	return c(current, candidate)
}
