// Package consensus gives operator writes one order.
//
// A write is a kv.Txn. It passes through a Log: resolved against the newest view
// into a kv.Commit, checked as a candidate, made durable, merged into the store.
// One write at a time goes through these steps, so that two writes which are each
// valid cannot make an invalid pair.
//
//	Propose ─► resolve ─► check ─► merge (one sync for all that waited)
//
// There are three. Single is the Log of a node that is alone: its own store is the
// order. Raft is that of a node among others: the leader takes these steps, and
// what is merged is first agreed on by a majority. Edge is that of a node which has
// no part in raft: it calls the leader, as a Raft that does not lead does too.
//
//	any node ─► leader: resolve ─► check ─► sign ─► raft's log ─► machine ─► Store.Merge
//	            one batch at a time         synced on a majority   on every server
//
// A request has an id. Whoever asks again with the same id, over a broken
// connection or an election, gets the answer of the first time and no second
// commit. An error tells whether a write was refused, was not tried (an
// UnavailableError), or may have happened (an UnknownError).
//
// raft runs as an instance on the node's stores, and is replaced by another when it
// has to read them anew. What this package keeps away from it, and from whom, is
// written at transport and watchedStore.
//
// All methods may be called by any number of goroutines. See
// docs/design/consensus.md for the reasons.
package consensus
