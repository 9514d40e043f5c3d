package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// heralds tell followers at once what is committed. raft tells them with the next
// call that it makes anyway: when no write follows, that is one to two times its
// CommitTimeout of 50 ms later, and to make that shorter would have raft call all
// the time, also when nothing is written.
//
// What is told is a call of raft's own, without entries: this entry, of this term,
// is committed. A follower that has another entry there, or none, refuses it, and
// learns what it lacks as ever.
type heralds struct {
	mu    sync.Mutex // guards under
	under map[raft.ServerID]bool
}

// tell has every other server told that the entry of this index and term is
// committed. It waits for nobody; a server that has not answered the last time is
// left to raft.
func (r *Raft) tell(i *instance, index, term uint64) {
	for _, server := range i.raft.GetConfiguration().Configuration().Servers {
		if string(server.ID) != r.server() && r.heralds.begin(server.ID) {
			r.tasks.Go(func() {
				defer r.heralds.end(server.ID)
				r.tellOne(server, index, term)
			})
		}
	}
}

func (r *Raft) tellOne(to raft.Server, index, term uint64) {
	call := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax,
			ID:              []byte(r.server()),
			Addr:            r.transport.EncodePeer(raft.ServerID(r.server()), raft.ServerAddress(r.o.Address)),
		},
		Term: term, PrevLogEntry: index, PrevLogTerm: term, LeaderCommitIndex: index,
	}
	// Nothing depends on the answer: raft tells the same again.
	_ = r.transport.AppendEntries(to.ID, to.Address, call, &raft.AppendEntriesResponse{})
}

func (h *heralds) begin(to raft.ServerID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.under[to] {
		return false
	}
	if h.under == nil {
		h.under = map[raft.ServerID]bool{}
	}
	h.under[to] = true
	return true
}

func (h *heralds) end(to raft.ServerID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.under, to)
}
