// Package consensus gives the operators' writes one order.
//
// A Log takes transactions and brings each, once its place in the order is
// known, through the store's one door. Single is the log of a node that is
// alone. Nobody above this package can tell which Log it is talking to.
package consensus

import (
	"context"

	"grapevine/kv"
)

// Log puts operator writes in one order.
//
// Result.Succeeded without an error says whether the compares held. Errors are
// those of kv.View.Resolve and kv.Store.Merge, what the Check returned, and the
// context's.
type Log interface {
	// Propose returns when the write is durable, or refused.
	Propose(ctx context.Context, t kv.Txn) (kv.Result, error)
	// Trial does all of Propose but the merge.
	Trial(ctx context.Context, t kv.Txn) (kv.Result, error)
}

// Check refuses a candidate view by returning an error, which the proposer gets
// unchanged. It is called for one proposal at a time.
type Check func(current, candidate kv.View) error
