package http1

import (
	"errors"
	"io"
	"sync"
	"time"
)

// errTunnelIdle is a tunnel that was silent for too long.
var errTunnelIdle = errors.New("the tunnel was silent for too long")

// tunnelPage is how much is held of what one side sends; it is held also while
// that side is silent.
const tunnelPage = 4 << 10

// relay copies bytes both ways between a client and the other end of its tunnel.
type relay struct {
	c   *conn
	far io.ReadWriteCloser
	// idle ends a silent tunnel.
	idle  *time.Timer
	bound time.Duration

	// up and down are the bytes that went by; each is one goroutine's until both
	// have ended.
	up, down int64

	// mu is held while something is written to the client. It guards frames and
	// leaving.
	mu      sync.Mutex
	frames  frames
	leaving bool // the client was told that the server goes away

	closing sync.Once
	// errMu guards err, the first reason to end that is no end of either side.
	errMu sync.Mutex
	err   error
}

// switchProtocols answers 101 and serves the tunnel to its end.
func (t *turn) switchProtocols() {
	c, far := t.c, t.x.Response.Tunnel
	out := pages.Get().(*page)
	head, err := AppendResponseHead(out.b[:0], &t.x.Response, NoBody, -1, "")
	if err == nil {
		err = t.send(head)
	}
	out.release()
	if err == nil {
		r := &relay{c: c, far: far, bound: c.s.tunnelIdle()}
		c.relay.Store(r)
		err = r.run(t.in[t.from:t.to])
		c.relay.Store(nil)
		t.x.BytesIn, t.x.BytesOut = r.up, r.down
	}
	t.x.Finish(err)
	c.renewLife()
}

// run copies until both sides have ended. early is what the client has sent
// already.
func (r *relay) run(early []byte) error {
	r.idle = time.AfterFunc(r.bound, func() { r.fail(errTunnelIdle) })
	defer r.idle.Stop()
	unwatch := r.c.life.Load().AfterFunc(r.close) // the server's Close
	defer unwatch()
	var copying sync.WaitGroup
	copying.Go(func() { r.copyUp(early) })
	r.copyDown()
	copying.Wait()
	r.close()
	r.errMu.Lock()
	defer r.errMu.Unlock()
	return r.err
}

// copyUp sends what the client sends to the far side.
func (r *relay) copyUp(early []byte) {
	var err error
	if len(early) > 0 {
		var n int
		n, err = r.far.Write(early)
		r.up += int64(n)
	}
	buf := make([]byte, tunnelPage)
	for err == nil {
		var n int
		n, err = r.c.Read(buf)
		r.idle.Reset(r.bound)
		if n > 0 {
			sent, writeErr := r.far.Write(buf[:n])
			if r.up += int64(sent); writeErr != nil && !r.told() {
				err = writeErr
			}
		}
	}
	if half, ok := r.far.(interface{ CloseWrite() error }); ok && err == io.EOF && !r.told() {
		if half.CloseWrite() == nil {
			return
		}
	}
	r.fail(err)
}

// copyDown sends what the far side sends to the client.
func (r *relay) copyDown() {
	buf := make([]byte, tunnelPage)
	for {
		n, err := r.far.Read(buf)
		r.idle.Reset(r.bound)
		if n > 0 {
			if writeErr := r.send(buf[:n]); tooSlow(writeErr) {
				r.c.reset() // as a response is
				err = writeErr
			} else if writeErr != nil {
				err = writeErr
			} else {
				r.down += int64(n)
			}
		}
		switch {
		case err == nil:
		case r.told(): // the client answers the farewell, or its time ends
			return
		case err == io.EOF && r.c.closeWrite():
			return
		default:
			r.fail(err)
			return
		}
	}
}

// send writes to the client, unless it was told that nothing more comes.
func (r *relay) send(p []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving {
		return io.ErrClosedPipe
	}
	r.frames.feed(p)
	return r.c.write(p, r.c.s.writeTimeout())
}

func (r *relay) told() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}

// goAway tells the client of a WebSocket that the server goes away (RFC 6455
// §7.4.1), if that is known to stand between two frames, and ends the tunnel.
func (r *relay) goAway() {
	_ = r.c.conn.SetWriteDeadline(time.Now().Add(farewell)) // a client that does not read must not hold mu
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.c.conn.SetWriteDeadline(time.Now().Add(farewell)) // again: a write may have set its own meanwhile
	if r.leaving || !r.frames.between() || r.c.writeOnce([]byte{0x88, 0x02, 0x03, 0xe9}) != nil || !r.c.closeWrite() {
		r.close()
		return
	}
	r.leaving = true
	r.far.Close()
	_ = r.c.conn.SetReadDeadline(time.Now().Add(farewell)) // so that no reset takes the frame from the client
}

// fail ends the tunnel for a reason; an end of one side is none.
func (r *relay) fail(err error) {
	r.errMu.Lock()
	if r.err == nil && err != io.EOF && !r.told() {
		r.err = err
	}
	r.errMu.Unlock()
	r.close()
}

// close closes both sides.
func (r *relay) close() {
	r.closing.Do(func() {
		r.c.conn.Close()
		r.far.Close()
	})
}
