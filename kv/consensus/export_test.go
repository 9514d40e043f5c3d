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

// TrustItself plants a fault: a node that believes that it leads does not ask the
// others.
func (r *Raft) TrustItself() { r.verify = func(*instance) error { return nil } }
