// Package gateway turns a view of the configuration into a route table and
// serves it.
//
//	view ──► plan ──► Table ──► one atomic pointer ──► requests
//	         pure     live: pools, counters, chain
//
// A plan says what shall be served and what is wrong with the rest; it touches
// nothing, so the same code judges a write before it is accepted (Check). A
// Table is a plan made live. It is immutable and holds everything that a
// request needs; a request loads it once and finishes on the table it began
// with. Pools and counters whose destination or cluster lives on are carried
// over from table to table, so a change closes no connection that is still
// wanted.
//
// One bad key never takes another down. It is quarantined: the last version of
// it that was good is served, or 503 when there is none, and never what lies in
// a layer below (see quarantine.go).
//
// All exported methods are safe for concurrent use, except that Use must come
// before Load.
package gateway
