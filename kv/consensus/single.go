package consensus

import (
	"context"
	"sync"

	"grapevine/kv"
)

// Single is the Log of a node that is alone: the order is that in which
// proposals take its lock. All methods may be called by any number of
// goroutines.
type Single struct {
	store *kv.Store
	check Check

	// order lets one proposal at a time be resolved, checked and merged, so that
	// two writes which are each valid can't make an invalid pair.
	order sync.Mutex
}

// NewSingle makes the log of a store. A nil check accepts everything.
func NewSingle(store *kv.Store, check Check) *Single {
	if check == nil {
		check = func(_, _ kv.View) error { return nil }
	}
	return &Single{store: store, check: check}
}

// Propose returns when the write is synced, or refused and nothing has changed.
func (s *Single) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	s.order.Lock()
	defer s.order.Unlock()
	commit, result, err := s.judge(ctx, t)
	if err != nil || commit.Rev.IsZero() {
		return result, err
	}
	if err := s.store.Merge(commit); err != nil {
		return kv.Result{}, err
	}
	return result, nil
}

// Trial does all of Propose but the merge. Its result tells the revision that
// the write would have had.
func (s *Single) Trial(ctx context.Context, t kv.Txn) (kv.Result, error) {
	s.order.Lock()
	defer s.order.Unlock()
	_, result, err := s.judge(ctx, t)
	return result, err
}

// judge resolves and checks a transaction. The zero commit changes nothing. A
// proposal whose caller has left is not begun; one that has begun is finished.
func (s *Single) judge(ctx context.Context, t kv.Txn) (kv.Commit, kv.Result, error) {
	if err := ctx.Err(); err != nil {
		return kv.Commit{}, kv.Result{}, err
	}
	current := s.store.View()
	commit, result, err := current.Resolve(t)
	if err != nil || commit.Rev.IsZero() {
		return kv.Commit{}, result, err
	}
	candidate, err := current.Apply(commit)
	if err != nil {
		return kv.Commit{}, kv.Result{}, err
	}
	if err := s.check(current, candidate); err != nil {
		return kv.Commit{}, kv.Result{}, err
	}
	return commit, result, nil
}
