//go:build linux

package wire

import (
	"runtime"
	"syscall"
)

// relayBuffer is how much is moved at once.
const relayBuffer = 64 << 10

type relay struct {
	poller   *poller
	listener int
	upstream int
	sides    table[side]
	buffer   [relayBuffer]byte
}

// side is one end of a relayed connection.
type side struct {
	fd      int
	peer    *side
	pending []byte // read from peer, not yet taken by fd; while there is some, peer is not read
}

// Relay moves bytes between port and upstream, both on loopback, until the process ends. It looks at none of them: what
// it costs, no proxy that reads and writes through sockets can undercut. Each client connection has its own to upstream.
func Relay(port, upstream, workers int) error {
	ended := make(chan error, workers)
	for range workers {
		go func() { ended <- relayLoop(port, upstream) }()
	}
	return <-ended
}

func relayLoop(port, upstream int) error {
	runtime.LockOSThread()
	listener, err := listen(port)
	if err != nil {
		return err
	}
	poller, err := newPoller()
	if err != nil {
		return err
	}
	if err := poller.add(listener); err != nil {
		return err
	}
	r := &relay{poller: poller, listener: listener, upstream: upstream}
	return r.run()
}

func (r *relay) run() error {
	for {
		ready, err := r.poller.wait(-1)
		if err != nil {
			return err
		}
		for _, event := range ready {
			if int(event.Fd) == r.listener {
				r.accept()
			} else if s := r.sides.at(int(event.Fd)); s != nil && r.move(s, event.Events) != nil {
				r.end(s)
			}
		}
	}
}

func (r *relay) accept() {
	for {
		client, ok := accept(r.listener)
		if !ok {
			return
		}
		upstream, err := dial(r.upstream)
		if err != nil {
			syscall.Close(client)
			continue
		}
		a, b := &side{fd: client}, &side{fd: upstream}
		a.peer, b.peer = b, a
		r.sides.put(client, a)
		r.sides.put(upstream, b)
		if r.poller.add(client) != nil || r.poller.add(upstream) != nil {
			r.end(a)
		}
	}
}

func (r *relay) move(s *side, events uint32) error {
	if events&syscall.EPOLLOUT != 0 && len(s.pending) > 0 {
		n, err := send(s.fd, s.pending)
		if err != nil {
			return err
		}
		if s.pending = s.pending[:copy(s.pending, s.pending[n:])]; len(s.pending) == 0 {
			return r.watchBoth(s)
		}
	}
	if events&^syscall.EPOLLOUT == 0 || len(s.peer.pending) > 0 {
		return nil
	}
	n, err := receive(s.fd, r.buffer[:])
	if err != nil {
		return err
	}
	sent, err := send(s.peer.fd, r.buffer[:n])
	if err != nil || sent == n {
		return err
	}
	s.peer.pending = append(s.peer.pending, r.buffer[sent:n]...)
	return r.watchBoth(s)
}

func (r *relay) watchBoth(s *side) error {
	for _, s := range []*side{s, s.peer} {
		if err := r.poller.watch(s.fd, len(s.peer.pending) == 0, len(s.pending) > 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *relay) end(s *side) {
	for _, s := range []*side{s, s.peer} {
		r.sides[s.fd] = nil
		syscall.Close(s.fd)
	}
}
