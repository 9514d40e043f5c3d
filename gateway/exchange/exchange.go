package exchange

import (
	"context"
	"io"
	"net/netip"
	"time"
)

// Exchange is one request and its response. The zero value is ready for a
// front to fill.
type Exchange struct {
	Request  Request
	Response Response

	// Started is when the front had the request's head.
	Started time.Time
	// CorrelationID is the one id of this request, the client's or ours. Like the
	// slices of an Exchange it is invalid once that has finished: strings.Clone it
	// to keep it.
	CorrelationID string
	// Route, Cluster and Destination name what served the request; empty until
	// decided, and for answers that the gateway gives itself.
	Route, Cluster, Destination string
	// Attempts counts the destinations that were tried.
	Attempts int
	// Upstream is how long the attempts waited for a response's head, together.
	Upstream time.Duration
	// Asked is the request target as the client sent it.
	Asked []byte
	// BytesIn and BytesOut are the bytes of bodies, or of a tunnel, that went by:
	// the front counts them, and they are complete when hooks run.
	BytesIn, BytesOut int64
	// BodyErr is what reading the response's body gave instead of its end: the
	// destination's doing, or that of a client who left. The front sets it, and it
	// is nil where it was the client who took no more.
	BodyErr error
	// Reason is the problem code when the gateway gave the answer itself or the
	// response broke off, and empty otherwise.
	Reason string

	// Leash lets the exchange be ended from outside; nil where the front can't.
	Leash Leash

	// Interim relays an informational response (1xx) to the client. A front
	// that can't leaves it nil. It may be called from another goroutine while a
	// handler waits for the head, never after the handler returned.
	Interim func(status int, fields Fields)

	ctx      context.Context
	scratch  []byte
	hooks    []Hook
	memory   *Memory // nil without Use
	finished bool
}

// Request is what the client sent, as the chain has changed it so far.
type Request struct {
	// Method as sent; methods are case-sensitive (RFC 9110 §9.1).
	Method string
	// Target is the raw request target in origin form: the path as sent, and
	// the query with its question mark. What stands here when an upstream gets
	// the Exchange is what the destination receives.
	Target []byte
	// Authority is the host and port that the client asked for.
	Authority []byte
	// Protocol is the version that the client spoke: "1.0", "1.1", "2", "3".
	Protocol string
	// Scheme is "http" or "https": the client's side of the front, or what a
	// trusted proxy said of it.
	Scheme string
	// Fields hold no Host, Content-Length or Transfer-Encoding: the front
	// takes them out and the upstream makes its own.
	Fields Fields
	// Body is nil when the request has none. It may be a Rewinder.
	Body io.Reader
	// ContentLength is -1 when a body's length is unknown.
	ContentLength int64
	// Abandon ends a read of Body that waits for the client; the exchange can
	// still be answered, and its connection ends then. Nil where nothing waits.
	Abandon func()
	// Trailers hold the announced names at first, and their values once Body
	// has reached its end.
	Trailers Fields
	// Upgrade is "websocket" when the client asks for that protocol, which the
	// front can then switch to. Any other wish is left out.
	Upgrade string
	// Peer is the other end of the connection.
	Peer netip.AddrPort
	// Client is the address that the request is attributed to: the peer's, or
	// what a trusted proxy said. The zero Addr is an unknown client.
	Client netip.Addr
}

// Rewinder is what a request's body may be whose front keeps it in memory.
type Rewinder interface {
	// Rewind makes the body begin anew, so that it can be sent a second time. It is
	// false, and nothing has changed, when the body was not read to its end, or not
	// all of it is in memory.
	Rewind() bool
}

// Response is the answer. Its head is complete when a handler returns.
type Response struct {
	// Status 0 means that nobody is there to answer (the client left).
	Status int
	// Fields hold no Content-Length, Transfer-Encoding or hop-by-hop field.
	Fields Fields
	// Body is read by the front alone. An error other than io.EOF means that
	// the response broke off, and the front must not let it look whole.
	Body io.ReadCloser
	// ContentLength is -1 when unknown. For HEAD and 304 it is what a GET
	// would have had.
	ContentLength int64
	// Trailers are complete once Body has reached its end.
	Trailers Fields
	// Tunnel, with status 101 to a request that has Upgrade, is the other end of
	// the bytes that follow. The front copies both ways and closes it; a CloseWrite
	// method passes on that the client sends no more. It is not Body's.
	Tunnel io.ReadWriteCloser
}

// Hook is told once that an exchange has ended. err is nil when the whole
// response was handed to the client.
type Hook interface {
	Finished(x *Exchange, err error)
}

// Memory is what most exchanges need beside themselves, in one piece: a front that
// waits with many of them keeps it beside each, for the sake of the processor's
// caches.
type Memory struct {
	request, response [fieldsAtFirst]Field
	hooks             [hooksAtFirst]Hook
	scratch           [scratchSize]byte
}

const (
	fieldsAtFirst = 20
	hooksAtFirst  = 8
	// scratchSize is enough for what the chain says of a request.
	scratchSize = 512
)

// Use gives x the memory to begin with, before its first Reset. Only a front calls
// it.
func (x *Exchange) Use(m *Memory) {
	x.memory = m
	x.Request.Fields, x.hooks, x.scratch = m.request[:0], m.hooks[:0], m.scratch[:0]
}

// Reset makes x new for a request whose life is ctx's, keeping its memory. Only
// a front calls it.
func (x *Exchange) Reset(ctx context.Context) {
	fields, hooks := x.Request.Fields[:0], x.hooks[:0]
	scratch := x.scratch[:0]
	if cap(scratch) < scratchSize {
		scratch = make([]byte, 0, scratchSize)
	}
	*x = Exchange{ctx: ctx, hooks: hooks, scratch: scratch, memory: x.memory}
	x.Request.Fields, x.Response.Fields = fields, x.room()
}

// room is where the fields of a response that the gateway makes itself begin. Those
// of an upstream's are in memory that goes with its body.
func (x *Exchange) room() Fields {
	if x.memory == nil {
		return nil
	}
	return x.memory.response[:0]
}

// DropResponse gives up what the response holds, for another one.
func (x *Exchange) DropResponse() {
	r := &x.Response
	if r.Body != nil {
		r.Body.Close()
	}
	r.Status, r.Fields, r.Body, r.ContentLength, r.Trailers = 0, x.room(), nil, 0, nil
}

// Context ends when the client has gone or the exchange has finished.
func (x *Exchange) Context() context.Context {
	if x.ctx == nil {
		return context.Background()
	}
	return x.ctx
}

// RelayInterim relays an informational response of a destination, without what
// ends at this hop.
func (x *Exchange) RelayInterim(status int, fields Fields) {
	if x.Interim == nil {
		return
	}
	fields.DropHopByHop()
	x.Interim(status, fields)
}

// OnFinish adds a hook. Hooks run in the reverse of the order they were added.
func (x *Exchange) OnFinish(h Hook) { x.hooks = append(x.hooks, h) }

// Finish closes the response's body and its tunnel and runs the hooks. Only the
// front calls it, after its last use of the response; a second call does nothing.
func (x *Exchange) Finish(err error) {
	if x.finished {
		return
	}
	x.finished = true
	if x.Response.Body != nil {
		x.Response.Body.Close()
	}
	if x.Response.Tunnel != nil {
		x.Response.Tunnel.Close()
	}
	for i := len(x.hooks) - 1; i >= 0; i-- {
		x.hooks[i].Finished(x, err)
	}
	clear(x.hooks)
}

// Scratch gives an empty slice to append to, whose memory lives as long as the
// exchange. What was appended is handed to Keep before the next Scratch.
func (x *Exchange) Scratch() []byte { return x.scratch[len(x.scratch):] }

// Keep takes what was appended to Scratch, and gives it back.
func (x *Exchange) Keep(b []byte) []byte {
	if cap(b) == cap(x.scratch)-len(x.scratch) { // it still is in the same memory
		x.scratch = x.scratch[:len(x.scratch)+len(b)]
	} else {
		x.scratch = b
	}
	return b[:len(b):len(b)]
}

// Handler answers an exchange: it fills Response and returns.
type Handler interface{ Serve(x *Exchange) }

// HandlerFunc is a function as a Handler.
type HandlerFunc func(x *Exchange)

// Serve calls f.
func (f HandlerFunc) Serve(x *Exchange) { f(x) }

// Middleware wraps a handler. What it does before calling next sees the
// request, what it does after sees the response's head.
type Middleware func(next Handler) Handler

// Chain composes steps around last; the first step is the outermost.
func Chain(last Handler, steps ...Middleware) Handler {
	for i := len(steps) - 1; i >= 0; i-- {
		last = steps[i](last)
	}
	return last
}
