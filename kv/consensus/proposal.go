package consensus

import (
	"slices"
	"sync"

	"grapevine/kv"
)

// proposal is a transaction that waits to be written. Its outcome may be read
// once done is closed.
type proposal struct {
	txn  kv.Txn
	done chan struct{}

	// The rest of this group is for Raft: the term in which the caller takes this
	// node for the leader, 0 for any; the earlier proposal that is the same request;
	// and that the outcome is a decision without a commit.
	term    uint64
	twin    *proposal
	decided bool

	commit kv.Commit // Rev is zero if there is nothing to merge
	result kv.Result
	err    error
}

// finish ends the wait. mergeErr is the fate of the whole batch: what did not
// change anything itself was judged on a view that, with it, never came about.
func (p *proposal) finish(mergeErr error) {
	if mergeErr != nil {
		p.result, p.err = kv.Result{}, mergeErr
	}
	close(p.done)
}

func (p *proposal) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// mostAtOnce bounds a batch, so that nobody's answer waits for the trials of
// many others.
const mostAtOnce = 64

// queue holds the proposals that nobody writes yet, oldest first.
type queue struct {
	mu sync.Mutex // guards proposals
	// proposals is as long as there are callers: each waits for its own.
	proposals []*proposal
}

func (q *queue) add(p *proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.proposals = append(q.proposals, p)
}

// take removes the next batch.
func (q *queue) take() []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.proposals), mostAtOnce)
	batch := slices.Clone(q.proposals[:n])
	q.proposals = slices.Delete(q.proposals, 0, n)
	return batch
}

// takeAll removes all.
func (q *queue) takeAll() []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.proposals
	q.proposals = nil
	return all
}

// remove takes one proposal back and reports whether it was still there.
func (q *queue) remove(p *proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.proposals, p)
	if i < 0 {
		return false
	}
	q.proposals = slices.Delete(q.proposals, i, i+1)
	return true
}
