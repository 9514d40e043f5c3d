// Package breaker stops asking what keeps failing.
//
//	          threshold reached
//	closed ─────────────────────► open
//	  ▲                          │   ▲
//	  │ all probes went well     │   │ a probe failed
//	  └──────── half-open ◄──────┘───┘
//	                break is over
//
// Closed, a Breaker lets every call pass and counts how those of the latest
// window ended. Open, it lets none pass. Half-open, it lets a few probes pass,
// never more of them than its policy says. The count is of calls that have
// ended: one that is under way says nothing yet.
//
// It may be used by any number of goroutines. A call that passes takes no lock
// while it is under way, and allocates nothing.
package breaker
