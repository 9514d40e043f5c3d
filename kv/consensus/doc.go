// Package consensus gives operator writes one order.
//
// A write is a kv.Txn. It passes through a Log: resolved against the newest view
// into a kv.Commit, checked as a candidate, made durable, merged into the store.
// One write at a time goes through these steps, so that two writes which are each
// valid cannot make an invalid pair.
//
//	Propose ─► resolve ─► check ─► merge (one sync for all that waited)
//
// Single is the Log of a node that is alone: its own store is the order. All
// methods may be called by any number of goroutines.
package consensus
