// Package agent builds one node and starts and stops it in order.
//
//	config files ─► data directory ─► store ─► route table ─► listeners ─► proxy ─► API
//
// Each part is started only when all that it leans on stands, and everything that can fail does so before the first
// request is answered: a node that serves is whole. It serves from its own disk first and needs nobody else for it.
// Stopping goes the other way, in one function (shutdown.go) that says why each step has its place.
//
// New does no I/O, Open touches the disk and binds the listeners, Run serves until its context ends. Several agents can
// live in one process; they share nothing.
package agent
