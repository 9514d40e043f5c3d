package consensus

import (
	"grapevine/kv"
)

// Home is raft's stores, which a test may keep over restarts.
type Home = home

// NewMemoryHome returns stores in memory that lose nothing.
func NewMemoryHome() *Home {
	return &home{backend: newMemoryLog(), snapshots: &memorySnapshots{}}
}

// OpenOn is Open on stores that outlive the Raft.
func OpenOn(o Options, h *Home) (*Raft, error) {
	o.home = h
	return Open(o)
}

// ForgetRequests plants a fault: a leader no longer recognises a request that was
// done.
func (r *Raft) ForgetRequests() {
	r.known = func(string) (kv.Result, bool) { return kv.Result{}, false }
}

// LocalView is what the node's store holds, asked of nobody.
func (r *Raft) LocalView() kv.View { return r.o.Store.View() }
