package http1

import (
	"context"
	"errors"
	"io"
	"sync"

	"grapevine/gateway/exchange"
)

// attempt is one exchange with a destination. It is the response's body as well,
// and lives until that is closed.
type attempt struct {
	u      *Upstream
	x      *exchange.Exchange
	bounds exchange.Bounds

	link *link // nil before there is one, and when it is not needed any more
	// reused tells that the link had served another exchange.
	reused bool
	// unwatch stops what waits for the client to leave; false means that it has.
	unwatch func() bool
	sender  *sender // nil when the request was sent in one piece

	connected bool // to the destination, ever
	touched   bool // the request's body was read
	wrote     bool // a byte of the request was written
	answered  bool // a byte of the response came
	writeErr  error

	// page has the request's head with the first of its body, then the response's. It
	// is nil while the first of the answer is waited for, and the request was sent.
	page *page
	buf  []byte // page's, or larger when something did not fit
	out  int    // the request is buf[:out], until the page is given back
	sent int    // bytes of the request's body by length in it
	from int    // the response's unread bytes are buf[from:to]
	to   int

	// bodyAt is where the body begins in memory, behind the head.
	bodyAt int
	head   ResponseHead
	keep   bool // the link may serve another exchange
	body   Framing
	left   int64 // of a body by length
	chunks ChunkedDecoder
	err    error // what Read says from now on
}

// attempts holds attempts that have ended.
var attempts = sync.Pool{New: func() any { return new(attempt) }}

func newAttempt(u *Upstream, x *exchange.Exchange, b exchange.Bounds) *attempt {
	a := attempts.Get().(*attempt)
	a.u, a.x, a.bounds = u, x, b
	return a
}

// takePage takes memory for a message.
func (a *attempt) takePage() {
	a.page = pages.Get().(*page)
	a.buf, a.head.Fields = a.page.b[:], a.page.fields[:0]
}

// dropPage ends the use of what a message was in.
func (a *attempt) dropPage() {
	if a.page != nil {
		a.page.release()
	}
	a.page, a.buf, a.head.Fields = nil, nil, nil
}

// run sends the request and awaits the response's head.
func (a *attempt) run() error {
	if err := a.writeHead(); err != nil {
		a.connected = true // it is not the destination that is at fault
		return err
	}
	if err := a.connect(); err != nil {
		return err
	}
	whole, err := a.fillFirst()
	if err != nil {
		return err
	}
	err = a.try(whole)
	if err != nil && a.mayRepeat(err) {
		err = a.repeat(whole)
	}
	return err
}

// writeHead makes the request's head.
func (a *attempt) writeHead() error {
	a.takePage()
	head, err := a.appendHead()
	a.buf, a.out = head[:cap(head)], len(head)
	return err
}

// appendHead writes the head. A request of HTTP/1.0 may have no authority; what is
// sent on in HTTP/1.1 must, and is for the destination then.
func (a *attempt) appendHead() ([]byte, error) {
	r := &a.x.Request
	if len(r.Authority) > 0 {
		return AppendRequestHead(a.buf[:0], r)
	}
	r.Authority = a.u.host
	head, err := AppendRequestHead(a.buf[:0], r)
	r.Authority = nil
	return head, err
}

// connect takes an idle connection, or makes one.
func (a *attempt) connect() error {
	if l := a.u.pool.take(); l != nil {
		a.reused = true
		a.own(l)
		return nil
	}
	return a.dial()
}

func (a *attempt) dial() error {
	l, err := a.u.connect(a.x.Context(), a.bounds.Connect)
	if err != nil {
		return err
	}
	a.own(l)
	return nil
}

// own begins to use a link, until release.
func (a *attempt) own(l *link) {
	a.link, a.connected = l, true
	ctx := a.x.Context()
	if w, ok := ctx.(watchable); ok {
		a.unwatch = w.AfterFunc(l.leave)
	} else if ctx.Done() != nil {
		a.unwatch = context.AfterFunc(ctx, l.leave)
	}
}

// watchable is a context that calls functions by itself when it ends, as the
// package context knows it; a front may have one that does so without memory.
type watchable interface {
	AfterFunc(func()) (stop func() bool)
}

// try sends the request on the link and awaits the response's head.
func (a *attempt) try(whole bool) error {
	if err := a.send(whole); err != nil {
		return err
	}
	return a.awaitHead()
}

// mayRepeat tells whether the attempt can be made again on a new connection.
func (a *attempt) mayRepeat(err error) bool {
	switch {
	case !a.reused || a.answered || a.link.due.Load() < 0 || a.link.cause(err) == exchange.ErrTimeout:
		return false
	case !a.wrote:
		return a.sender == nil
	}
	return !a.touched && a.sender == nil && idempotent(a.x.Request.Method)
}

// idempotent is RFC 9110 §9.2.2.
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE":
		return true
	}
	return false
}

// repeat makes the attempt again, on a new connection.
func (a *attempt) repeat(whole bool) error {
	a.keep = false
	a.release()
	if a.wrote { // its page is gone, and it has no body
		a.dropPage()
		if err := a.writeHead(); err != nil {
			return err
		}
	}
	a.reused, a.wrote, a.writeErr = false, false, nil
	a.connected = a.touched // else another destination may have it
	if err := a.dial(); err != nil {
		return err
	}
	return a.try(whole)
}

// failure tells how far the attempt had come. It is called before end.
func (a *attempt) failure(err error) (exchange.Phase, error) {
	if a.link != nil {
		err = a.link.cause(err)
	}
	timedOut := errors.Is(err, exchange.ErrTimeout)
	stalled, bodyErr := a.sender.failure()
	switch {
	case timedOut && stalled:
		return exchange.PhaseRequestBody, err
	case timedOut && a.connected:
		return exchange.PhaseTimeout, err
	case !timedOut && (err == errGone || a.x.Context().Err() != nil):
		if phase := a.x.Ended(); phase == exchange.PhaseRecalled {
			return phase, errRecalled
		}
		return exchange.PhaseClientGone, errGone
	case !a.connected:
		return exchange.PhaseConnect, err
	case bodyErr != nil:
		return exchange.PhaseRequestBody, bodyErr
	}
	var broken *requestBodyError
	if errors.As(err, &broken) {
		return exchange.PhaseRequestBody, broken.err
	}
	if err == io.EOF && a.writeErr != nil {
		err = a.writeErr
	}
	return exchange.PhaseExchange, err
}

// release gives the link back when it may serve another exchange, and closes it
// otherwise.
func (a *attempt) release() {
	l := a.link
	if l == nil {
		return
	}
	a.link = nil
	still := a.unwatch == nil || a.unwatch()
	a.unwatch = nil
	if still && a.keep && a.from == a.to && a.sender.sentAll() && l.rest() && l.reset() {
		a.u.pool.put(l)
		return
	}
	a.u.pool.drop(l)
}

// end ends the attempt, and what it still does.
func (a *attempt) end() {
	a.keep = false
	a.release()
	a.sender.abandon()
	a.dropPage()
	chunks, trailers := a.chunks, a.head.Trailers[:0]
	chunks.Reset()
	a.forget()
	a.head.Trailers, a.chunks = trailers, chunks
	attempts.Put(a)
}

// forget drops everything but the page.
func (a *attempt) forget() {
	a.u, a.x, a.link, a.unwatch, a.sender = nil, nil, nil, nil, nil
	a.reused, a.connected, a.touched, a.wrote, a.answered, a.keep = false, false, false, false, false, false
	a.writeErr, a.err = nil, nil
	a.out, a.sent, a.from, a.to, a.left, a.bodyAt, a.body = 0, 0, 0, 0, 0, 0, NoBody
	a.head = ResponseHead{}
}
