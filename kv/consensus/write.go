package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"grapevine/kv"
)

// batchBytes is about how much one batch proposes at most, so that a follower can
// take a message within raft's timeout on a slow link. A larger write goes alone.
const batchBytes = 4 << 20

// write is the loop that makes the writes of a leader, one batch after the other:
// each is in the store, or given up, before the next is resolved. So a request
// that was done is always found in the store.
func (r *Raft) write() {
	decided := newDecisions()
	for {
		select {
		case <-r.wake:
		case <-r.quit:
			for _, p := range r.waiting.takeAll() {
				p.finish(ErrClosed)
			}
			return
		}
		for waiting := r.waiting.take(); len(waiting) > 0; waiting = r.waiting.take() {
			r.writeAll(waiting, decided)
		}
	}
}

func (r *Raft) writeAll(waiting []*proposal, decided *decisions) {
	select {
	case r.turn <- struct{}{}:
		defer r.turn.unlock()
	case <-r.quit:
		for _, p := range waiting {
			p.finish(ErrClosed)
		}
		return
	}
	for len(waiting) > 0 {
		waiting = r.writeSome(waiting, decided)
	}
}

// round is one batch on its way through raft.
type round struct {
	instance *instance
	term     uint64
	decided  *decisions
	view     kv.View // as it will be after the proposals so far
	size     int
	// proposed are the proposals with a commit, and futures what raft says of them.
	proposed []*proposal
	futures  []raft.Future
	// answered are those without one: their answers hold if this node leads still.
	answered []*proposal
}

// writeSome makes the writes of the first proposals, and returns the others.
func (r *Raft) writeSome(waiting []*proposal, decided *decisions) (rest []*proposal) {
	i := r.instance()
	b := &round{instance: i, decided: decided}
	var err error
	if b.term, err = r.mayWrite(context.Background(), i); err != nil {
		for _, p := range waiting {
			p.finish(err)
		}
		return nil
	}
	r.writing.Store(true)
	defer r.writing.Store(false)
	decided.begin(b.term)
	b.view = r.o.Store.View()
	for len(waiting) > 0 && b.size < batchBytes {
		r.decide(b, waiting[0])
		waiting = waiting[1:]
	}
	r.finish(b)
	return waiting
}

// mayWrite reports the term in which this node leads, has applied all that came
// before, and admits writes.
func (r *Raft) mayWrite(ctx context.Context, i *instance) (term uint64, err error) {
	if i == nil {
		return 0, r.notLeader()
	}
	term, err = i.settleBy(ctx)
	if errors.Is(err, errNotLeading) || r.isHandingOver() {
		return 0, r.notLeader()
	}
	if err != nil {
		return 0, err
	}
	return term, r.o.Admit()
}

// decide resolves a proposal on top of those before it, and hands its commit to
// raft. A request that was done, or decided in this term, gets the same answer.
func (r *Raft) decide(b *round, p *proposal) {
	if p.term != 0 && p.term != b.term {
		p.err = r.notLeader()
		b.answered = append(b.answered, p)
		return
	}
	if first := b.twin(p); first != nil {
		p.twin = first
		b.answered = append(b.answered, p)
		return
	}
	if result, done := r.known(p.txn.ID); done {
		p.result = result
		b.answered = append(b.answered, p)
		return
	}
	if result, err, done := b.decided.find(p.txn.ID); done {
		p.result, p.err = result, err
		b.answered = append(b.answered, p)
		return
	}
	next, changed := r.o.Check.try(p, b.view)
	if !changed {
		p.decided = true
		b.answered = append(b.answered, p)
		return
	}
	b.view = next
	if r.o.Sign != nil {
		p.commit.Signature = r.o.Sign(next.Head().SigningBytes())
	}
	entry := encodeEntry(p.commit)
	b.size += len(entry)
	b.proposed = append(b.proposed, p)
	b.futures = append(b.futures, b.instance.raft.Apply(entry, 0))
}

// twin finds the same request among those of the round, as when a caller asked
// again while its first call still waited.
func (b *round) twin(p *proposal) *proposal {
	for _, earlier := range append(b.proposed[:len(b.proposed):len(b.proposed)], b.answered...) {
		if earlier.txn.ID == p.txn.ID && earlier.twin == nil {
			return earlier
		}
	}
	return nil
}

// finish waits for raft and answers all proposals of the round.
func (r *Raft) finish(b *round) {
	committed, last := false, uint64(0)
	for n, err := range b.instance.await(b.futures...) {
		p := b.proposed[n]
		p.err = outcome(p.txn.ID, b.futures[n], err)
		committed = committed || p.err == nil
		if indexed, ok := b.futures[n].(raft.IndexFuture); ok && err == nil {
			last = max(last, indexed.Index())
		}
	}
	if last > 0 {
		r.tell(b.instance, last, b.term)
	}
	r.confirm(b, committed)
	for _, p := range b.answered {
		if p.twin != nil {
			p.result, p.err = p.twin.result, p.twin.err
		}
	}
	for _, p := range append(b.proposed, b.answered...) {
		p.finish(p.err)
	}
}

// confirm makes sure that answers without a commit were given by a leader: one
// that was deposed without noticing would judge by an old view. A commit in its
// term proves it as well.
func (r *Raft) confirm(b *round, committed bool) {
	if len(b.answered) == 0 {
		return
	}
	if !committed && !r.stillLeads(context.Background(), b.instance, b.term) {
		for _, p := range b.answered {
			p.err = r.notLeader()
		}
		return
	}
	for _, p := range b.answered {
		if p.decided {
			b.decided.add(p.txn.ID, p.result, p.err)
		}
	}
}

// outcome turns what raft said of a write into what its caller is told: nothing,
// that it was not done, or that nobody knows.
func outcome(id string, future raft.Future, err error) error {
	switch {
	case err == nil:
		answer, _ := future.(raft.ApplyFuture).Response().(error)
		var stopped *StoppedError
		if errors.As(answer, &stopped) {
			// raft has committed it, and the others will have it.
			return &UnknownError{ID: id, Err: answer}
		}
		return answer
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return &NotLeaderError{}
	}
	return &UnknownError{ID: id, Err: fmt.Errorf("raft: %w", err)}
}

// proposeHere makes a write if this node leads, in the given term; 0 means any.
func (r *Raft) proposeHere(ctx context.Context, term uint64, t kv.Txn) (kv.Result, error) {
	t.ID = cmp.Or(t.ID, newRequestID())
	for {
		p := &proposal{txn: t, term: term, done: make(chan struct{})}
		if err := r.await(ctx, p); err != nil {
			return kv.Result{}, err
		}
		if !errors.Is(p.err, errSkipped) {
			return p.result, p.err
		}
		// Another leader's write came between and this one leads again: it was
		// skipped everywhere, and is resolved anew.
	}
}

// await queues a proposal until it is finished, or ctx ends.
func (r *Raft) await(ctx context.Context, p *proposal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.waiting.add(p)
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	case <-r.quit:
	}
	err := ctx.Err()
	if err == nil {
		err = ErrClosed
	}
	if r.waiting.remove(p) {
		return err
	}
	select {
	case <-p.done:
		return nil
	default:
		return &UnknownError{ID: p.txn.ID, Err: err}
	}
}

// trialHere tries a write on the newest view, if this node leads.
func (r *Raft) trialHere(ctx context.Context, term uint64, t kv.Txn) (kv.Result, error) {
	if err := ctx.Err(); err != nil {
		return kv.Result{}, err
	}
	current, err := r.mayWrite(ctx, r.instance())
	if err == nil && term != 0 && term != current {
		err = r.notLeader()
	}
	if err != nil {
		return kv.Result{}, err
	}
	if result, done := r.known(t.ID); done && t.ID != "" {
		return result, nil
	}
	p := &proposal{txn: t}
	r.o.Check.try(p, r.o.Store.View())
	return p.result, p.err
}

// readHere gives a revision that holds all that was acknowledged before the call,
// if this node leads.
func (r *Raft) readHere(ctx context.Context, term uint64) (kv.Rev, error) {
	i := r.instance()
	if i == nil {
		return kv.Rev{}, r.notLeader()
	}
	settled, err := i.settleBy(ctx)
	if errors.Is(err, errNotLeading) || err == nil && term != 0 && term != settled {
		return kv.Rev{}, r.notLeader()
	}
	if err != nil {
		return kv.Rev{}, err
	}
	committed := i.raft.CommitIndex()
	if !r.stillLeads(ctx, i, settled) {
		return kv.Rev{}, cmp.Or(ctx.Err(), r.notLeader())
	}
	if err := i.machine.wait(ctx, committed); err != nil {
		return kv.Rev{}, err
	}
	return r.o.Store.View().Rev(), nil
}

// stillLeads asks a majority whether this node leads, and did since it settled in
// the term. While it hands over, an answer from before the new leader's election
// may still be under way, and would count for the old.
func (r *Raft) stillLeads(ctx context.Context, i *instance, term uint64) bool {
	return i.awaitBy(ctx, func() raft.Future { return i.raft.VerifyLeader() }) == nil && i.raft.CurrentTerm() == term && !r.isHandingOver()
}

// notLeader says where the leader is instead.
func (r *Raft) notLeader() error {
	to, here, _ := r.leader()
	if here && !r.isHandingOver() {
		return &NotLeaderError{Leader: to}
	}
	if here {
		to.Address = ""
	}
	return &NotLeaderError{Leader: to}
}
