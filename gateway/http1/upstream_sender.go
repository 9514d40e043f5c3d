package http1

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/gateway/exchange"
)

const (
	// sendSize is how much of a request's body is held at a time.
	sendSize = 32 << 10
	// sendGrace is how long a response that has ended waits for its request to
	// end as well, so that the connection can serve another one. net/http waits as
	// long.
	sendGrace = 50 * time.Millisecond
)

// errBodyLonger is a request whose body has more bytes than its length says.
var errBodyLonger = errors.New("the request's body is longer than its Content-Length")

var sendPages = sync.Pool{New: func() any { return new([sendSize]byte) }}

// sender sends the rest of a request's body while the response is awaited. A nil
// sender has nothing to send.
type sender struct {
	x      *exchange.Exchange
	link   *link
	bounds exchange.Bounds
	sent   int64 // of the body
	// idle ends the link when the client, or the destination, is silent.
	idle *time.Timer
	done chan struct{}

	reading   atomic.Bool // the client is waited for
	drained   atomic.Bool // the client's body has nothing more than its end
	abandoned atomic.Bool

	// mu guards what follows. The wait for the head begins at the request's end,
	// unless the head has come.
	mu       sync.Mutex
	ended    bool  // nothing more is sent
	whole    bool  // everything was
	answered bool  // the head has come
	stalled  bool  // the client was waited for when the time was up
	bodyErr  error // what the client's body gave instead of its end
}

// startSender begins to send what a has not sent of its request's body.
func startSender(a *attempt) *sender {
	s := &sender{x: a.x, link: a.link, bounds: a.bounds, done: make(chan struct{})}
	s.sent = int64(a.sent)
	s.idle = time.AfterFunc(s.bounds.Idle, s.expire)
	go s.run()
	return s
}

func (s *sender) run() {
	defer close(s.done)
	err := s.copyBody()
	s.idle.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	var broken *requestBodyError
	switch {
	case s.abandoned.Load():
	case errors.As(err, &broken):
		s.bodyErr = broken.err
		s.link.end(linkBroken) // the request can end with its connection only
	default: // sent, or the destination takes no more: it may have answered before
		s.whole = err == nil
		s.awaitHead()
	}
}

// awaitHead begins the wait for the head, whose owner may have it already.
func (s *sender) awaitHead() {
	if !s.answered {
		s.link.awaitRead(s.bounds.Timeout)
	}
}

// expire ends a wait for the client, or for the destination to take more. The
// link is the sender's as long as it has not ended.
func (s *sender) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && !s.abandoned.Load() {
		s.stalled = s.reading.Load()
		s.link.end(linkLate)
	}
}

// copyBody sends the body to its end. The error is a *requestBodyError when it is
// the client's.
func (s *sender) copyBody() error {
	page := sendPages.Get().(*[sendSize]byte)
	defer sendPages.Put(page)
	if chunked(&s.x.Request) {
		return s.copyChunks(page)
	}
	return s.copyLength(page)
}

func (s *sender) copyLength(page *[sendSize]byte) error {
	length := s.x.Request.ContentLength
	for s.sent < length {
		n, err := s.read(page[:min(sendSize, length-s.sent)])
		s.sent += int64(n)
		s.drained.Store(s.sent == length)
		if werr := s.write(page[:n]); werr != nil {
			return werr
		}
		if err == io.EOF && s.sent == length {
			return nil
		} else if err != nil {
			return short(err)
		}
	}
	return endOf(s.x.Request.Body, s.sent, length)
}

func (s *sender) copyChunks(page *[sendSize]byte) error {
	const end = len("\r\n")
	for {
		n, err := s.read(page[ChunkHeadroom : sendSize-end])
		if n > 0 {
			begin := PutChunkHead(page[:], ChunkHeadroom, n)
			piece := append(page[begin:ChunkHeadroom+n], "\r\n"...)
			if werr := s.write(piece); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return s.write(AppendLastChunk(page[:0], s.x.Request.Trailers))
		} else if err != nil {
			return short(err)
		}
	}
}

func (s *sender) read(p []byte) (int, error) {
	if s.abandoned.Load() {
		return 0, errGone
	}
	s.reading.Store(true)
	n, err := s.x.Request.Body.Read(p)
	s.reading.Store(false)
	if n > 0 {
		s.idle.Reset(s.bounds.Idle)
	}
	return n, err
}

func (s *sender) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := s.link.conn.Write(p)
	s.idle.Reset(s.bounds.Idle)
	return err
}

// headCame ends the wait for the head, or keeps it from beginning. sending tells
// whether the request has not ended yet.
func (s *sender) headCame() (sending bool) {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	return !s.ended
}

// failure is how the client kept the request from being sent: it was silent, or
// its body broke.
func (s *sender) failure() (stalled bool, bodyErr error) {
	if s == nil {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stalled, s.bodyErr
}

// abandon gives up the rest of the body and waits for the sender to end.
func (s *sender) abandon() {
	if s == nil || s.hasEnded(0) {
		return
	}
	s.abandoned.Store(true)
	_ = s.link.conn.SetWriteDeadline(time.Unix(1, 0)) // fails on a closed connection only
	if abandon := s.x.Request.Abandon; abandon != nil && !s.drained.Load() {
		abandon()
	}
	<-s.done
}

func (s *sender) hasEnded(grace time.Duration) bool {
	select {
	case <-s.done:
		return true
	default:
	}
	if grace == 0 {
		return false
	}
	select {
	case <-s.done:
		return true
	case <-time.After(grace):
		return false
	}
}

// sentAll tells whether the request was sent to its end, or is within the grace.
func (s *sender) sentAll() bool {
	if s == nil {
		return true
	}
	if !s.hasEnded(sendGrace) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole
}
