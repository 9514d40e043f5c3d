package health

import (
	"maps"
	"slices"
	"time"
)

// A check that few nodes make for all saves questions while a destination is well,
// and only then. What others say never takes a destination out: a node that hears
// anything but good, or nothing, or whose own requests fail, asks for itself, and
// acts on what it finds.

const (
	// together is how long news of the peers are gathered before they are acted on.
	together = 100 * time.Millisecond
	// lookEvery is how often times are looked at.
	lookEvery = time.Second
	// handOver is how long a node goes on asking for the others when it is no longer
	// one of those who should: a member that comes and goes moves nothing.
	handOver = 15 * time.Second
	// doubtFor is how long a node asks for itself after what made it doubt the others.
	doubtFor = time.Minute
	// What is found is told again each retellChecks intervals, and at least each
	// retellLeast. Others believe it for believeTimes as long.
	retellChecks = 6
	retellLeast  = time.Minute
	believeTimes = 3
	// settleIn is how long a node that starts tells nobody anything: it may not know
	// yet that it is not the only one.
	settleIn = 5 * time.Second
	// firstMargin is for a first verdict to be told.
	firstMargin = 2 * time.Second
)

// part is a member's part in a check that few nodes make for all. The group's mu
// guards it.
type part struct {
	subject Subject
	hash    uint64 // of the question
	check   Check

	asksUntil  time.Time // for the others; zero if it never did
	doubtUntil time.Time
	silence    time.Time // since when nobody has said that all is well
	heard      map[string]heard
	elected    bool
	good       bool // somebody says that all is well, and nobody that it is not

	told   verdict // what the others were told, unknown: nothing
	toldAt time.Time
	count  uint64
	mute   bool // they could not be told, and that was said
}

// heard is when a node's opinion was new.
type heard struct {
	opinion Opinion
	at      time.Time
}

// shares gives a member its part, or none, as its policy says. It is called with
// the group's mu.
func (m *Member) shares() {
	p, monitor := &m.group.policy, m.group.monitor
	want := p.Check.at(m.address)
	switch {
	case !p.Asked || p.Probers == 0 || monitor.peers == nil:
		if m.part != nil {
			monitor.unshare(m)
			m.part = nil
		}
	case m.part == nil || m.part.check != want:
		id := want.id()
		if m.part != nil {
			monitor.unshare(m)
		}
		m.part = &part{
			subject: Subject{m.group.cluster, id}, hash: hashOf(id), check: want, silence: time.Now(), heard: map[string]heard{},
		}
		monitor.share(m)
	}
}

// asks tells whether the node has to ask for itself now.
func (m *Member) asks(now time.Time) bool {
	p := m.part
	switch {
	case !m.group.policy.Asked:
		return false
	case p == nil:
		return true
	}
	return now.Before(p.asksUntil) || now.Before(p.doubtUntil) || !p.good && now.Sub(p.silence) >= p.patience()
}

// presumed is what a check may begin with: a destination that is well needs as many
// bad answers as ever, unless there is something that speaks against it.
func (m *Member) presumed(now time.Time) verdict {
	if m.part != nil && m.verdict == up && !now.Before(m.part.doubtUntil) {
		return up
	}
	return unknown
}

// patience is how long nothing may be heard of a destination: as long as those who
// ask need for their first verdict.
func (p *part) patience() time.Duration { return firstWithin + p.check.Timeout + firstMargin }

// retell is how often the others are told what is found.
func (p *part) retell() time.Duration { return max(retellChecks*p.check.Interval, retellLeast) }

// doubt has the node ask for itself for a while, since its own requests fail. It
// tells whether the state has changed by that.
func (g *Group) doubt(m *Member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.part == nil || m.users == 0 {
		return false
	}
	now := time.Now()
	m.part.doubtUntil = now.Add(doubtFor)
	return m.ask(now)
}

// listen brings the member in line with what the others say, and who they are. It
// is called with the group's mu, and tells whether its state has changed.
func (m *Member) listen(now time.Time, e electorate, said []Opinion) (changed bool) {
	p := m.part
	if p.elected = e.elects(p.hash, m.group.policy.Probers); p.elected {
		p.asksUntil = now.Add(handOver)
	}
	good, bad := p.hear(now, said)
	if p.good = good && !bad; p.good {
		p.silence = now
	}
	if bad || m.asked != nil && m.verdict == down { // what it found itself holds until it finds something else
		p.doubtUntil = now.Add(doubtFor)
	}
	changed = m.ask(now)
	if m.asked == nil && p.good {
		m.verdict, m.why = up, ""
	}
	return m.update() || changed
}

// hear tells whether somebody has said lately that all is well, and somebody that it
// is not.
func (p *part) hear(now time.Time, said []Opinion) (good, bad bool) {
	for _, o := range said {
		h, known := p.heard[o.Node]
		if !known || h.opinion != o {
			h = heard{o, now}
			p.heard[o.Node] = h
		}
		if now.Sub(h.at) <= believeTimes*p.retell() {
			good, bad = good || o.Up, bad || !o.Up
		}
	}
	if len(p.heard) > len(said) {
		maps.DeleteFunc(p.heard, func(node string, _ heard) bool {
			return !slices.ContainsFunc(said, func(o Opinion) bool { return o.Node == node })
		})
	}
	return good, bad
}

// finding is what the others have to be told now, if that is anything, and whether
// what they were told has to go. It is called with the group's mu.
func (m *Member) finding(now time.Time) (f Finding, tell, withdraw bool) {
	p, found := m.part, unknown
	speaks := p.told != unknown || p.elected && m.group.monitor.settled(now)
	if speaks && m.asked != nil && now.Before(p.asksUntil) && !m.group.monitor.resting.Load() {
		found = m.group.monitor.found(m.asked)
	}
	if found == unknown {
		withdraw = p.told != unknown
		p.told = unknown
		return f, false, withdraw
	}
	if found == p.told && now.Sub(p.toldAt) < p.retell() {
		return f, false, false
	}
	p.told, p.toldAt = found, now
	p.count++
	f = Finding{Subject: p.subject, Address: m.address, Up: found == up, Count: p.count}
	if !f.Up {
		f.Why = m.why
	}
	f.Good, f.Bad = m.group.monitor.answers(m.address)
	return f, true, false
}
