// Package announcing holds the leases of the instances that are announced at this node.
//
//	          Announce               Drain                     Close, DELETE, a policy
//	(nobody) ─────────► served ────────────► draining ─────────────────────────────────► gone
//	                      │  ▲                  │
//	          Announce    │  │    Undrain       │
//	      of the same id  └──┴──────────────────┘
//	 (the former connection gets superseded; the key stays)
//
// A lease is one connection: as long as it stands, the instance's key is among the keys of this node
// (kv.Own), and so on every node. When the agent stops, Close keeps the keys, so that the instances can
// come back to the next start.
//
// Draining is a handshake with every live gateway: each answers when it sends the instance nothing any more, so that
// its process may end without a failed request.
//
// Leases may be used by any number of goroutines.
package announcing
