package gossip

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"grapevine/kv"
)

const (
	// pullTime bounds one pull, snapshot included.
	pullTime = 10 * time.Minute
	// pullPatience is how long nothing may come of a pull before somebody else is asked beside
	// it: a connection of which TCP has lost some segments may stand still for many seconds.
	pullPatience = 500 * time.Millisecond
	// pushGrace is how long what only a head told of may come by itself: it has most likely
	// overtaken a push, which is much cheaper than a connection to pull.
	pushGrace = 40 * time.Millisecond
	// leastPause is that after the first pull that failed. It doubles up to failedPause, and by
	// busyPerMember more if the other side serves too many: so long that of a thousand nodes
	// who all need a snapshot some 200 ask in a second.
	leastPause    = 25 * time.Millisecond
	failedPause   = 500 * time.Millisecond
	busyPerMember = 5 * time.Millisecond
)

var (
	errBusy      = errors.New("it serves too many pulls")
	errElsewhere = errors.New("only a voter can give a whole snapshot")
)

// puller fetches what this node lacks: one pull at a time of streams, and one of planes.
type puller struct {
	peer       *Peer
	poke       chan struct{} // holds one when there may be something to do for a stream
	pokePlanes chan struct{} // the same for a plane

	mu     sync.Mutex // guards what is below
	wanted map[StreamID]*want
	planes map[*course]Member // who may have more of a plane
}

// want is what is known to be ahead of this node in one stream.
type want struct {
	head    kv.Head // a genuine one
	last    NodeID  // who was ahead last: it is asked first
	urgent  bool    // nobody will push it, or not all of it
	sources map[NodeID]Member
	// elsewhere says that others than voters could not help: voters are asked first.
	elsewhere bool
}

func newPuller(p *Peer) *puller {
	return &puller{
		peer: p, poke: make(chan struct{}, 1), pokePlanes: make(chan struct{}, 1),
		wanted: map[StreamID]*want{}, planes: map[*course]Member{},
	}
}

// want asks for what leads to a genuine head that a member has. It is urgent where a push
// showed that something is missing, and not where it may be on its way.
func (q *puller) want(from Member, s Stream, head kv.Head, urgent bool) {
	q.mu.Lock()
	w := q.wanted[s.ID()]
	if w == nil {
		w = &want{sources: map[NodeID]Member{}}
		q.wanted[s.ID()] = w
	}
	switch relate(w.head, head) {
	case newer, first, higherEpoch:
		w.head = head
	}
	w.last, w.urgent = from.ID, w.urgent || urgent
	if from.Address != "" {
		w.sources[from.ID] = from
	}
	q.mu.Unlock()
	wake(q.poke)
}

// wake lets the one who waits for poke look again.
func wake(poke chan struct{}) {
	select {
	case poke <- struct{}{}:
	default:
	}
}

// run pulls whenever something of a stream is wanted.
func (q *puller) run() {
	pauses := backoff{least: leastPause}
	for {
		s, source := q.next()
		if q.maybeUnderWay(s) {
			if !pause(q.peer.ctx.Done(), jitter(pushGrace)) {
				return
			}
			s, source = q.next()
		}
		busy := true
		switch {
		case s == nil:
			pauses.reset()
			select {
			case <-q.poke:
			case <-q.peer.ctx.Done():
				return
			}
			continue
		case source.ID == "":
			// Nobody can help now.
		default:
			err := q.pull(s, source)
			if err == nil {
				pauses.reset()
				continue
			}
			busy = errors.Is(err, errBusy)
		}
		pauses.most = failedPause
		if busy {
			pauses.most += time.Duration(len(q.peer.members.others(q.peer.o.Meta.ID))) * busyPerMember
		}
		if !q.rest(source, busy, pauses.next()) {
			return
		}
	}
}

// maybeUnderWay tells of a stream of which only a head told that something is missing, once:
// what is wanted of it is urgent from then on.
func (q *puller) maybeUnderWay(s Stream) bool {
	if s == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.wanted[s.ID()]
	if w == nil || w.urgent {
		return false
	}
	w.urgent = true
	return true
}

// rest is the pause after a pull from a member that failed. Unless that was busy, it is over as
// soon as there is somebody else to ask: after a partition nobody is to wait for what
// was hopeless in it.
func (q *puller) rest(tried Member, busy bool, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for busy || !q.knowsOther(tried) {
		select {
		case <-q.poke:
		case <-timer.C:
			return true
		case <-q.peer.ctx.Done():
			return false
		}
	}
	return pause(q.peer.ctx.Done(), jitter(leastPause))
}

// knowsOther tells whether another member than one is to be asked next.
func (q *puller) knowsOther(than Member) bool {
	_, source := q.next()
	return source.ID != "" && source.ID != than.ID
}

// next chooses a stream that lacks something and whom to ask. No stream means that
// nothing is wanted.
func (q *puller) next() (Stream, Member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.peer.o.Streams {
		w := q.wanted[s.ID()]
		if w == nil {
			continue
		}
		switch judge(s.Head(), w.head, q.peer.standing()) {
		case replace:
			return s, q.source(w, isVoter)
		case pull:
			if m := q.source(w, isVoter); w.elsewhere && m.ID != "" {
				return s, m
			}
			return s, q.source(w, func(Member) bool { return true })
		}
		delete(q.wanted, s.ID())
	}
	return nil, Member{}
}

// isVoter tells who may be asked for a whole snapshot.
func isVoter(m Member) bool { return m.Role != Edge }

// source is whom to ask among those who are fit: the one who was ahead last, another
// one who was, or any member; the zero Member if there is none. Holders of mu call it.
func (q *puller) source(w *want, fit func(Member) bool) Member {
	if m, ok := w.sources[w.last]; ok && fit(m) {
		return m
	}
	if m := anyOf(maps.Values(w.sources), fit); m.ID != "" {
		return m
	}
	return anyOf(slices.Values(q.peer.members.others(q.peer.o.Meta.ID)), fit)
}

// anyOf is one of the members that are fit, each as likely as any other; the zero Member if there
// is none. It copies no list: a thousand members are asked for whenever a pull has failed.
func anyOf(members iter.Seq[Member], fit func(Member) bool) (chosen Member) {
	n := 0
	for m := range members {
		if !fit(m) {
			continue
		}
		if n++; rand.IntN(n) == 0 {
			chosen = m
		}
	}
	return chosen
}

// pull fetches what is wanted of a stream.
func (q *puller) pull(s Stream, source Member) error {
	pull := func(ctx context.Context, source Member, came func()) error {
		err := q.peer.pullFrom(ctx, s, source, came)
		q.note(s, source, err)
		return err
	}
	return q.patiently(source, pull, func() (Member, bool) {
		wanted, source := q.next()
		return source, wanted == s
	})
}

// note learns from a pull how to do the next one.
func (q *puller) note(s Stream, source Member, err error) {
	if err == nil {
		q.peer.counters.pulls.add(1)
		return
	}
	q.failed(s.ID(), source, err)
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.wanted[s.ID()]
	if w == nil {
		return
	}
	if errors.Is(err, errElsewhere) {
		w.elsewhere = true
	}
	if !errors.Is(err, errBusy) {
		delete(w.sources, source.ID)
	}
}

func (q *puller) failed(stream StreamID, source Member, err error) {
	q.peer.counters.pullsFailed.add(1)
	q.peer.log.Debug("pull failed", "from", string(source.ID), "stream", int(stream), "err", err)
}

// pullFrom fetches what comes after our head from one member, and calls came whenever
// something has come.
func (p *Peer) pullFrom(ctx context.Context, s Stream, source Member, came func()) error {
	c, theirs, err := p.openPull(ctx, source, came)
	if err != nil {
		return err
	}
	defer c.Close()
	before := s.Head()
	if err := c.write(framePull, point{s.ID(), before}.encode()); err != nil {
		return err
	}
	for {
		kind, body, err := c.read(idleTime)
		if err != nil {
			return err
		}
		switch kind {
		case frameChanges:
			err = p.takeDelta(source, s, body)
		case frameSnapshot:
			return p.takeSnapshot(c, source, s, body)
		case frameEnd:
			if relate(before, s.Head()) == equal {
				return fmt.Errorf("node %s has nothing new", theirs.digest.id)
			}
			return nil
		case frameBusy:
			return errBusy
		case frameElsewhere:
			return errElsewhere
		case frameDiverged:
			return p.takeDivergence(source, s, body)
		case frameRefusal:
			return refusal(body)
		default:
			return fmt.Errorf("unexpected frame of kind %d", kind)
		}
		if err != nil {
			return err
		}
	}
}

// openPull connects to ask for something, and closes the connection when ctx is over.
func (p *Peer) openPull(ctx context.Context, source Member, came func()) (*connection, hello, error) {
	c, theirs, err := p.open(ctx, source, toPull)
	if err != nil {
		return nil, hello{}, err
	}
	came()
	c.came = came
	return c, theirs, nil
}

func (p *Peer) takeDelta(from Member, s Stream, body []byte) error {
	c, err := decodeChanges(body)
	if err != nil {
		return err
	}
	if c.stream != s.ID() {
		return fmt.Errorf("changes are of stream %d, not %d", c.stream, s.ID())
	}
	p.counters.received.add(len(c.list))
	p.knows(from, c.stream, c.upTo)
	return p.apply(from, s, c)
}

// takeDivergence hears that our head is not in the history of a node that is ahead.
func (p *Peer) takeDivergence(from Member, s Stream, body []byte) error {
	at, err := decodePoint(body)
	if err != nil {
		return err
	}
	if ours := s.Head(); relate(ours, at.head) == newer && p.genuine(from, s, ours, at.head) {
		p.alarms.raise(Diverged, from, s.ID(), ours, at.head, nil)
	}
	return kv.ErrDiverged
}
