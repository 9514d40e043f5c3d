package http1

import (
	"errors"
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

// Serve accepts connections and serves them until Shutdown or Close, when it
// returns nil, or until the listener fails for good.
func (s *Server) Serve(l net.Listener) error {
	if !s.listen(l) {
		return l.Close()
	}
	pause := time.Duration(0)
	for {
		conn, err := l.Accept()
		if err == nil {
			pause = 0
			if c := s.admit(conn); c != nil { // here, so that a Shutdown knows of it
				go s.serveConn(c)
			}
			continue
		}
		if s.draining.Load() {
			return nil
		}
		if !passes(err) {
			return err
		}
		if pause == 0 {
			s.logger().Warn("accepting fails", "address", l.Addr().String(), "err", err)
		}
		pause = min(max(2*pause, acceptPause), maxAcceptPause)
		time.Sleep(pause)
	}
}

// listen is false when the server does not serve any more.
func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	if s.listeners == nil {
		s.listeners = map[net.Listener]struct{}{}
	}
	s.listeners[l] = struct{}{}
	return true
}

// passes tells whether an error of accept(2) is one connection's, or the want of
// something that may come back.
func passes(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains([]syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM, syscall.EINTR,
	}, errno)
}
