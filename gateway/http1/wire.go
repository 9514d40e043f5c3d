package http1

import (
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// exactBelow is where bounds begin to be kept by the sweeper, which may be late
	// by two of its rounds. Shorter ones are real deadlines.
	exactBelow = 5 * time.Second
	// writePiece is how much of a long text is written within one bound.
	writePiece = 64 << 10
)

// longAgo is a deadline that ends what waits.
var longAgo = time.Unix(1, 0)

// wire is a client's connection: bytes in and out, each within a bound. One
// goroutine may read while another one writes.
//
// A connection with a descriptor of its own is read and written by system calls
// that never block, so that waiting needs no buffer. Others, as TLS, go through
// their methods.
type wire struct {
	conn  net.Conn
	clock *atomic.Int64   // coarse, nanoseconds
	raw   syscall.RawConn // nil when reads and writes have to go through conn

	in struct {
		alarm
		ready func(fd uintptr) bool // bound once
		p     []byte
		n     int
		err   error
		first [1]byte // where there is no descriptor
	}
	out struct {
		alarm
		ready func(fd uintptr) bool // bound once
		p     []byte
		err   error

		moving atomic.Int64 // the bound of writes that the kernel does itself, or 0
		acked  uint64       // what the client had taken when the sweeper last asked
	}
	poll struct {
		socket syscall.RawConn // at the bottom of conn, nil when there is none
		look   func(fd uintptr)
		fds    [1]unix.PollFd
	}
}

func (w *wire) init(conn net.Conn, clock *atomic.Int64) {
	w.conn, w.clock = conn, clock
	w.poll.socket = rawOf(bottom(conn))
	if w.poll.socket != nil {
		w.poll.look = w.look
	}
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn: // others may add to what is read and written
		w.raw = w.poll.socket
	}
	if w.raw != nil {
		w.in.ready, w.out.ready = w.readReady, w.writeReady
	}
}

// bottom is the connection that others are wrapped around.
func bottom(conn net.Conn) net.Conn {
	for {
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = wrapped.NetConn()
	}
}

func rawOf(conn net.Conn) syscall.RawConn {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// Read reads what is there, or waits for it.
func (w *wire) Read(p []byte) (int, error) {
	if w.raw == nil {
		return w.conn.Read(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	w.in.p = p
	return w.readRaw()
}

func (w *wire) readRaw() (int, error) {
	w.in.n, w.in.err = 0, nil
	err := w.raw.Read(w.in.ready)
	w.in.p = nil
	switch {
	case err != nil:
		return 0, err
	case w.in.err != nil:
		return 0, w.in.err
	case w.in.n == 0:
		return 0, io.EOF
	}
	return w.in.n, nil
}

func (w *wire) readReady(fd uintptr) bool {
	n, errno := receive(fd, w.in.p, 0)
	if errno == syscall.EAGAIN {
		return false
	}
	if w.in.n = n; errno != 0 {
		w.in.n, w.in.err = 0, errno
	}
	return true
}

// Write writes p, each piece within bound.
func (w *wire) write(p []byte, bound time.Duration) error {
	for len(p) > 0 {
		piece := p[:min(len(p), writePiece)]
		p = p[len(piece):]
		w.armWrite(bound)
		err := w.writeOnce(piece)
		if !w.restWrite() && err == nil {
			err = errSlowClient
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *wire) writeOnce(p []byte) error {
	if w.raw == nil {
		_, err := w.conn.Write(p)
		return err
	}
	w.out.p, w.out.err = p, nil
	err := w.raw.Write(w.out.ready)
	w.out.p = nil
	if err == nil {
		err = w.out.err
	}
	return err
}

func (w *wire) writeReady(fd uintptr) bool {
	for len(w.out.p) > 0 {
		n, errno := transmit(fd, w.out.p)
		switch errno {
		case 0:
			w.out.p = w.out.p[n:]
		case syscall.EAGAIN:
			return false
		default:
			w.out.err = errno
			return true
		}
	}
	return true
}

// hungUp tells whether the client has closed its side, or all of the connection,
// whatever it sent before that is still unread. It is false when that can't be
// known. Only the sweeper calls it.
func (w *wire) hungUp() bool {
	if w.poll.socket == nil {
		return false
	}
	w.poll.fds[0].Revents = 0
	err := w.poll.socket.Control(w.poll.look)
	return err == nil && w.poll.fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}

func (w *wire) look(fd uintptr) {
	w.poll.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLRDHUP}
	_, _ = unix.Poll(w.poll.fds[:], 0) // an error leaves no event
}

// ended tells whether the client has closed its side, or all of the connection,
// and nothing that it sent is unread. It is false when that can't be known. Only
// the sweeper calls it.
func (w *wire) ended() (yes bool) {
	if w.raw == nil {
		return false
	}
	err := w.raw.Control(func(fd uintptr) {
		var b [1]byte
		n, errno := receive(fd, b[:], syscall.MSG_PEEK)
		yes = n == 0 || errno != 0 && errno != syscall.EAGAIN
	})
	return err == nil && yes
}

// shut ends what the connection sends and receives, at once; closing it is left to
// its goroutine.
func (w *wire) shut() {
	_ = w.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // closed already, then
}

// closeWrite tells the client that no more comes. It is false when the connection
// can't be closed in halves.
func (w *wire) closeWrite() bool {
	half, ok := w.conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// reset ends the connection so that the client sees an error instead of an end.
func (w *wire) reset() {
	conn := bottom(w.conn)
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // closed already, then
	}
	conn.Close()
}
