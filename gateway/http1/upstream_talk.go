package http1

import (
	"io"
	"syscall"
)

// talk is what converse and read need while the link's descriptor is theirs.
type talk struct {
	// Both are bound once.
	sendAndReceive, receiveOnly func(fd uintptr) (done bool)

	a     *attempt // that converses
	out   []byte   // what is left to send
	in    []byte
	n     int
	errno syscall.Errno
}

func (t *talk) bind() { t.sendAndReceive, t.receiveOnly = t.converse, t.read }

// converse sends what is in memory of a's request, which is all of it, and reads
// the first of what is answered into its place. sent tells how much was sent; an
// error with less than all of it is that of sending.
//
// It sends within the wait for what it reads. So nothing that comes after the
// request can be missed, and there is no need to try a read that would find
// nothing: a destination takes its time. Meanwhile a has no page.
func (l *link) converse(a *attempt) (sent, n int, err error) {
	if l.raw == nil {
		return l.converseWhole(a, 0)
	}
	t := &l.talk
	t.a, t.out, t.in, t.n, t.errno = a, a.buf[:a.out], nil, 0, 0
	err = l.raw.Read(t.sendAndReceive)
	sent = a.out - len(t.out)
	n, err = t.end(err)
	if err == errNoRoom {
		return l.converseWhole(a, sent)
	}
	return sent, n, err
}

// converseWhole sends what follows the first sent bytes, and then reads.
func (l *link) converseWhole(a *attempt, sent int) (int, int, error) {
	n, err := l.conn.Write(a.buf[sent:a.out])
	if sent += n; err != nil {
		return sent, 0, err
	}
	n, err = l.read(a.buf)
	return sent, n, err
}

// read reads what has come, or waits for it.
func (l *link) read(p []byte) (int, error) {
	if l.raw == nil || len(p) == 0 {
		return l.conn.Read(p)
	}
	t := &l.talk
	t.in, t.n, t.errno = p, 0, 0
	return t.end(l.raw.Read(t.receiveOnly))
}

// errNoRoom is a request that the connection does not take at once. It never
// leaves converse.
const errNoRoom = syscall.EAGAIN

func (t *talk) end(err error) (int, error) {
	n, errno := t.n, t.errno
	t.a, t.out, t.in = nil, nil, nil
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (t *talk) converse(fd uintptr) (done bool) {
	if len(t.out) == 0 {
		return t.read(fd)
	}
	for len(t.out) > 0 {
		n, errno := transmit(fd, t.out)
		if errno != 0 {
			t.errno = errno
			return true
		}
		t.out = t.out[n:]
	}
	t.a.dropPage()
	return false
}

func (t *talk) read(fd uintptr) (done bool) {
	if t.in == nil {
		t.a.takePage()
		t.in = t.a.buf
	}
	n, errno := receive(fd, t.in, 0)
	if errno == syscall.EAGAIN {
		return false
	}
	if t.n = n; errno != 0 {
		t.n, t.errno = 0, errno
	}
	return true
}
