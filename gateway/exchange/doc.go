// Package exchange is the seam of the data plane: one request on its way in
// and its response on its way back, with what was decided in between.
//
//	front ──makes──► Exchange ──► Handler chain ──► upstream
//	front ◄──pulls── Response.Body ◄───────────────────┘
//
// A front (an HTTP/1.1 engine, or an adapter to net/http) makes an Exchange and
// calls a Handler. The handler returns as soon as the response's head is known;
// the front then pulls the body, writes it, and calls Finish exactly once.
//
// An Exchange belongs to one goroutine at a time and is never shared. Every
// slice reached through it belongs to its maker and is invalid once it has
// finished; whoever keeps bytes copies them.
package exchange
