package http1

import (
	"cmp"
	"errors"
	"io"
	"math"
	"net/http"

	"grapevine/gateway/exchange"
)

var (
	// errClientLeft is a response that nobody is there for.
	errClientLeft = errors.New("the client left")
	// errNotFinal is a status below 200, which no handler may answer with, but for
	// the 101 of a tunnel that was asked for.
	errNotFinal = errors.New("the response has no final status")
	// errPanicked is a response whose body panicked.
	errPanicked = errors.New("the response's body panicked")
)

// buffered is a response's body that tells what it holds, so that it can be
// written with the head, and so that the head does not wait for what is not there.
type buffered interface {
	Buffered() []byte
	Discard(n int)
}

// plan is how a response is framed.
type plan struct {
	framing    Framing
	length     int64 // -1 for none
	keep       bool  // the connection
	connection string
}

func (t *turn) plan() plan {
	r, h := &t.x.Response, &t.head
	p := plan{length: r.ContentLength, keep: h.KeepAlive && !t.broken && !t.c.s.draining.Load() && !t.body.closes()}
	switch {
	case r.Status == http.StatusNoContent:
		p.framing, p.length = NoBody, -1 // RFC 9110 §8.6
	case h.Method == http.MethodHead || r.Status == http.StatusNotModified:
		p.framing = NoBody
	case r.Body == nil:
		p.framing, p.length = NoBody, 0
	case r.ContentLength >= 0:
		p.framing = ByLength
	case h.Minor == 0:
		p.framing, p.keep = ByClose, false // RFC 9112 §6.1: no chunks in HTTP/1.0
	default:
		p.framing = ByChunks
	}
	switch {
	case !p.keep:
		p.connection = "close"
	case h.Minor == 0:
		p.connection = "keep-alive"
	}
	return p
}

// answer writes the response. What can't be written, and what breaks off before
// anything was, becomes an answer of our own.
func (t *turn) answer() (plan, error) {
	if t.x.Response.Status == 0 {
		return plan{}, cmp.Or(t.x.Context().Err(), errClientLeft)
	}
	p, err := t.plan(), errNotFinal
	if t.x.Response.Status >= http.StatusOK {
		err = t.respond(p)
	}
	if err == nil || t.begun {
		return p, err
	}
	t.broken = true
	t.x.Fail(exchange.Problem{Status: 502, Code: "bad_response", Detail: "The service closed the connection or sent no valid response."})
	p = t.plan()
	return p, t.respond(p)
}

func (t *turn) respond(p plan) (err error) {
	out := pages.Get().(*page)
	defer func() {
		out.release()
		if cause := recover(); cause != nil {
			t.logPanic(cause)
			err = errPanicked
		}
	}()
	r := &t.x.Response
	if !r.Fields.Has("Date") { // RFC 9110 §6.6.1
		r.Fields = append(r.Fields, exchange.Field{Name: dateName, Value: *t.c.s.date.Load()})
	}
	head, err := AppendResponseHead(out.b[:0], r, p.framing, p.length, p.connection)
	switch {
	case err != nil:
		return err
	case p.framing == ByChunks:
		return t.sendChunks(head)
	case p.framing == ByLength && p.length > 0:
		return t.sendPlain(head, p.length)
	case p.framing == ByClose:
		return t.sendPlain(head, -1)
	}
	return t.send(head)
}

// sendPlain writes a body as it is; a length of -1 is until its end.
func (t *turn) sendPlain(head []byte, length int64) error {
	left := length
	if length < 0 {
		left = math.MaxInt64
	}
	buf, large := t.room(head, left)
	if large != nil {
		defer large.release()
	}
	n, err := t.first(buf[len(head):], min(left, int64(len(buf)-len(head))), length >= 0)
	if left -= int64(n); err == nil || n > 0 {
		if sendErr := t.sendBody(buf[:len(head)+n], n); sendErr != nil {
			return sendErr
		}
	}
	for left > 0 && err == nil {
		if moved, err := t.splice(left); err != nil {
			return err
		} else if moved > 0 {
			left -= moved
			continue
		}
		n, err = t.readBody(buf[:min(int64(len(buf)), left)])
		if left -= int64(n); n > 0 {
			if sendErr := t.sendBody(buf[:n], n); sendErr != nil {
				return sendErr
			}
		}
	}
	switch {
	case length < 0 && err == io.EOF, left == 0 && (err == nil || err == io.EOF):
		return nil
	}
	return unexpected(err)
}

// room is memory that begins with the head, for it and left bytes of body.
func (t *turn) room(head []byte, left int64) (buf []byte, large *buffer) {
	const least = 4 << 10
	if left <= int64(cap(head)-len(head)) || len(head) > largeSize-least {
		buf = head[:cap(head)]
		return buf, nil
	}
	large = buffers.Get().(*buffer)
	copy(large.b[:], head)
	return large.b[:], large
}

// first reads what goes out with the head: what the body holds already, or, if it
// doesn't tell and is known to be short in coming, what one read gives.
func (t *turn) first(p []byte, most int64, short bool) (n int, err error) {
	p = p[:most]
	ready, tells := t.x.Response.Body.(buffered)
	switch {
	case tells:
		for n < len(p) {
			m := copy(p[n:], ready.Buffered())
			if m == 0 {
				break
			}
			ready.Discard(m)
			n += m
		}
		return n, nil
	case short && len(p) > 0:
		return t.readBody(p)
	}
	return 0, nil
}

// readBody reads the response's body, which may wait for the upstream.
func (t *turn) readBody(p []byte) (int, error) {
	t.c.beginWait()
	n, err := t.x.Response.Body.Read(p)
	t.c.endWait()
	if err != nil && err != io.EOF {
		t.x.BodyErr = err
	}
	return n, err
}

// sendBody writes a piece that has n bytes of the response's body.
func (t *turn) sendBody(p []byte, n int) error {
	err := t.send(p)
	if err == nil {
		t.x.BytesOut += int64(n)
	}
	return err
}

// chunkTail is the room behind a chunk's data for its end and the last chunk.
const chunkTail = len("\r\n0\r\n\r\n")

// sendChunks writes a body of unknown length.
func (t *turn) sendChunks(head []byte) error {
	large := buffers.Get().(*buffer)
	defer large.release()
	if len(head) > largeSize/2 {
		if err := t.send(head); err != nil {
			return err
		}
		head = nil
	}
	at := copy(large.b[:], head)
	data := large.b[at+ChunkHeadroom : largeSize-chunkTail]
	n, err := t.first(data, int64(len(data)), false)
	if at > 0 || n > 0 {
		if err := t.sendBody(chunk(large.b[:], at, n), n); err != nil {
			return err
		}
	}
	data = large.b[ChunkHeadroom : largeSize-chunkTail]
	for err == nil {
		n, err = t.readBody(data)
		out := chunk(large.b[:], 0, n)
		if err == io.EOF {
			out = AppendLastChunk(out, t.x.Response.Trailers)
		}
		if len(out) > 0 {
			if sendErr := t.sendBody(out, n); sendErr != nil {
				return sendErr
			}
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// chunk puts a chunk's line and end around the n bytes of data that stand
// ChunkHeadroom behind the at bytes that b begins with, and those right before it.
func chunk(b []byte, at, n int) []byte {
	if n == 0 {
		return b[:at]
	}
	data := at + ChunkHeadroom
	begin := PutChunkHead(b, data, n) - at
	copy(b[begin:], b[:at])
	return append(b[begin:data+n], "\r\n"...)
}
