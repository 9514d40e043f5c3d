package gossip

import (
	"context"
	"errors"
	"net"
	"time"
)

const (
	// maxPushBytes is how far a neighbour may be behind and still be pushed to, unless
	// a single change is larger. One that is further behind has to pull: so nothing
	// queues up for a slow neighbour.
	maxPushBytes = 1 << 20
	// maxPacketPush is how large a push may be to go by a packet too.
	maxPacketPush = 1200
)

var errReplaced = errors.New("another connection took its place")

// session is one connection to push over, whoever opened it.
type session struct {
	*connection
	theirs hello
	dialed bool          // by this node
	asked  chan struct{} // holds one when a digest is to be sent
}

func newSession(c *connection, theirs hello, dialed bool) *session {
	return &session{connection: c, theirs: theirs, dialed: dialed, asked: make(chan struct{}, 1)}
}

// dial connects to the neighbour, and stays with it until the connection breaks.
func (l *link) dial(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, theirs, err := l.peer.open(ctx, l.at(), toPush)
	if err != nil {
		return err
	}
	return l.peer.attend(l.at(), newSession(c, theirs, true))
}

// attach gives a session to the link of its member.
func (p *Peer) attach(member Member, s *session) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.link(member)
	return l, l.attach(s)
}

// attach puts a session in use, unless the one that is counts more: of two that
// were opened at the same time, both sides have to keep the same.
func (l *link) attach(s *session) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lower := fullName(l.peer.o.Meta.ID, l.peer.o.Boot) < l.name
	if old := l.session; old != nil {
		if old.dialed == lower && s.dialed != lower {
			return errReplaced
		}
		old.Close()
	}
	l.session = s
	for _, stream := range l.peer.o.Streams {
		head, _ := s.theirs.digest.head(stream.ID())
		l.known[stream.ID()] = head
	}
	for _, c := range l.peer.courses {
		// What is in the flood has gone into the digest of our hello, or will be sent again.
		l.cursors[c.ID()] = c.flood.end()
	}
	l.changed.fire()
	return nil
}

func (l *link) detach(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == s {
		l.session = nil
		l.changed.fire()
	}
}

// attend pushes and takes pushes until the connection breaks.
func (p *Peer) attend(member Member, s *session) error {
	defer s.Close()
	l, err := p.attach(member, s)
	if err != nil {
		return err
	}
	defer p.forget(l)
	defer l.detach(s)
	p.hear(s.theirs.digest, false)
	ended := make(chan error, 1)
	go func() { ended <- p.readSession(s) }()
	err = l.write(s, ended)
	s.Close()
	return errors.Join(err, <-ended)
}

// forget drops a link that nobody wants and that is not connected.
func (p *Peer) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.stop == nil && l.connected() == nil && p.links[l.name] == l {
		delete(p.links, l.name)
	}
}

// readSession takes what the other side sends.
func (p *Peer) readSession(s *session) error {
	for {
		kind, body, err := s.read(idleTime)
		if err == nil {
			err = p.takeFrame(s, kind, body)
		}
		if err != nil {
			s.Close() // so that who writes notices
			return err
		}
	}
}

// write pushes what is new. Now and then it says how far this node is, to show that it
// lives, and to the leader whenever it serves something else.
func (l *link) write(s *session, ended chan error) error {
	alive := time.NewTicker(jitter(keepAlive))
	defer alive.Stop()
	told := l.peer.reportSeq()
	for {
		news, reported := l.peer.news.wait(), l.peer.reported.wait()
		if err := l.pushAll(s); err != nil {
			return err
		}
		if seq := l.peer.reportSeq(); seq != told && l.leads() {
			told = seq
			if err := l.tell(s); err != nil {
				return err
			}
		}
		select {
		case <-news:
		case <-reported:
		case <-alive.C:
			if err := s.write(frameBrief, l.peer.digest().brief().encode(nil)); err != nil {
				return err
			}
		case <-s.asked:
			if err := l.tell(s); err != nil {
				return err
			}
		case err := <-ended:
			ended <- err // attend waits for it too
			return nil
		case <-l.peer.ctx.Done():
			return net.ErrClosed
		}
	}
}

// leads tells whether the leader is at the other end.
func (l *link) leads() bool { return l.at().ID == l.peer.o.Leader() }

func (l *link) pushAll(s *session) error {
	for _, stream := range l.peer.o.Streams {
		if err := l.push(s, stream); err != nil {
			return err
		}
	}
	for _, c := range l.peer.courses {
		if err := l.pushPlane(s, c); err != nil {
			return err
		}
	}
	return nil
}

// push sends what the neighbour lacks of a stream, or only our head if it should
// not be given changes or is too far behind.
func (l *link) push(s *session, stream Stream) error {
	ours, known := stream.Head(), l.has(stream.ID())
	switch relate(ours, known) {
	case older:
	case blank, lowerEpoch:
		l.set(stream.ID(), ours)
		return l.tell(s)
	default:
		return nil
	}
	if l.at().Role != Edge { // it has them from raft
		l.set(stream.ID(), ours)
		return l.tell(s)
	}
	list, upTo, err := stream.Delta(known, maxPushBytes)
	if err != nil || relate(ours, upTo) == older {
		l.peer.counters.pushesSkipped.add(1)
		l.set(stream.ID(), ours)
		return l.tell(s)
	}
	// Learnt before it is sent: what comes back meanwhile must not be sent again.
	l.learn(stream.ID(), upTo)
	l.peer.counters.pushes.add(1)
	l.peer.counters.pushedChanges.add(len(list))
	body := changes{stream: stream.ID(), since: known, upTo: upTo, list: list}.encode()
	l.peer.sendPush(l.at(), messageChanges, nil, body)
	return s.write(frameChanges, body)
}

// pushPlane sends what is new in a plane.
func (l *link) pushPlane(s *session, c *course) error {
	for {
		list, more, ok := l.take(c)
		if !ok {
			l.peer.counters.pushesSkipped.add(1)
			return l.tell(s)
		}
		if len(list) > 0 {
			l.peer.counters.pushes.add(1)
			l.peer.counters.pushedChanges.add(len(list))
			body := planeChanges{plane: c.ID(), list: list}.encode()
			l.peer.sendPush(l.at(), messageFlood, &s.key, body)
			if err := s.write(frameFlood, body); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// take moves on in the flood of a plane. What was pulled goes only to who is known to be
// where this node was before.
func (l *link) take(c *course) (list [][]byte, more, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	theirs := l.digests[c.ID()]
	behind := theirs != c.Digest() && c.had(theirs)
	list, next, ok := c.flood.after(l.cursors[c.ID()], l.name, behind)
	more = next != l.cursors[c.ID()]
	l.cursors[c.ID()] = next
	return list, more, ok
}

// tell lets the neighbour find out by itself what it lacks.
func (l *link) tell(s *session) error {
	return s.write(frameDigest, l.peer.digest().encode(nil, maxProblem))
}
