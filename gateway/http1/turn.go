package http1

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"grapevine/gateway/exchange"
)

// errLateHead: RFC 9110 §15.5.9.
var errLateHead = &Refusal{408, "request_timeout", "The request's head did not come in time."}

// turn is what a connection needs while it has a request: it is taken when the
// first byte is there, and given back when the connection is idle.
type turn struct {
	c    *conn
	x    exchange.Exchange
	head RequestHead // its fields are in the memory of x's
	body *requestBody

	// in[from:to] is read and not used. in is page, or larger when something did not
	// fit; older holds the head when that is not in in.
	in       []byte
	from, to int
	bodyAt   int // where in may be overwritten: behind the head
	larger   *buffer
	older    *buffer

	// mu is held while something is written before the final head. It guards begun
	// and expects.
	mu      sync.Mutex
	begun   bool // the final head is written, or about to be
	expects bool // the client waits for 100

	skipEmptyLine bool // before a request
	parsed        bool // isWhole has parsed the head

	broken bool // the connection must end with this exchange

	// relayInterim is bound once.
	relayInterim func(status int, fields exchange.Fields)

	firstBody requestBody

	// What is large is behind what is small: so a request that waits has a few
	// neighbouring pages of memory, and not one for each of these.
	memory exchange.Memory
	page   [turnPage]byte
}

var turns = sync.Pool{New: func() any {
	t := new(turn)
	t.body, t.relayInterim = &t.firstBody, t.interim
	t.firstBody.init(t)
	t.x.Use(&t.memory)
	t.head.Fields = t.x.Request.Fields
	return t
}}

func takeTurn(c *conn) *turn {
	t := turns.Get().(*turn)
	t.c, t.in, t.skipEmptyLine, t.parsed = c, t.page[:], true, false
	return t
}

func (t *turn) release() {
	t.from, t.to = 0, 0
	t.settle()
	t.x.Reset(context.Background()) // it must not keep what it served
	t.c = nil
	turns.Put(t)
}

// settle ends the use of everything that was read but what is ahead, and brings
// that to the front.
func (t *turn) settle() {
	ahead := t.in[t.from:t.to]
	if t.older != nil {
		t.older.release()
		t.older = nil
	}
	if n := copy(t.page[:], ahead); n == len(ahead) {
		spoil(t.page[n:])
		if t.larger != nil {
			t.larger.release()
			t.larger = nil
		}
		t.in = t.page[:]
	} else {
		copy(t.in, ahead)
		spoil(t.in[len(ahead):])
	}
	t.from, t.to = 0, len(ahead)
	t.skipEmptyLine = true
	t.head.Fields = t.x.Request.Fields[:0]
}

// enlarge gives in more room. What it held stays where it is.
func (t *turn) enlarge() {
	b := buffers.Get().(*buffer)
	n := copy(b.b[:], t.in[t.from:t.to])
	t.older, t.larger = t.larger, b
	t.in, t.from, t.to = b.b[:], 0, n
}

// ahead is how many bytes are read and not used.
func (t *turn) ahead() int { return t.to - t.from }

// readHead reads a request's head, of which bytes are there. The error is a
// *Refusal, or what the connection says.
func (t *turn) readHead() error {
	if t.parsed {
		t.parsed = false
		return nil
	}
	t.c.armRead(t.c.s.headTimeout())
	err := t.parseHead()
	if inTime := t.c.restRead(); !inTime || errors.Is(err, os.ErrDeadlineExceeded) {
		return errLateHead
	}
	return err
}

func (t *turn) parseHead() error {
	for seen := 0; ; {
		if t.headBegins() {
			n, err := t.head.Parse(t.in[t.from:t.to], seen)
			if n > 0 || err != nil {
				t.from += n
				t.bodyAt = t.from
				return err
			}
			seen = t.ahead()
		}
		if err := t.fill(); err != nil {
			return err
		}
	}
}

// isWhole tells whether all of a request is there, and nothing more of the client
// is needed to answer it.
func (t *turn) isWhole() bool {
	if !t.headBegins() {
		return false
	}
	n, err := t.head.Parse(t.in[t.from:t.to], 0)
	if n == 0 || err != nil {
		return false // readHead will say so
	}
	t.from += n
	t.bodyAt = t.from
	t.parsed = t.head.Framing != NoBody || t.head.Upgrade != ""
	return !t.parsed
}

// headBegins takes away one empty line, which may stand before a request (RFC
// 9112 §2.2), and tells whether there is something behind it.
func (t *turn) headBegins() bool {
	in := t.in[t.from:t.to]
	if t.skipEmptyLine && len(in) > 1 {
		t.skipEmptyLine = false
		if in[0] == '\r' && in[1] == '\n' {
			t.from += 2
		}
	}
	return t.ahead() > 0 && (!t.skipEmptyLine || in[0] != '\r')
}

// fill reads more behind what is ahead.
func (t *turn) fill() error {
	if t.to == len(t.in) {
		t.enlarge()
	}
	n, err := t.c.Read(t.in[t.to:])
	t.to += n
	if n > 0 {
		return nil
	}
	return err
}

// refill reads more of a body when nothing is ahead.
func (t *turn) refill() error {
	const least = 1 << 10
	if t.from, t.to = t.bodyAt, t.bodyAt; len(t.in)-t.bodyAt < least {
		t.enlarge()
		t.bodyAt = 0
	}
	return t.fill()
}

// exchange answers the request whose head was read.
func (t *turn) exchange() next {
	t.fillExchange()
	t.handle()
	if t.x.Response.Status == 101 && t.x.Response.Tunnel != nil && t.x.Request.Upgrade != "" {
		t.switchProtocols()
		return end
	}
	p, err := t.answer()
	t.body.stop()
	t.x.Finish(err)
	t.c.renewLife()
	switch {
	case err != nil && p.framing == ByClose: // where the connection's end is the body's
		return breakOff
	case tooSlow(err): // what it has not taken would lie in the kernel until it does
		return breakOff
	case err != nil: // answers before it may still be on their way
		return hearOut
	case !p.keep && t.body.settled() && t.ahead() == 0 && !t.head.KeepAlive:
		return end // the client said that it sends no more
	case !p.keep || !t.body.drain():
		return hearOut
	}
	t.settle()
	return wait
}

// fillExchange describes the request.
func (t *turn) fillExchange() {
	x, h, c := &t.x, &t.head, t.c
	life := c.life.Load()
	x.Reset(life)
	x.Leash = life
	x.Started = time.Now()
	r := &x.Request
	r.Fields = h.Fields
	r.Method, r.Target, r.Authority, r.Trailers, r.Upgrade = h.Method, h.Target, h.Authority, h.Trailers, h.Upgrade
	r.Scheme, r.Peer, r.Client = c.scheme, c.peer, c.peer.Addr()
	r.Protocol = "1.1"
	if h.Minor == 0 {
		r.Protocol = "1.0"
	}
	if h.Minor == 1 {
		x.Interim = t.relayInterim // HTTP/1.0 has no 1xx (RFC 9110 §15.2)
	}
	t.begun, t.broken, t.expects = false, false, h.ExpectContinue
	if t.body = t.body.reuse(); t.body.begin() {
		r.Body, r.ContentLength, r.Abandon = t.body, h.ContentLength, t.body.abandonRead
	}
}

// handle has the handler fill the response.
func (t *turn) handle() {
	defer t.recoverHandler()
	t.c.beginWait()
	t.c.s.Handler.Serve(&t.x)
	t.c.endWait()
}

func (t *turn) recoverHandler() {
	if cause := recover(); cause != nil {
		t.c.endWait()
		t.logPanic(cause)
		t.broken = true
		t.x.Fail(exchange.Problem{Status: 500, Code: "internal_error", Detail: "The gateway could not serve the request."})
	}
}

func (t *turn) logPanic(cause any) {
	t.c.s.logger().Error("request panicked", "route", t.x.Route, "correlationId", t.x.CorrelationID, "err", cause, "stack", string(debug.Stack()))
}

// refuse answers what is no request.
func (t *turn) refuse(r *Refusal) next {
	t.x.Reset(t.c.life.Load())
	t.x.Started = time.Now()
	t.begun, t.broken, t.expects = false, true, false
	t.body = t.body.reuse()
	t.x.Request.Peer, t.x.Request.Client = t.c.peer, t.c.peer.Addr()
	problem := exchange.Problem{Status: r.Status, Code: r.Code, Detail: r.Detail}
	if refuse := t.c.s.Refuse; refuse != nil {
		refuse(&t.x, problem)
	} else {
		t.x.Fail(problem)
	}
	_, err := t.answer()
	t.x.Finish(err)
	t.c.renewLife()
	if err == nil && r != errLateHead {
		return hearOut
	}
	return end
}

// linger ends a connection whose client may still be sending: to close it at once
// would reset it, and the client could lose the answer (RFC 9112 §9.6).
func (t *turn) linger() {
	c := t.c
	if !c.closeWrite() {
		return
	}
	trash := pages.Get().(*page)
	defer trash.release()
	patience := lingerFor
	if t.body.settled() && t.ahead() == 0 {
		patience = lingerShort
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(patience)) // closed already, then
	for {
		if n, err := c.Read(trash.b[:]); n == 0 || err != nil {
			return
		}
	}
}

// unexpected is err in the midst of something.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
