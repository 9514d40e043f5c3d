package http1

import (
	"io"
	"syscall"
)

// talk is what converse and read need while the link's descriptor is theirs.
type talk struct {
	// Both are bound once.
	sendAndReceive, receiveOnly func(fd uintptr) (done bool)

	out   []byte // what is left to send
	in    []byte
	n     int
	errno syscall.Errno
}

func (t *talk) bind() { t.sendAndReceive, t.receiveOnly = t.converse, t.read }

// converse sends out and reads the first of what is answered into in, which may
// be the same memory. sent tells how much of out was sent; an error with less than
// all of it is that of sending.
//
// It sends within the wait for what it reads. So nothing that comes after the
// request can be missed, and there is no need to try a read that would find
// nothing: a destination takes its time.
func (l *link) converse(out, in []byte) (sent, n int, err error) {
	if l.raw == nil {
		if sent, err = l.conn.Write(out); err != nil {
			return sent, 0, err
		}
		n, err = l.conn.Read(in)
		return sent, n, err
	}
	t := &l.talk
	t.out, t.in, t.n, t.errno = out, in, 0, 0
	err = l.raw.Read(t.sendAndReceive)
	sent = len(out) - len(t.out)
	n, err = t.end(err)
	if err == errNoRoom {
		more, err := l.conn.Write(out[sent:])
		if sent += more; err != nil {
			return sent, 0, err
		}
		n, err = l.read(in)
		return sent, n, err
	}
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
	t.out, t.in = nil, nil
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
	return false
}

func (t *talk) read(fd uintptr) (done bool) {
	n, errno := receive(fd, t.in, 0)
	if errno == syscall.EAGAIN {
		return false
	}
	if t.n = n; errno != 0 {
		t.n, t.errno = 0, errno
	}
	return true
}
