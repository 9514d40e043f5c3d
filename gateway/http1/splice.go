package http1

import (
	"io"
	"net"

	"golang.org/x/sys/unix"
)

const (
	// spliceLeast is how much of a body has to be left for the kernel to move it
	// from socket to socket: below, its pipe costs as much as the copy.
	spliceLeast = 1 << 20
	// splicePiece is how much it moves before the bound of a write begins anew.
	splicePiece = 4 << 20
)

// movable is a body whose bytes come as they are from a socket. Begin gives the
// socket, nil when there is something in memory first, and how many bytes come;
// End says how many of them were moved.
type movable interface {
	Begin() (conn *net.TCPConn, left int64)
	End(n int64, err error)
}

// splice has the kernel move the next bytes of the body, when it can. An error is
// the end of the response.
func (t *turn) splice(left int64) (n int64, err error) {
	c := t.c
	client, plain := c.conn.(*net.TCPConn)
	body, moves := t.x.Response.Body.(movable)
	bound := c.s.writeTimeout()
	if left < spliceLeast || !plain || !moves || bound < exactBelow {
		return 0, nil
	}
	from, comes := body.Begin()
	if from == nil {
		return 0, nil
	}
	want := min(left, comes, splicePiece)
	c.out.moving.Store(int64(bound))
	c.armWrite(bound)
	c.beginWait()
	n, err = client.ReadFrom(&io.LimitedReader{R: from, N: want})
	c.endWait()
	c.out.moving.Store(0)
	if !c.restWrite() && err == nil {
		err = errSlowClient
	}
	if err == nil && n < want {
		err = io.ErrUnexpectedEOF
		t.x.BodyErr = err // of other errors nobody knows whose they are
	}
	t.x.BytesOut += n
	body.End(n, err)
	return n, err
}

// sweepWrites ends a write that is late. Bytes that move in the kernel are late
// when the client took less than a piece in a whole bound, as others are.
func (w *wire) sweepWrites(now int64) {
	due := w.out.due.Load()
	if due <= 0 || due > now {
		return
	}
	if bound := w.out.moving.Load(); bound > 0 && w.flows() {
		w.out.due.CompareAndSwap(due, now+bound)
		return
	}
	if w.out.due.CompareAndSwap(due, rang) {
		_ = w.conn.SetWriteDeadline(longAgo) // closed already, then
	}
}

// flows tells whether the client has taken a piece since it was last asked, or
// would take more.
func (w *wire) flows() (some bool) {
	_ = w.poll.socket.Control(func(fd uintptr) { // closed already, then
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, err := unix.Poll(fds[:], 0); err == nil && n > 0 {
			some = true
			return
		}
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			some = info.Bytes_acked-w.out.acked >= writePiece
			w.out.acked = info.Bytes_acked
		}
	})
	return some
}
