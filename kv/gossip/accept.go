package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"

	"grapevine/kv"
)

// accept takes the connections of others until the listener is closed.
func (p *Peer) accept() {
	for {
		conn, err := p.o.Spread.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !pause(p.ctx.Done(), acceptPause) {
				return
			}
			continue
		}
		if !tryAcquire(p.greeting) {
			p.counters.connectionsRefused.add(1)
			conn.Close()
			continue
		}
		p.group.Go(func() { p.serve(conn) })
	}
}

// tryAcquire takes a place if there is one.
func tryAcquire(places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	default:
		return false
	}
}

// serve handles one connection that another node opened.
func (p *Peer) serve(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(p.ctx, func() { conn.Close() })
	defer stop()
	c := newConnection(conn)
	theirs, err := p.welcome(c)
	<-p.greeting
	if err != nil {
		p.counters.connectionsRefused.add(1)
		p.log.Debug("connection is refused", "from", conn.RemoteAddr().String(), "err", err)
		return
	}
	defer p.dismiss(theirs.digest.id)
	if theirs.purpose == toPull {
		err = p.servePull(c, theirs)
	} else {
		err = p.attend(p.sender(theirs.digest), newSession(c, theirs, false))
	}
	p.log.Debug("connection has ended", "from", conn.RemoteAddr().String(), "member", string(theirs.digest.id), "err", err)
}

// admit takes a place for a connection of a node.
func (p *Peer) admit(id NodeID) error {
	if !tryAcquire(p.connected) {
		return errors.New("there are too many connections")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guests[id] >= maxOfOne {
		<-p.connected
		return fmt.Errorf("node %s has %d connections already", id, maxOfOne)
	}
	p.guests[id]++
	return nil
}

func (p *Peer) dismiss(id NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guests[id]--; p.guests[id] == 0 {
		delete(p.guests, id)
	}
	<-p.connected
}

// welcome reads a hello and answers with ours. On success a place is taken, see admit.
func (p *Peer) welcome(c *connection) (hello, error) {
	theirs, err := readHello(c)
	if err == nil {
		err = p.checkHello(c.Conn, theirs)
	}
	if err == nil {
		err = p.admit(theirs.digest.id)
	}
	if err != nil {
		return hello{}, errors.Join(err, c.write(frameRefusal, []byte(err.Error())))
	}
	if err := p.sayHello(c, theirs.purpose); err != nil {
		p.dismiss(theirs.digest.id)
		return hello{}, err
	}
	return theirs, nil
}

func (p *Peer) takeFrame(s *session, kind frameKind, body []byte) error {
	from := s.theirs.digest
	switch kind {
	case frameBrief:
		return p.takeBrief(s, body)
	case frameDigest:
		d, err := decodeDigest(body)
		if err != nil {
			return err
		}
		if d.id != from.id || d.boot != from.boot {
			return fmt.Errorf("node %s speaks as node %s", from.id, d.id)
		}
		p.hear(d, true) // who tells this pushes nothing
		return nil
	case frameChanges:
		c, err := decodeChanges(body)
		if err != nil {
			return err
		}
		return p.takePush(p.sender(from), c, false)
	case frameFlood:
		c, err := decodePlaneChanges(body)
		if err != nil {
			return err
		}
		return p.takeFlood(p.sender(from), c, false)
	}
	return fmt.Errorf("unexpected frame of kind %d", kind)
}

// sender is the member that speaks, as far as memberlist has told of it yet.
func (p *Peer) sender(from digest) Member {
	if member, known := p.members.heard(fullName(from.id, from.boot)); known {
		return member
	}
	return Member{ID: from.id, boot: from.boot, Role: Edge}
}

// takePush applies what a neighbour pushed, or finds out why that can't be. A packet
// may have overtaken others, which is no reason to pull.
func (p *Peer) takePush(from Member, c changes, packet bool) error {
	s := p.stream(c.stream)
	if s == nil {
		return fmt.Errorf("stream %d is unknown", c.stream)
	}
	p.counters.received.add(len(c.list))
	ours := s.Head()
	if judge(ours, c.upTo, p.standing()) != pull {
		if p.consider(from, s, c.upTo, true) == answer || relate(ours, c.upTo) == equal {
			p.counters.repeated.add(1)
		}
		return nil
	}
	if packet && !p.genuine(from, s, ours, c.upTo) {
		return nil
	}
	p.knows(from, c.stream, c.upTo)
	if !follows(relate(ours, c.since)) {
		p.held.keep(c)
		if !packet {
			p.consider(from, s, c.upTo, true)
		}
		return nil
	}
	return p.apply(from, s, c)
}

// apply lets one at a time change a stream. An error means that the sender sends
// what nobody should.
func (p *Peer) apply(from Member, s Stream, c changes) error {
	if err := p.take(); err != nil {
		return err
	}
	defer p.taken()
	if p.o.InRaft() {
		return nil
	}
	before := s.Head()
	err := s.Apply(c.list)
	if err == nil {
		p.applyHeld(s)
	}
	after := s.Head()
	if relate(before, after) == newer {
		p.counters.applied.add(int(after.Rev.Rev - before.Rev.Rev))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrForged):
		p.alarms.raise(Forged, from, s.ID(), before, c.upTo, err)
		return err
	case errors.Is(err, kv.ErrDiverged):
		p.alarms.raise(Diverged, from, s.ID(), before, c.upTo, err)
		return nil
	case errors.Is(err, kv.ErrGap), errors.Is(err, kv.ErrCompacted):
		p.consider(from, s, c.upTo, true)
		return nil
	}
	p.log.Warn("changes were not applied", "from", string(from.ID), "stream", int(s.ID()), "rev", c.upTo.Rev.String(), "err", err)
	return err
}

// take waits for the right to apply or restore.
func (p *Peer) take() error {
	select {
	case p.taking <- struct{}{}:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *Peer) taken() { <-p.taking }
