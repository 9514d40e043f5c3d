package consensus

import (
	"context"
	"time"

	"grapevine/kv"
)

// maxPatience bounds how long a leader works on a call for a node that may be
// gone.
const maxPatience = time.Minute

// Leader is where a node believes the leader is.
type Leader struct {
	// Address is the leader's host and port; "" if nobody is known.
	Address string
	// Term is raft's term in which it leads. The leader does nothing in the name of
	// another term: a call that was long under way must not be carried out after its
	// caller has asked another leader.
	Term uint64
}

// Remote calls the leader. A *NotLeaderError says that the other does not lead in
// that term, an *UnreachableError that nothing was sent, an *UnknownError that no
// answer came. Any other error is the answer. Client is one over HTTP.
type Remote interface {
	Propose(ctx context.Context, to Leader, t kv.Txn) (kv.Result, error)
	Trial(ctx context.Context, to Leader, t kv.Txn) (kv.Result, error)
	// Read gives a revision that the leader had reached, after it made sure that it
	// still leads: what was acknowledged before the call is in it.
	Read(ctx context.Context, to Leader) (kv.Rev, error)
}
