package health

import (
	"sync/atomic"
	"time"
)

// State is whether a destination can be used.
type State uint32

// The states. Unknown and Healthy ones are used.
const (
	Unknown   State = iota // never asked, and nothing went wrong
	Healthy                // the checks say so
	Unhealthy              // the checks say so
	Ejected                // taken out after failures of requests
)

var stateNames = [...]string{"unknown", "healthy", "unhealthy", "ejected"}

// String is the state's name for people.
func (s State) String() string { return stateNames[s] }

// Usable tells whether nothing speaks against the destination.
func (s State) Usable() bool { return s <= Healthy }

// maxGrowth bounds how much longer than the first ejection one becomes.
const maxGrowth = 10

// Member is the health of one address in a group.
type Member struct {
	group   *Group
	address string
	dial    Dial

	failures atomic.Int32 // of requests, in a row
	state    atomic.Uint32
	since    atomic.Int64 // Unix nanoseconds, see UsedSince

	// The group's mu guards what follows.
	users   int
	verdict verdict
	why     string        // of the verdict, or what the checks found last
	asked   *subscription // to this node's checks; nil when there are none
	part    *part         // in checks that few nodes make for all; nil without

	out       bool // ejected
	ejections int  // that followed each other soon
	total     int  // ejections ever
	spell     time.Duration
	until     time.Time   // of the ejection
	timer     *time.Timer // the end of the spell
	back      time.Time   // when the ejection before ended
	returning *subscription
}

// State is what is known now.
func (m *Member) State() State { return State(m.state.Load()) }

// UsedSince is when the member began to be used in a group that had others, or
// was used again after it could not be. It is zero for one that was there from
// the group's beginning.
func (m *Member) UsedSince() time.Time {
	if at := m.since.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Succeeded tells of a request that the destination answered well.
func (m *Member) Succeeded() {
	if m.failures.Load() != 0 {
		m.failures.Store(0)
	}
}

// Failed tells of a request that failed because of the destination. It takes it
// out when it is one too many in a row.
func (m *Member) Failed() {
	n := m.failures.Add(1)
	if limit := m.group.limit.Load(); limit == 0 || n < limit {
		return
	}
	m.failures.Store(0) // so that the lock is taken once in a while, also when it can't be taken out
	doubted := m.group.doubt(m)
	if m.group.eject(m, n) || doubted {
		m.group.changed()
	}
}

// enter is called with the group's mu, as all that follows. fresh is set when
// the group begins with it.
func (m *Member) enter(fresh bool) {
	if !fresh {
		m.since.Store(time.Now().UnixNano())
	}
	m.follow()
}

func (m *Member) leave() {
	m.group.monitor.unsubscribe(m.asked)
	m.group.monitor.unsubscribe(m.returning)
	m.asked, m.returning = nil, nil
	if m.part != nil {
		m.group.monitor.unshare(m)
		m.part = nil
	}
	if m.timer != nil {
		m.timer.Stop()
	}
	m.out = false
	m.group.monitor.hide(m)
}

// follow brings the member in line with the group's policy.
func (m *Member) follow() {
	p := &m.group.policy
	if p.Failures == 0 && m.out {
		m.comeBack()
	}
	if !p.Asked && (m.asked != nil || m.part != nil) {
		m.verdict, m.why = unknown, ""
	}
	m.shares()
	m.ask(time.Now())
}

// ask begins, changes or ends the checks that this node makes itself, and tells
// whether the state has changed by that.
func (m *Member) ask(now time.Time) (changed bool) {
	asks, want := m.asks(now), m.group.policy.Check.at(m.address)
	if asks && m.asked != nil && m.asked.probe.check == want || !asks && m.asked == nil {
		return m.update()
	}
	before := m.asked
	m.asked = nil
	if asks {
		s, v, why := m.group.monitor.subscribe(want, m.dial, m.presumed(now), m.told)
		m.group.monitor.show(m)
		if m.asked = s; v != unknown { // until the new checks say something, what was known before
			m.verdict, m.why = v, why
		}
	}
	m.group.monitor.unsubscribe(before)
	return m.update()
}

// told takes a verdict of the checks.
func (m *Member) told(s *subscription, v verdict, why string) {
	g := m.group
	g.mu.Lock()
	current := s == m.asked
	if current {
		m.verdict, m.why = v, why
		m.update()
	}
	if m.part != nil {
		g.monitor.wake()
	}
	g.mu.Unlock()
	if current {
		g.changed()
	}
}

// update brings the state in line with what is known, and says so once. It tells
// whether there was anything to say.
func (m *Member) update() bool {
	next := Unknown
	switch {
	case m.out:
		next = Ejected
	case m.verdict == down:
		next = Unhealthy
	case m.verdict == up:
		next = Healthy
	}
	before := m.State()
	if next == before {
		return false
	}
	if next.Usable() && !before.Usable() {
		m.since.Store(time.Now().UnixNano())
		m.failures.Store(0)
	}
	m.state.Store(uint32(next))
	m.log(before, next)
	return true
}

func (m *Member) log(before, next State) {
	logger := m.group.monitor.logger.With("cluster", m.group.cluster, "destination", m.address)
	switch {
	case next == Unhealthy:
		logger.Warn("destination is unhealthy", "err", m.why)
	case next == Ejected:
		logger.Warn("destination is ejected", "for", m.spell.String(), "ejections", m.total)
	case before.Usable():
		logger.Debug("destination is healthy")
	default:
		logger.Info("destination is used again", "was", before.String())
	}
}
