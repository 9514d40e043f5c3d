package consensus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// handOverTries: a second server may take what the first one could not.
const handOverTries = 2

// TransferLeadership makes another voter the leader, if this node leads: the one
// with the given server id, or, with "", the one that is reachable and least
// behind. raft itself would pick without asking whether it is alive. It returns
// when the other leads.
//
// Errors: a *NotLeaderError when this node does not lead; ErrNotMember when there is
// no such voter, or none that is reachable; what raft says when it failed, in which
// case this node leads on, or somebody else.
func (r *Raft) TransferLeadership(ctx context.Context, to string) error {
	if r.isClosed() {
		return ErrClosed
	}
	return r.handOver(ctx, to)
}

func (r *Raft) handOver(ctx context.Context, to string) error {
	i := r.instance()
	if i == nil || i.raft.State() != raft.Leader {
		return r.notLeader()
	}
	targets := r.targets(to)
	if len(targets) == 0 {
		return fmt.Errorf("leadership to %q: %w: no such voter is reachable", to, ErrNotMember)
	}
	// From here on this node neither writes nor reads as a leader, see stillLeads.
	r.addHandingOver(1)
	defer r.addHandingOver(-1)
	var err error
	for n := range handOverTries {
		target := targets[n%len(targets)]
		if err = r.handOverTo(ctx, i, target); err == nil {
			r.log.Info("leadership was handed over", "to", target.ID)
			return nil
		}
		if ctx.Err() != nil || i.raft.State() != raft.Leader {
			break
		}
	}
	return err
}

// targets are the voters that may lead instead, the best first.
func (r *Raft) targets(to string) []Peer {
	peers := slices.DeleteFunc(r.Peers(), func(p Peer) bool {
		return p.ID == r.server() || p.Role != RoleVoter || !p.Reachable || to != "" && p.ID != to
	})
	slices.SortStableFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Lag, b.Lag) })
	return peers
}

func (r *Raft) handOverTo(ctx context.Context, i *instance, target Peer) error {
	future := i.raft.LeadershipTransferToServer(raft.ServerID(target.ID), raft.ServerAddress(target.Address))
	done := make(chan error, 1)
	go func() { done <- i.await(future)[0] }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		err = r.follows(ctx)
	}
	if err != nil {
		return fmt.Errorf("leadership to %s: %w", target.ID, err)
	}
	return nil
}

// follows waits until this node follows another leader. raft itself only says that
// this one leads no longer, which may have other reasons.
func (r *Raft) follows(ctx context.Context) error {
	elected := time.After(2 * r.o.config("").ElectionTimeout)
	for {
		to, here, changed := r.leader()
		if to.Address != "" && !here {
			return nil
		}
		select {
		case <-changed:
		case <-elected:
			return ErrNoLeader
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Raft) addHandingOver(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handingOver += n
}

func (r *Raft) isHandingOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handingOver > 0
}
