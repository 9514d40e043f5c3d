package http1

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"grapevine/gateway/exchange"
)

// What the word of a link says when it is no deadline. The negative ones are
// final: whoever sets one closes the connection.
const (
	linkRests  int64 = 0
	linkLate   int64 = -1 // the deadline passed
	linkGone   int64 = -2 // the client left
	linkBroken int64 = -3 // the request can't be sent to its end
)

// errGone is the end of a wait because the client left, errRecalled because the
// exchange was ended from outside.
var (
	errGone     = errors.New("the client left")
	errRecalled = errors.New("it was ended while its client waited")
)

// link is a connection to a destination. One attempt owns it at a time; only
// expire, gone and end may be called by others.
type link struct {
	pool *linkPool
	conn net.Conn
	tcp  *net.TCPConn // nil when conn is something else
	// raw is the connection's descriptor, nil when it has none.
	raw   syscall.RawConn
	probe func(fd uintptr) // peek, bound once
	quiet bool             // what peek found
	byte  [1]byte
	talk  talk

	// due is the tick at which the wait that is under way is late, or one of the
	// constants. A final value stays: who sets another does so by
	// compare-and-swap.
	due atomic.Int64
	// exact tells that the connection has a deadline of its own.
	exact     bool
	idleSince int64 // tick
	// drained tells that no further request is to be sent on it. The pool's mu
	// guards it.
	drained bool
	// leave is gone, bound once.
	leave func()
	taken flow
}

func newLink(p *linkPool, conn net.Conn) *link {
	l := &link{pool: p, conn: conn}
	l.leave = l.gone
	l.tcp, _ = conn.(*net.TCPConn)
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			l.raw, l.probe = raw, l.peek
			l.talk.bind()
		}
	}
	return l
}

// isQuiet tells whether nothing has come on an idle link, its end included. A
// connection without a descriptor can't be asked, and counts as quiet.
func (l *link) isQuiet() bool {
	if l.raw == nil {
		return true
	}
	l.quiet = false
	return l.raw.Control(l.probe) == nil && l.quiet
}

func (l *link) peek(fd uintptr) {
	_, errno := receive(fd, l.byte[:], syscall.MSG_PEEK)
	l.quiet = errno == syscall.EAGAIN
}

// await sets the deadline of what is read and written next.
func (l *link) await(d time.Duration) {
	if d < coarseFrom {
		l.exact = true
		_ = l.conn.SetDeadline(time.Now().Add(d)) // fails on a closed connection only
		return
	}
	l.set(l.pool.tick.Load() + ticks(d))
}

// awaitRead is await for reading alone, while another goroutine writes.
func (l *link) awaitRead(d time.Duration) {
	if d < coarseFrom {
		l.exact = true
		_ = l.conn.SetReadDeadline(time.Now().Add(d)) // as above
		return
	}
	l.set(l.pool.tick.Load() + ticks(d))
}

// rest ends a wait. It is false when the link was ended before.
func (l *link) rest() bool { return l.set(linkRests) }

func (l *link) set(word int64) bool {
	for {
		old := l.due.Load()
		if old < 0 {
			return false
		}
		if l.due.CompareAndSwap(old, word) {
			return true
		}
	}
}

// reset makes a link that rests ready for another owner.
func (l *link) reset() bool {
	if l.exact {
		l.exact = false
		return l.conn.SetDeadline(time.Time{}) == nil
	}
	return true
}

// expire ends the wait that is under way when it is late. A rest that is taken
// by the kernel is late when nothing has come since it began.
func (l *link) expire(now int64) {
	due := l.due.Load()
	if due <= 0 || due > now {
		return
	}
	if again := l.taken.more(l); again > 0 {
		l.due.CompareAndSwap(due, now+again)
		return
	}
	if l.due.CompareAndSwap(due, linkLate) {
		_ = l.conn.Close() // wakes the owner, who drops the link
	}
}

// end ends the link for a reason, a final word, and wakes its owner.
func (l *link) end(reason int64) {
	if l.set(reason) {
		_ = l.conn.Close() // as above
	}
}

func (l *link) gone() { l.end(linkGone) }

// cause is why err came of a read or a write.
func (l *link) cause(err error) error {
	switch word := l.due.Load(); {
	case word == linkLate || errors.Is(err, os.ErrDeadlineExceeded):
		return exchange.ErrTimeout
	case word == linkGone:
		return errGone
	}
	return err
}
