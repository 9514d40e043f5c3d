package memnet

import (
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"
)

// conn is one end of a stream.
type conn struct {
	host          *Host
	local, remote *net.TCPAddr
	peer          *conn
	in, out       *pipe

	readBy, writeBy time.Time
	gone            bool // closed or crashed: this end no longer exists
	ended           bool // nothing is written any more
	writing         bool // a Write is under way; others wait, to stay whole
}

// connect makes both ends of a stream.
func connect(h *Host, from *net.TCPAddr, other *Host, to *net.TCPAddr) (near, far *conn) {
	near = &conn{host: h, local: from, remote: to}
	far = &conn{host: other, local: to, remote: from}
	there := &pipe{net: h.net, way: way{h.ip, other.ip}, to: far}
	back := &pipe{net: h.net, way: way{other.ip, h.ip}, to: near}
	near.peer, near.out, near.in = far, there, back
	far.peer, far.out, far.in = near, back, there
	h.net.pipes = append(h.net.pipes, there, back)
	h.conns = append(h.conns, near)
	other.conns = append(other.conns, far)
	return near, far
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) Read(b []byte) (int, error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	n, err := c.read(b)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

func (c *conn) read(b []byte) (int, error) {
	for {
		if c.gone {
			return 0, net.ErrClosed
		}
		if passed(c.readBy) {
			return 0, os.ErrDeadlineExceeded
		}
		if len(b) == 0 {
			return 0, nil
		}
		n, end := c.in.take(b)
		switch {
		case n > 0:
			return n, nil
		case end:
			return 0, io.EOF
		case c.in.arrived(c.in.broken):
			return 0, syscall.ECONNRESET
		}
		c.host.net.wait(&c.in.changed, nil, earliest(c.in.due(), c.readBy))
	}
}

func (c *conn) Write(b []byte) (int, error) {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	n, err := c.write(b)
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

func (c *conn) write(b []byte) (n int, err error) {
	for c.writing {
		if err := c.writeProblem(); err != nil {
			return 0, err
		}
		c.waitToWrite()
	}
	c.writing = true
	defer func() {
		c.writing = false
		c.out.changed.fire()
	}()
	if err := c.writeProblem(); err != nil {
		return 0, err
	}
	for n < len(b) {
		room := min(window-c.out.bytes, len(b)-n)
		if room > 0 {
			c.push(b[n : n+room])
			n += room
			continue
		}
		c.waitToWrite()
		if err := c.writeProblem(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// push sends bytes for which there is room. An end that is gone answers with a
// reset, if its host is up.
func (c *conn) push(b []byte) {
	c.host.sent.Writes++
	c.host.sent.Bytes += uint64(len(b))
	c.out.send(item{bytes: slices.Clone(b)})
	if c.peer.gone && !c.peer.host.down {
		c.peer.refuse()
	}
}

func (c *conn) writeProblem() error {
	switch {
	case c.gone:
		return net.ErrClosed
	case c.ended:
		return syscall.EPIPE
	case c.in.arrived(c.in.broken):
		return syscall.ECONNRESET
	case passed(c.writeBy):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// waitToWrite waits for room, for the end of another Write or for a reset, which
// comes in by the other pipe but wakes both.
func (c *conn) waitToWrite() {
	c.host.net.wait(&c.out.changed, nil, earliest(c.writeBy, c.in.brokenDue()))
}

// CloseWrite ends what this end writes; the peer reads EOF behind it.
func (c *conn) CloseWrite() error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.gone {
		return c.opError("close", net.ErrClosed)
	}
	c.finish()
	return nil
}

// Close gives the peer EOF behind what was written, or a reset if something was
// not read here.
func (c *conn) Close() error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.gone {
		return c.opError("close", net.ErrClosed)
	}
	if c.in.unread() {
		c.refuse()
	} else {
		c.finish()
	}
	c.vanish()
	return nil
}

func (c *conn) finish() {
	if !c.ended {
		c.ended = true
		c.out.send(item{end: true})
	}
}

// abort ends a connection with a reset.
func (c *conn) abort() {
	c.refuse()
	c.vanish()
}

// refuse sends the peer a reset, which it sees behind what was sent before it.
func (c *conn) refuse() {
	if !c.out.broken.arrival.IsZero() {
		return
	}
	c.out.broken.arrival = time.Now().Add(c.host.net.delay(c.out.way))
	if c.out.broken.arrival.Before(c.out.last) {
		c.out.broken.arrival = c.out.last
	}
	c.out.changed.fire() // the peer that reads
	c.in.changed.fire()  // the peer that writes
}

// vanish is the end of this end, without a word to the peer.
func (c *conn) vanish() {
	c.gone = true
	c.in.drop()
	c.out.changed.fire()
	c.host.conns = slices.DeleteFunc(c.host.conns, func(other *conn) bool { return other == c })
	if c.peer.gone {
		n := c.host.net
		n.pipes = slices.DeleteFunc(n.pipes, func(p *pipe) bool { return p == c.in || p == c.out })
	}
}

func (c *conn) SetDeadline(t time.Time) error      { return c.setDeadline(&c.readBy, &c.writeBy, t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.setDeadline(&c.readBy, nil, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(nil, &c.writeBy, t) }

func (c *conn) setDeadline(read, write *time.Time, t time.Time) error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.gone {
		return c.opError("set", net.ErrClosed)
	}
	if read != nil {
		*read = t
		c.in.changed.fire()
	}
	if write != nil {
		*write = t
		c.out.changed.fire()
	}
	return nil
}

func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
