// Package http1 speaks HTTP/1.1 (RFC 9112): it parses and writes messages, and
// serves connections with exchanges.
//
//	bytes ──RequestHead.Parse──► Exchange ──► Handler ──► upstream
//	bytes ◄──AppendResponseHead── Response ◄──────────────────┘
//
// Parsing is strict where servers are known to disagree: what two readers of the
// same bytes could take for different messages is refused, never repaired. A
// parsed head is slices of the caller's buffer, and costs no allocation.
//
// Framing is made anew on the way out: Host, Content-Length and
// Transfer-Encoding are taken out of the fields on the way in, and no writer
// copies them.
package http1
