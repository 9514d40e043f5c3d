// Package cluster is one node's part in a cluster: it puts together who the node
// is, its port, the order of writes, and what spreads them.
//
//	             ┌ gv-raft/1    kv/consensus   one order of writes, on voters
//	mux ─────────┼ gv-ml/1, UDP kv/gossip      who is there
//	(identity)   ├ gv-spread/1  kv/gossip      pushes and pulls
//	             ├ gv-peer/1    calls          HTTP between nodes: writes to the leader, its answers, the API
//	             └ gv-join/1    identity.Door  those who are no node yet
//
// A Node begins outside of any cluster. It enters one by what its disk says, by
// founding one, or by a join token, which may take as long as it takes: meanwhile
// its store serves what it holds. From then on it is a member until it leaves.
//
// A Node may be used by any number of goroutines.
package cluster
