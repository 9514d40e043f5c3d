// Package health knows which destinations of a cluster can be used: by asking
// them (active checks), and by what happens to requests (passive ejection).
//
//	           check fails            failures in a row
//	Unhealthy ◄───────────── Healthy ─────────────────► Ejected
//	          ─────────────►    ▲  ◄─────────────────
//	           checks succeed   │     time is over and a check succeeds
//	                         Unknown (used as well: nothing speaks against it)
//
// A Group is the health of one cluster's destinations, a Member that of one
// address in it. They outlive the tables that use them, so that a change
// elsewhere resets nothing. The Monitor runs the checks; groups that ask an
// address in the same way share them.
//
// What a request pays is Member.Succeeded or Member.Failed: an atomic or two, and a
// lock only when a destination is taken out. All is this node's own: it has seen
// what it acts on.
//
// All exported methods are safe for concurrent use.
package health
