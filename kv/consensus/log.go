package consensus

import (
	"context"

	"grapevine/kv"
)

// Log puts operator writes in one order. A Result that did not succeed, without
// an error, means that the transaction's compares did not hold.
type Log interface {
	// Propose returns when the write is durable and in the store, or refused. An
	// error of ctx means that the write was not tried.
	Propose(ctx context.Context, t kv.Txn) (kv.Result, error)
	// Trial does all that Propose does but the write: its Result is what Propose
	// would give now.
	Trial(ctx context.Context, t kv.Txn) (kv.Result, error)
}

// Check looks at the view that a write would make, beside the one it would
// replace. An error refuses the write; the proposer gets it as it is.
type Check func(current, candidate kv.View) error
