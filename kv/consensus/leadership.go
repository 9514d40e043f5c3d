package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// leader is where the leader is, as far as this node knows, or who may know. changed
// is closed when that may be another.
func (r *Raft) leader() (to Leader, here bool, changed <-chan struct{}) {
	// On a node whose disk hangs raft does not notice that others have another leader.
	hangs := r.watch.hangs()
	var others []string
	if hangs {
		others = r.otherVoters()
	}
	r.mu.Lock()
	i, changed := r.current, r.moved
	if hangs && i != nil && len(others) > 0 {
		i = nil
		if len(r.fallback) == 0 {
			r.fallback = others
		}
	}
	if i == nil && len(r.fallback) > 0 {
		// Whoever is asked says who leads.
		to.Address = r.fallback[0]
		r.fallback = append(r.fallback[1:len(r.fallback):len(r.fallback)], to.Address)
	}
	r.mu.Unlock()
	if i == nil {
		return to, false, changed
	}
	address, id := i.raft.LeaderWithID()
	return Leader{Address: string(address), Term: i.raft.CurrentTerm()}, string(id) == r.server(), changed
}

func (r *Raft) signalMoved() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.moved)
	r.moved = make(chan struct{})
}

// settleAgain is the pause before a leader that could not settle, and still leads,
// tries again: as when it tried to hand over and did not succeed.
const settleAgain = 100 * time.Millisecond

// watchLeadership tells whoever waits for a leader, and OnLeadership, until the
// instance ends.
func (r *Raft) watchLeadership(i *instance) {
	seen := make(chan raft.Observation, 1) // one that was not taken says as much as two
	observer := raft.NewObserver(seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	i.raft.RegisterObserver(observer)
	defer i.raft.DeregisterObserver(observer)
	leads := false
	tell := func(now bool) {
		if leads != now {
			leads = now
			r.o.OnLeadership(now)
		}
	}
	defer tell(false)
	for {
		var again <-chan time.Time
		if elected := i.raft.State() == raft.Leader; !elected {
			tell(false)
		} else if _, err := i.settle(); err == nil {
			tell(true)
		} else {
			again = time.After(settleAgain)
		}
		select {
		case <-seen:
			r.signalMoved()
		case <-i.raft.LeaderCh():
			r.signalMoved()
		case <-again:
		case <-i.ending:
			return
		}
	}
}
