package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
)

// The wait after an accept that failed, doubled each time.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Serve accepts connections until Close, when it returns nil, or until the
// listener fails for good.
func (m *Mux) Serve() error {
	if !m.begin() {
		return nil
	}
	defer m.workers.Done()
	pause := time.Duration(0)
	for {
		raw, err := m.o.Listener.Accept()
		switch {
		case err == nil:
			pause = 0
			m.receive(raw)
		case m.life.Err() != nil:
			return nil
		case !passes(err):
			return err
		default:
			if pause == 0 {
				m.o.Logger.Warn("accepting fails", "address", m.Addr().String(), "err", err)
			}
			pause = min(max(2*pause, acceptPause), maxAcceptPause)
			m.rest(pause)
		}
	}
}

// begin is false once the Mux is closed: Close must not miss a worker.
func (m *Mux) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.workers.Add(1)
	}
	return !m.closed
}

func (m *Mux) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.life.Done():
	}
}

// passes tells whether an error of accept(2) is one connection's, or the want of
// something that may come back.
func passes(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains([]syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM, syscall.EINTR,
	}, errno)
}

// receive has a connection shake hands beside the others.
func (m *Mux) receive(raw net.Conn) {
	p := m.gate.enter(raw)
	m.workers.Go(func() {
		if err := m.shake(raw, p); err != nil {
			raw.Close() // it has failed already
			p.leave()
			m.refused(raw, p, err)
		}
	})
}

// shake finds out who is there and what for, and hands the connection over.
func (m *Mux) shake(raw net.Conn, p *place) error {
	ctx, cancel := context.WithTimeout(m.life, handshakeTimeout)
	defer cancel()
	shaken, protocol, node, err := m.o.Handshaker.Server(ctx, raw, m.protocols())
	if err != nil {
		return err
	}
	left := m.stranger(raw, p)
	if node != "" {
		left()
		left = func() {}
	}
	c := &conn{Conn: shaken, raw: raw, mux: m, node: node, accepted: true, left: left}
	if err := m.track(c); err != nil {
		left()
		return err
	}
	if !m.listening(protocol).hand(ctx, c) {
		c.release()
		return fmt.Errorf("protocol %s: nobody takes the connection", protocol)
	}
	return nil
}

// stranger keeps the place of a peer that proved nothing, for as long as the
// connection lasts, and that for no longer than strangerLife.
func (m *Mux) stranger(raw net.Conn, p *place) (left func()) {
	timer := time.AfterFunc(strangerLife, func() { raw.Close() })
	return func() {
		timer.Stop()
		p.leave()
	}
}

// listening gives the open listener of a protocol, or one that takes nothing.
func (m *Mux) listening(protocol string) *listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.listeners[protocol]; l != nil {
		return l
	}
	closed := &listener{mux: m, protocol: protocol, done: make(chan struct{})}
	close(closed.done)
	return closed
}

// refused tells of a handshake that failed, unless it is nobody's fault: whoever
// hangs up at once was looking whether the port is open, or Close ended it.
func (m *Mux) refused(raw net.Conn, p *place, err error) {
	if m.life.Err() != nil || errors.Is(err, io.EOF) {
		return
	}
	if p.evicted() {
		err = fmt.Errorf("had to make room for others: %w", err)
	}
	m.failures.warn("handshake failed", "from", raw.RemoteAddr().String(), "err", err)
}
