// Package consensus gives operator writes one order.
package consensus

import (
	"context"

	"grapevine/kv"
)

// Log puts operator writes in one order. Result.Succeeded without an error says
// whether the compares held.
type Log interface {
	// Propose returns when the write is durable, or refused.
	Propose(ctx context.Context, t kv.Txn) (kv.Result, error)
	// Trial does all of Propose but the merge.
	Trial(ctx context.Context, t kv.Txn) (kv.Result, error)
}

// Check refuses a candidate view by returning an error, which the proposer gets
// unchanged.
type Check func(current, candidate kv.View) error

// Single is the Log of a node that is alone.
type Single struct {
	store *kv.Store
	check Check
}

func NewSingle(store *kv.Store, check Check) *Single { return &Single{store: store, check: check} }

func (s *Single) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	return s.Trial(ctx, t)
}

func (s *Single) Trial(ctx context.Context, t kv.Txn) (kv.Result, error) {
	_, r, err := s.store.View().Resolve(t)
	return r, err
}
