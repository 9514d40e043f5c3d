package http1

import (
	"io"

	"grapevine/gateway/exchange"
)

// Buffered is what a request's body may be, to be sent together with the head.
type Buffered interface {
	io.Reader
	// Buffered is how many bytes, at least, Read gives without waiting for the
	// client, before it gives anything else.
	Buffered() int
}

// requestBodyError is what the client's body gave instead of its end.
type requestBodyError struct{ err error }

func (e *requestBodyError) Error() string { return e.err.Error() }

// fillFirst puts the first of the body behind the head, as far as it is in
// memory already. whole is true when nothing is left to send.
func (a *attempt) fillFirst() (whole bool, err error) {
	r := &a.x.Request
	if r.Body == nil {
		return true, nil
	}
	b, ok := r.Body.(Buffered)
	if !ok {
		return false, nil
	}
	if chunked(r) {
		return a.fillChunk(b)
	}
	return a.fillLength(b, r.ContentLength)
}

// chunked tells whether AppendRequestHead frames the body by chunks.
func chunked(r *exchange.Request) bool { return r.ContentLength < 0 || len(r.Trailers) > 0 }

// fillLength takes what there is room for. A body that is in memory to its end is
// read to its end.
func (a *attempt) fillLength(b Buffered, length int64) (whole bool, err error) {
	for a.out < len(a.buf) && int64(a.sent) < length && b.Buffered() > 0 {
		n, err := a.readFirst(b, a.buf[a.out:])
		a.out, a.sent = a.out+n, a.sent+n
		if err == io.EOF && int64(a.sent) == length {
			return true, nil
		} else if err != nil {
			return false, short(err)
		}
	}
	if int64(a.sent) < length {
		return false, nil
	}
	a.touched = true
	return true, endOf(b, int64(a.sent), length)
}

// fillChunk makes what is in memory the first chunk.
func (a *attempt) fillChunk(b Buffered) (whole bool, err error) {
	begin := a.out + ChunkHeadroom
	end := len(a.buf) - len("\r\n")
	if b.Buffered() == 0 || begin >= end {
		return false, nil
	}
	n, err := a.readFirst(b, a.buf[begin:end])
	out := AppendChunk(a.buf[:a.out], a.buf[begin:begin+n]) // moves the data down
	switch {
	case err == io.EOF:
		out = AppendLastChunk(out, a.x.Request.Trailers)
	case err != nil:
		return false, short(err)
	}
	a.buf, a.out = out[:cap(out)], len(out)
	return err == io.EOF, nil
}

func (a *attempt) readFirst(b Buffered, p []byte) (int, error) {
	a.touched = true
	return b.Read(p)
}

// endOf checks that a body which gave n bytes ends, and that these are as many as
// was said.
func endOf(body io.Reader, n, length int64) error {
	var b [1]byte
	more, err := body.Read(b[:])
	switch {
	case more > 0 || n > length:
		return &requestBodyError{errBodyLonger}
	case err == io.EOF && n < length:
		return &requestBodyError{io.ErrUnexpectedEOF}
	case err == io.EOF || err == nil:
		return nil
	}
	return &requestBodyError{err}
}

// short is a body's error that came too early, be it the end.
func short(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &requestBodyError{err}
}

// send writes what is in memory of the request. It awaits the first of the answer
// as well when that is all of the request; else the rest is sent beside the wait
// for the head.
func (a *attempt) send(whole bool) error {
	a.from, a.to = 0, 0
	if whole {
		return a.sendWhole()
	}
	l := a.link
	l.await(a.bounds.Idle)
	n, err := l.conn.Write(a.buf[:a.out])
	if a.wrote = n > 0; err != nil {
		return a.notSent(err)
	}
	if !l.rest() || !l.reset() {
		return errLinkEnded
	}
	a.touched = true
	a.sender = startSender(a)
	return nil
}

// notSent is an error of sending. When something was sent the answer may have come
// before it; when nothing was, what could still come would answer nothing.
func (a *attempt) notSent(err error) error {
	if !a.wrote {
		return err
	}
	a.writeErr = err
	return nil
}

func (a *attempt) sendWhole() error {
	a.link.await(a.bounds.Timeout)
	sent, n, err := a.link.converse(a)
	a.wrote, a.answered, a.to = sent > 0, n > 0, n
	if err != nil && sent < a.out {
		return a.notSent(err)
	}
	return err
}
