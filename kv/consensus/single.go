package consensus

import (
	"context"
	"errors"

	"grapevine/kv"
)

// Single is the Log of a node that is alone.
//
// Writers that come while the disk is busy wait together, and the first of them
// whose turn it is writes for all: they share one sync.
type Single struct {
	store   *kv.Store
	check   Check
	waiting queue
	// turn holds one token while somebody writes.
	turn chan struct{}
}

// NewSingle returns the Log of a store that nobody else merges into. A nil check
// refuses nothing.
func NewSingle(store *kv.Store, check Check) *Single {
	if check == nil {
		check = func(_, _ kv.View) error { return nil }
	}
	return &Single{store: store, check: check, turn: make(chan struct{}, 1)}
}

// Trial resolves and checks against the newest view.
func (s *Single) Trial(ctx context.Context, t kv.Txn) (kv.Result, error) {
	if err := ctx.Err(); err != nil {
		return kv.Result{}, err
	}
	p := &proposal{txn: t}
	s.check.try(p, s.store.View())
	return p.result, p.err
}

// Propose queues the transaction and then waits: for somebody to write it, or for
// its own turn to write.
func (s *Single) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	if err := ctx.Err(); err != nil {
		return kv.Result{}, err
	}
	p := &proposal{txn: t, done: make(chan struct{})}
	s.waiting.add(p)
	select {
	case <-p.done:
	case s.turn <- struct{}{}:
		s.writeUntil(p)
	case <-ctx.Done():
		if s.waiting.remove(p) {
			return kv.Result{}, ctx.Err()
		}
		<-p.done // somebody is writing it already
	}
	return p.result, p.err
}

// writeUntil writes batches until p has been written, and ends the turn.
func (s *Single) writeUntil(p *proposal) {
	defer func() { <-s.turn }()
	for !p.isDone() {
		s.write(s.waiting.take())
	}
}

// write decides a batch and answers it.
func (s *Single) write(batch []*proposal) {
	err := s.merge(batch)
	if errors.Is(err, kv.ErrDiskFull) && len(batch) > 1 {
		s.writeEach(batch)
		return
	}
	for _, p := range batch {
		p.finish(err)
	}
}

// writeEach gives every proposal a try of its own, so that a large one does not
// take the small ones with it when the disk is full.
func (s *Single) writeEach(batch []*proposal) {
	for _, p := range batch {
		p.finish(s.merge([]*proposal{p}))
	}
}

// merge tries the proposals one after the other, each on the view that the one
// before would make, and merges what they change at once.
func (s *Single) merge(batch []*proposal) error {
	view := s.store.View()
	var commits []kv.Commit
	for _, p := range batch {
		if next, changed := s.check.try(p, view); changed {
			commits = append(commits, p.commit)
			view = next
		}
	}
	return s.store.Merge(commits...)
}
