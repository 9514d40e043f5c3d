package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"grapevine/kv"
)

// maxPushBytes is how far a neighbour may be behind and still be pushed to, unless
// a single change is larger. One that is further behind has to pull: so nothing
// queues up for a slow neighbour.
const maxPushBytes = 1 << 20

// link is the connection to one neighbour, over which it is pushed to. It has no
// queue: it knows how far the neighbour is, and takes what comes after from the
// stream.
type link struct {
	peer *Peer
	stop context.CancelFunc

	mu     sync.Mutex // guards what is below
	member Member
	known  map[StreamID]kv.Head // what the neighbour has, or will have
}

// keepLinks opens links to the neighbours and closes those to others.
func (p *Peer) keepLinks() {
	for {
		members, refreshed := p.members.changed.wait(), p.refreshed.wait()
		p.setLinks(p.neighbours())
		timer := time.NewTimer(p.o.Timings.Heads)
		select {
		case <-members:
		case <-refreshed:
		case <-timer.C: // the leader may have changed
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (p *Peer) neighbours() []Member {
	around := Neighbourhood{Self: p.o.Meta.ID, Leader: p.o.Leader(), Members: p.members.others(p.o.Meta.ID)}
	ids := p.o.Neighbours(around)
	return slices.DeleteFunc(around.Members, func(m Member) bool { return !slices.Contains(ids, m.ID) })
}

func (p *Peer) setLinks(neighbours []Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[string]bool{}
	for _, member := range neighbours {
		name := fullName(member.ID, member.boot)
		wanted[name] = true
		if l := p.links[name]; l != nil {
			l.is(member)
			continue
		}
		ctx, stop := context.WithCancel(p.ctx)
		l := &link{peer: p, stop: stop, member: member, known: map[StreamID]kv.Head{}}
		p.links[name] = l
		p.group.Go(func() { l.run(ctx) })
	}
	for name, l := range p.links {
		if !wanted[name] {
			l.stop()
			delete(p.links, name)
		}
	}
}

// knows notes that a member has a head, so that nothing is pushed to it that it has.
func (p *Peer) knows(member Member, stream StreamID, head kv.Head) {
	p.mu.Lock()
	l := p.links[fullName(member.ID, member.boot)]
	p.mu.Unlock()
	if l != nil {
		l.learn(stream, head)
	}
}

func (l *link) is(member Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member = member
}

func (l *link) at() Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.member
}

// learn moves what the neighbour has forward, never back.
func (l *link) learn(stream StreamID, head kv.Head) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch relate(l.known[stream], head) {
	case newer, first, higherEpoch:
		l.known[stream] = head
	}
}

// has is how far the neighbour is with a stream.
func (l *link) has(stream StreamID) kv.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[stream]
}

func (l *link) set(stream StreamID, head kv.Head) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[stream] = head
}

// run keeps the link connected.
func (l *link) run(ctx context.Context) {
	pauses := backoff{least: 100 * time.Millisecond, most: 5 * time.Second}
	for {
		err := l.connect(ctx, &pauses)
		if ctx.Err() != nil {
			return
		}
		l.peer.log.Debug("link is down", "member", string(l.at().ID), "err", err)
		if !pause(ctx.Done(), pauses.next()) {
			return
		}
	}
}

// connect dials and pushes until the connection breaks.
func (l *link) connect(ctx context.Context, pauses *backoff) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, theirs, err := l.peer.open(ctx, l.at(), toPush)
	if err != nil {
		return err
	}
	defer c.Close()
	pauses.reset()
	for _, s := range l.peer.o.Streams {
		head, _ := theirs.digest.head(s.ID())
		l.set(s.ID(), head)
	}
	l.peer.hear(theirs.digest)
	ended := make(chan error, 1)
	go func() { ended <- l.read(c, theirs.digest) }()
	defer func() {
		c.Close()
		<-ended
	}()
	return l.write(ctx, c, ended)
}

// write pushes what is new.
func (l *link) write(ctx context.Context, c *connection, ended chan error) error {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	for {
		news := l.peer.news.wait()
		for _, s := range l.peer.o.Streams {
			if err := l.push(c, s); err != nil {
				return err
			}
		}
		select {
		case <-news:
		case <-alive.C:
			if err := c.write(frameDigest, l.peer.digest().encode(nil, maxProblem)); err != nil {
				return err
			}
		case err := <-ended:
			ended <- err // connect waits for it too
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// push sends what the neighbour lacks of a stream, or only our head if it should
// not be given changes or is too far behind.
func (l *link) push(c *connection, s Stream) error {
	ours, known := s.Head(), l.has(s.ID())
	switch relate(ours, known) {
	case older:
	case blank, lowerEpoch:
		return l.tell(c, s, ours)
	default:
		return nil
	}
	if l.at().Role != Edge { // it has them from raft
		return l.tell(c, s, ours)
	}
	list, upTo, err := s.Delta(known, maxPushBytes)
	if err != nil || relate(ours, upTo) == older {
		l.peer.counters.pushesSkipped.add(1)
		return l.tell(c, s, ours)
	}
	// Learnt before it is sent: what comes back meanwhile must not be sent again.
	l.learn(s.ID(), upTo)
	l.peer.counters.pushes.add(1)
	l.peer.counters.pushedChanges.add(len(list))
	return c.write(frameChanges, changes{stream: s.ID(), since: known, upTo: upTo, list: list}.encode())
}

// tell lets the neighbour find out by itself what it lacks.
func (l *link) tell(c *connection, s Stream, ours kv.Head) error {
	l.set(s.ID(), ours)
	return c.write(frameDigest, l.peer.digest().encode(nil, maxProblem))
}

// read hears what the neighbour says of itself: it pushes nothing here.
func (l *link) read(c *connection, theirs digest) error {
	for {
		kind, body, err := c.read(idleTime)
		if err != nil {
			return err
		}
		if kind != frameDigest {
			return fmt.Errorf("unexpected frame of kind %d", kind)
		}
		d, err := decodeDigest(body)
		if err != nil {
			return err
		}
		if d.id != theirs.id || d.boot != theirs.boot {
			return fmt.Errorf("node %s speaks as node %s", theirs.id, d.id)
		}
		l.peer.hear(d)
	}
}

// open dials a member and exchanges hellos with it.
func (p *Peer) open(ctx context.Context, member Member, why purpose) (*connection, hello, error) {
	dialing, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	conn, err := p.o.Spread.Dial(dialing, member.Address)
	if err != nil {
		return nil, hello{}, err
	}
	c := newConnection(conn)
	context.AfterFunc(ctx, func() { conn.Close() })
	theirs, err := p.greet(c, why)
	if err == nil {
		err = p.checkHello(conn, theirs)
	}
	if err == nil && (theirs.digest.id != member.ID || theirs.digest.boot != member.boot) {
		err = fmt.Errorf("node %s is at %s, not node %s", theirs.digest.id, member.Address, member.ID)
	}
	if err != nil {
		return nil, hello{}, errors.Join(err, conn.Close())
	}
	return c, theirs, nil
}

func (p *Peer) greet(c *connection, why purpose) (hello, error) {
	if err := c.write(frameHello, p.hello(why).encode()); err != nil {
		return hello{}, err
	}
	return readHello(c)
}

func (p *Peer) hello(why purpose) hello {
	return hello{cluster: p.o.Cluster, purpose: why, digest: p.digest()}
}

func readHello(c *connection) (hello, error) {
	kind, body, err := c.read(helloTime)
	switch {
	case err != nil:
		return hello{}, err
	case kind == frameRefusal:
		return hello{}, refusal(body)
	case kind != frameHello:
		return hello{}, fmt.Errorf("frame of kind %d came before the hello", kind)
	}
	return decodeHello(body)
}

// refusal is what the other side says is wrong.
func refusal(body []byte) error { return fmt.Errorf("the other side refuses: %.200q", body) }

// checkHello looks whether the other side is of this cluster, and who it says it is.
func (p *Peer) checkHello(c net.Conn, h hello) error {
	if h.cluster != p.o.Cluster {
		return fmt.Errorf("node %s is of cluster %q, here is %q", h.digest.id, h.cluster, p.o.Cluster)
	}
	if p.o.Identify == nil {
		return nil
	}
	id, _, err := p.o.Identify(c)
	if err == nil && id != h.digest.id {
		err = fmt.Errorf("node %s calls itself %s", id, h.digest.id)
	}
	return err
}
