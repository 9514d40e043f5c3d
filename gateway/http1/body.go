package http1

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"grapevine/gateway/exchange"
)

// bodyDirect is from where on chunk data is read past the turn's own memory.
const bodyDirect = 4 << 10

var (
	// errStopped is a read of a body whose exchange has ended.
	errStopped = errors.New("the request's body was read after its exchange had ended")
	// errAbandoned is a read that Abandon ended.
	errAbandoned = errors.New("the request's body was abandoned")
)

// requestBody is the body of a turn's request. An upstream may go on reading when
// the response has begun, from another goroutine; after stop nobody does.
type requestBody struct {
	t *turn
	// abandonRead is bound once.
	abandonRead func()
	abandoned   atomic.Bool
	// client is nil when no exchange has the body.
	client atomic.Pointer[conn]

	// mu is held while somebody reads; it guards what follows.
	mu      sync.Mutex
	framing Framing
	left    int64 // by length
	chunks  ChunkedDecoder
	err     error // what every further read says
	told    bool  // a reader has seen err
	stopped bool
	cut     bool // a read was under way when it was stopped
	start   int  // where in t.in it begins
	fetched bool // not all of it was there with the head
}

func (b *requestBody) init(t *turn) {
	b.t, b.err, b.told = t, io.EOF, true
	b.abandonRead = b.abandon
}

// reuse is a body for the next request. One that nobody read to its end may still
// have a reader, who must not get the next request's bytes.
func (b *requestBody) reuse() *requestBody {
	if !b.told {
		t := b.t
		b = new(requestBody)
		b.init(t)
	}
	b.abandoned.Store(false)
	b.framing, b.err, b.told, b.stopped, b.cut = NoBody, io.EOF, true, false, false
	return b
}

// begin is false when the request has no body.
func (b *requestBody) begin() bool {
	h := &b.t.head
	if h.Framing == NoBody || h.ContentLength == 0 {
		return false
	}
	b.client.Store(b.t.c)
	b.start, b.fetched = b.t.from, false
	b.restart()
	return true
}

func (b *requestBody) restart() {
	b.framing, b.left, b.err, b.told = b.t.head.Framing, b.t.head.ContentLength, nil, false
	b.chunks.Reset()
}

// Rewind begins anew, see exchange.Rewinder. What came with the head is still in
// memory. Trailers are not kept: whether they were announced is overwritten.
func (b *requestBody) Rewind() bool {
	if !b.mu.TryLock() { // somebody reads
		return false
	}
	defer b.mu.Unlock()
	switch {
	case b.fetched || b.stopped || b.abandoned.Load() || b.err != io.EOF || !b.told:
		return false
	case len(b.t.head.Trailers) > 0 || len(b.t.x.Request.Trailers) > 0:
		return false
	}
	b.t.from, b.t.x.BytesIn = b.start, 0
	b.restart()
	return true
}

// Read reads the body. It tells a client that waits for it to send the body.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
		return 0, errStopped
	case b.err != nil:
		b.told = true
		return 0, b.err
	case b.abandoned.Load():
		b.err = errAbandoned
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	}
	b.t.invite()
	c := b.t.c
	c.armRead(c.s.bodyTimeout())
	if b.abandoned.Load() { // since we looked, and a bound of its own has replaced what ends the read
		c.stopReads()
	}
	n, err := b.read(p)
	b.t.x.BytesIn += int64(n)
	if inTime := c.restRead(); b.abandoned.Load() && err != io.EOF {
		err = errAbandoned
	} else if !inTime || errors.Is(err, os.ErrDeadlineExceeded) {
		err = exchange.ErrTimeout
	}
	b.err = err
	b.told = err != nil
	return n, err
}

// read reads without a bound of its own.
func (b *requestBody) read(p []byte) (int, error) {
	if b.framing == ByLength {
		return b.readLength(p)
	}
	n, err := b.readChunks(p)
	if err == io.EOF && !b.stopped {
		b.t.x.Request.Trailers = b.chunks.Trailers
	}
	return n, err
}

func (b *requestBody) readLength(p []byte) (int, error) {
	n, err := b.readSome(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		return n, io.EOF
	}
	return n, unexpected(err)
}

// readSome reads what is ahead, or else from the connection.
func (b *requestBody) readSome(p []byte) (int, error) {
	t := b.t
	if t.ahead() == 0 {
		b.fetched = true
		return t.c.Read(p)
	}
	n := copy(p, t.in[t.from:t.to])
	t.from += n
	return n, nil
}

// readChunks decodes what is ahead. Large data is read past the turn's memory.
func (b *requestBody) readChunks(p []byte) (n int, err error) {
	t := b.t
	for n == 0 && err == nil {
		if t.ahead() == 0 {
			b.fetched = true
			if data := b.chunks.Data(); data > 0 && len(p) >= bodyDirect {
				n, err = t.c.Read(p[:min(int64(len(p)), data)])
				b.chunks.Skip(int64(n))
				return n, unexpected(err)
			}
			if err = t.refill(); err != nil {
				return 0, unexpected(err)
			}
		}
		var used int
		n, used, err = b.chunks.Decode(p, t.in[t.from:t.to])
		t.from += used
	}
	return n, err
}

// abandon ends a read that waits for the client. None does once the end was read.
func (b *requestBody) abandon() {
	if c := b.client.Load(); c != nil && !b.ended() {
		b.abandoned.Store(true)
		c.stopReads()
	}
}

// ended tells whether the body was read to its end, and nobody reads.
func (b *requestBody) ended() bool {
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	return b.err == io.EOF && b.told
}

// stop ends a read that is under way, and those to come. What the client still
// sends after a read was cut belongs to nobody.
func (b *requestBody) stop() {
	b.client.Store(nil)
	if b.mu.TryLock() {
		b.stopped = true
		b.mu.Unlock()
		return
	}
	b.abandoned.Store(true)
	b.t.c.stopReads()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped, b.cut = true, true
}

// closes tells, before the response's head is written, whether the connection has
// to end because of what is left of the body.
func (b *requestBody) closes() bool {
	if !b.mu.TryLock() {
		return true // somebody waits for the client at this moment, and won't get to the end
	}
	defer b.mu.Unlock()
	switch {
	case b.err != nil:
		return b.err != io.EOF
	case b.abandoned.Load() || b.t.waitsForContinue():
		return true
	}
	return b.framing == ByLength && b.left > b.t.c.s.maxDrain()
}

// settled tells, once it is stopped, whether the body was read to its end.
func (b *requestBody) settled() bool { return b.err == io.EOF && !b.cut && !b.abandoned.Load() }

// drain reads what is left of a body that was stopped, if that is little and comes
// soon. It is false when it can't be known where the next request begins.
func (b *requestBody) drain() bool {
	if b.settled() {
		return true
	}
	if b.err != nil || b.cut {
		return false
	}
	c := b.t.c
	c.armRead(lingerFor)
	trash := pages.Get().(*page)
	defer trash.release()
	var err error
	for left := c.s.maxDrain(); left >= 0 && err == nil; {
		var n int
		n, err = b.read(trash.b[:])
		left -= int64(n)
	}
	return c.restRead() && err == io.EOF
}
