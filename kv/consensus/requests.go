package consensus

import (
	"context"

	"grapevine/kv"
)

// Propose makes a write, wherever the leader is, and goes on trying over
// elections until ctx ends. A missing ID is made; with one, a caller may ask again
// without the write being done twice, as long as no 4,096 commits came between.
//
// Errors: what Check, Admit or the store refused the write with; an
// *UnavailableError when no leader took it; an *UnknownError when one may have; in
// both, ctx's error. Result as for Log.
func (r *Raft) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	return r.requests().propose(ctx, t, func(ctx context.Context, t kv.Txn) (kv.Result, error) {
		return r.proposeHere(ctx, 0, t)
	})
}

// Trial has the leader judge a write, and changes nothing. Errors as for Propose,
// but for UnknownError.
func (r *Raft) Trial(ctx context.Context, t kv.Txn) (kv.Result, error) {
	return r.requests().trial(ctx, t, func(ctx context.Context, t kv.Txn) (kv.Result, error) {
		return r.trialHere(ctx, 0, t)
	})
}

// Read gives this node's view once it holds all that was acknowledged before the
// call, on any node. Who can do with less reads the Store and waits for nobody.
// Errors: an *UnavailableError when no leader answers, and ctx's error when this
// node does not catch up.
func (r *Raft) Read(ctx context.Context) (kv.View, error) {
	return r.requests().read(ctx, func(ctx context.Context) (kv.Rev, error) { return r.readHere(ctx, 0) })
}

func (r *Raft) requests() requests {
	return requests{route: route{leader: r.leader, voters: r.voters, quit: r.quit}, store: r.o.Store, remote: r.o.Remote}
}

// Edge is the Log of a node that has no part in raft: it calls the leader. Its
// store gets commits in other ways.
type Edge struct {
	// Store is this node's.
	Store *kv.Store
	// Remote calls the leader.
	Remote Remote
	// Leader is where the leader is, as this node has heard, and changed is closed
	// when there is news. A wrong or old one is put right by whoever is asked.
	Leader func() (to Leader, changed <-chan struct{})
	// Voters are the ids of all voters, and of those that can't be reached.
	Voters func() (all, unreachable []string)
}

// Propose is as that of Raft.
func (e *Edge) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	return e.requests().propose(ctx, t, nil)
}

// Trial is as that of Raft.
func (e *Edge) Trial(ctx context.Context, t kv.Txn) (kv.Result, error) {
	return e.requests().trial(ctx, t, nil)
}

// Read is as that of Raft.
func (e *Edge) Read(ctx context.Context) (kv.View, error) {
	return e.requests().read(ctx, nil)
}

func (e *Edge) requests() requests {
	leader := func() (Leader, bool, <-chan struct{}) {
		to, changed := e.Leader()
		return to, false, changed
	}
	return requests{route: route{leader: leader, voters: e.Voters}, store: e.Store, remote: e.Remote}
}
