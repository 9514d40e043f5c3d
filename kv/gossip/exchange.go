package gossip

import (
	"context"
	"errors"
	"fmt"
)

// considerPlane is what is done about another node's digest of a plane.
func (p *Peer) considerPlane(from Member, c *course, theirs uint64) {
	if l := p.linked(from); l != nil {
		l.says(c.ID(), theirs)
	}
	switch {
	case theirs == c.Digest():
	case c.had(theirs): // it is where this node was
		if p.members.mayAnswer(fullName(from.ID, from.boot), answerPause) {
			p.counters.answers.add(1)
			p.sendHead(from)
		}
	case c.mayPull():
		p.puller.wantPlane(c, from)
	}
}

// takeFlood applies changes of a plane that somebody pushed, and passes on what is new.
// A packet may have overtaken others, which is no reason to pull.
func (p *Peer) takeFlood(from Member, b planeChanges, packet bool) error {
	c := p.course(b.plane)
	if c == nil {
		return fmt.Errorf("plane %d is unknown", b.plane)
	}
	fresh, gap, err := p.applyPlane(from, c, b.list, false)
	if fresh == 0 && !gap && err == nil {
		p.counters.repeated.add(1)
	}
	if gap && !packet {
		p.puller.wantPlane(c, from)
	}
	return err
}

// applyPlane applies changes, and puts those that were new into the flood.
func (p *Peer) applyPlane(from Member, c *course, list [][]byte, pulled bool) (fresh int, gap bool, err error) {
	p.counters.received.add(len(list))
	taken, gap, err := c.Apply(list)
	p.counters.applied.add(len(taken))
	if len(taken) > 0 {
		c.flood.add(fullName(from.ID, from.boot), taken, pulled)
		c.remember()
		p.news.fire()
	}
	if err != nil {
		p.log.Warn("changes were not applied", "from", string(from.ID), "stream", int(c.ID()), "err", err)
	}
	return len(taken), gap, err
}

// pullPlane fetches from a member what this node lacks of a plane, and calls came whenever
// something has come.
func (p *Peer) pullPlane(ctx context.Context, c *course, source Member, came func()) error {
	conn, _, err := p.openPull(ctx, source, came)
	if err != nil {
		return err
	}
	defer conn.Close()
	e := encoder{}
	e.u8(uint8(c.ID()))
	if err := conn.write(frameVector, append(e.buf, c.Vector()...)); err != nil {
		return err
	}
	something := false
	for {
		kind, body, err := conn.read(idleTime)
		if err != nil {
			return err
		}
		switch kind {
		case frameFlood:
			b, err := decodePlaneChanges(body)
			if err != nil {
				return err
			}
			if b.plane != c.ID() {
				return fmt.Errorf("changes are of plane %d, not %d", b.plane, c.ID())
			}
			fresh, _, err := p.applyPlane(source, c, b.list, true)
			something = something || fresh > 0
			if err != nil {
				return err
			}
		case frameEnd:
			c.pulled(something)
			return nil
		case frameBusy:
			return errBusy
		case frameRefusal:
			return refusal(body)
		default:
			return fmt.Errorf("unexpected frame of kind %d", kind)
		}
	}
}

// answerVector sends what a node lacks of a plane, and finds out whether this one does.
func (p *Peer) answerVector(conn *connection, from Member, body []byte) error {
	d := decoder{rest: body}
	id := StreamID(d.u8())
	c := p.course(id)
	if c == nil {
		return conn.write(frameRefusal, fmt.Appendf(nil, "plane %d is unknown", id))
	}
	list, behind, err := c.Delta(d.rest)
	if err != nil {
		return errors.Join(err, conn.write(frameRefusal, []byte("the vector can't be read")))
	}
	batch, size := planeChanges{plane: id}, 0
	flush := func() error {
		err := conn.write(frameFlood, batch.encode())
		batch.list, size = batch.list[:0], 0
		return err
	}
	for change := range list {
		if size > 0 && size+len(change) > deltaBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		batch.list, size = append(batch.list, change), size+len(change)
	}
	if size > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	if behind && c.mayPull() && from.Address != "" {
		p.puller.wantPlane(c, from)
	}
	return conn.write(frameEnd, nil)
}

// wantPlane asks for what a member has of a plane.
func (q *puller) wantPlane(c *course, from Member) {
	q.mu.Lock()
	q.planes[c] = from
	q.mu.Unlock()
	wake(q.pokePlanes)
}

// nextPlane chooses a plane that may lack something, nil if there is none.
func (q *puller) nextPlane() (*course, Member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for c, from := range q.planes {
		delete(q.planes, c)
		return c, from
	}
	return nil, Member{}
}

// runPlanes pulls whenever something of a plane is wanted. What fails is not wanted any
// more: heads will tell again.
func (q *puller) runPlanes() {
	for {
		c, from := q.nextPlane()
		if c != nil {
			q.pullPlane(c, from)
			continue
		}
		select {
		case <-q.pokePlanes:
		case <-q.peer.ctx.Done():
			return
		}
	}
}

func (q *puller) pullPlane(c *course, source Member) {
	pull := func(ctx context.Context, source Member, came func()) error {
		err := q.peer.pullPlane(ctx, c, source, came)
		if err != nil {
			c.pulled(false)
			q.failed(c.ID(), source, err)
			return err
		}
		q.peer.counters.pulls.add(1)
		return nil
	}
	// Its error is told by then.
	_ = q.patiently(source, pull, func() (Member, bool) { return q.sourceOf(c), true })
}

// sourceOf takes who last showed to have more of a plane, the zero Member if nobody
// did.
func (q *puller) sourceOf(c *course) Member {
	q.mu.Lock()
	defer q.mu.Unlock()
	source := q.planes[c]
	delete(q.planes, c)
	return source
}
