package gossip

import (
	"context"
	"slices"
	"sync"
	"time"

	"grapevine/kv"
)

const (
	// lingering is how long a connection stays that nobody needs any more, so that a
	// member which comes and goes costs its neighbours no connections.
	lingering = 10 * time.Second
	// dialPatience is how long the side that does not dial waits for the one that should,
	// which may not know yet that they are neighbours.
	dialPatience = 2 * time.Second
)

// link is what this node knows of a neighbour, or of one that takes it for a
// neighbour, and the connection between them, which carries pushes both ways. It
// has no queue: it knows how far the other is, and takes what comes after from the
// stream or the flood.
type link struct {
	peer *Peer
	name string             // the full name of the member at the other end
	stop context.CancelFunc // of run, nil if the member is no neighbour; guarded by Peer.mu
	idle time.Time          // since when it is none; guarded by Peer.mu

	mu      sync.Mutex // guards what is below
	member  Member
	known   map[StreamID]kv.Head // what the neighbour has, or will have
	cursors map[StreamID]uint64  // what of the floods it was sent
	digests map[StreamID]uint64  // what it last said of its planes
	session *session             // nil if they are not connected
	changed signal               // session is another one
}

// keepLinks keeps the links to the neighbours connected, and lets go of others.
func (p *Peer) keepLinks() {
	for {
		members, refreshed, leader := p.members.changed.wait(), p.refreshed.wait(), p.o.Leader()
		p.keepLinksTo(p.neighbours(leader), leader, members, refreshed)
		if p.ctx.Err() != nil {
			return
		}
	}
}

// keepLinksTo keeps links until the neighbours may be others.
func (p *Peer) keepLinksTo(neighbours []Member, leader NodeID, members, refreshed <-chan struct{}) {
	for {
		p.setLinks(neighbours)
		timer := time.NewTimer(p.o.Timings.Heads)
		select {
		case <-timer.C:
			if p.o.Leader() == leader {
				continue
			}
			return
		case <-members:
		case <-refreshed:
		case <-p.ctx.Done():
		}
		timer.Stop()
		return
	}
}

func (p *Peer) neighbours(leader NodeID) []Member {
	around := Neighbourhood{Self: p.self(), Leader: leader, Members: p.members.others(p.o.Meta.ID)}
	ids := p.o.Neighbours(around)
	neighbours := make([]Member, 0, len(ids))
	for _, m := range around.Members {
		if slices.Contains(ids, m.ID) {
			neighbours = append(neighbours, m)
		}
	}
	return neighbours
}

func (p *Peer) setLinks(neighbours []Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[string]bool{}
	for _, member := range neighbours {
		l := p.link(member)
		wanted[l.name] = true
		l.is(member)
		if l.stop == nil {
			var ctx context.Context
			ctx, l.stop = context.WithCancel(p.ctx)
			p.group.Go(func() { l.run(ctx) })
		}
	}
	for name, l := range p.links {
		if wanted[name] {
			l.idle = time.Time{}
			continue
		}
		p.release(l)
	}
}

// release lets go of a link to who is no neighbour: at once if they are not
// connected. Holders of mu call it.
func (p *Peer) release(l *link) {
	if l.idle.IsZero() {
		l.idle = time.Now()
	}
	session := l.connected()
	connected, shunned := session != nil, p.members.shuns(l.at().ID)
	if connected && shunned {
		session.Close()
	}
	if l.stop != nil && (!connected || shunned || time.Since(l.idle) >= lingering) {
		l.stop()
		l.stop = nil
	}
	if l.stop == nil && !connected {
		delete(p.links, l.name)
	}
}

// link is that to a member, made if there is none. Holders of mu call it.
func (p *Peer) link(member Member) *link {
	name := fullName(member.ID, member.boot)
	l := p.links[name]
	if l == nil {
		l = &link{
			peer: p, name: name, member: member,
			known: map[StreamID]kv.Head{}, cursors: map[StreamID]uint64{}, digests: map[StreamID]uint64{},
		}
		p.links[name] = l
	}
	return l
}

// linked is the link to a member, nil if there is none.
func (p *Peer) linked(member Member) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links[fullName(member.ID, member.boot)]
}

// Neighbours is how many members this node is connected to, to push changes.
func (p *Peer) Neighbours() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	connected := 0
	for _, l := range p.links {
		if l.connected() != nil {
			connected++
		}
	}
	return connected
}

// knows notes that a member has a head, so that nothing is pushed to it that it has.
func (p *Peer) knows(member Member, stream StreamID, head kv.Head) {
	if l := p.linked(member); l != nil {
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

// says notes what the neighbour said of a plane.
func (l *link) says(plane StreamID, digest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.digests[plane] = digest
}

// connected is the session in use, nil if there is none.
func (l *link) connected() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// run keeps the link connected. Of each pair the one with the lower name dials, so that
// they do not do it both.
func (l *link) run(ctx context.Context) {
	dials := fullName(l.peer.o.Meta.ID, l.peer.o.Boot) < l.name
	pauses := backoff{least: 100 * time.Millisecond, most: 5 * time.Second}
	for first := true; ; first = false {
		if !l.settled(ctx, dials && first) {
			return
		}
		began := time.Now()
		err := l.dial(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > pauses.most {
			pauses.reset()
		}
		l.peer.log.Debug("link is down", "member", string(l.at().ID), "err", err)
		if !pause(ctx.Done(), pauses.next()) {
			return
		}
		if !dials && !l.patient(ctx) {
			return
		}
	}
}

// settled waits while the link is connected, and, unless it is to be dialled at once,
// for the other side to do it. It reports false when the link is not wanted any more.
func (l *link) settled(ctx context.Context, atOnce bool) bool {
	if !atOnce && !l.patient(ctx) {
		return false
	}
	for {
		changed := l.changed.wait()
		if l.connected() == nil {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// patient gives the other side time to connect.
func (l *link) patient(ctx context.Context) bool {
	changed := l.changed.wait()
	if l.connected() != nil {
		return true
	}
	timer := time.NewTimer(jitter(dialPatience))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}
