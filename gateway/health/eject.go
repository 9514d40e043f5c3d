package health

import "time"

// eject takes a member out, unless too many are; it tells whether it did.
func (g *Group) eject(m *Member, failures int32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &g.policy
	switch {
	case m.users == 0 || m.out || p.Failures == 0 || int(failures) < p.Failures:
		return false
	case m.verdict == down: // it is out already, and the checks say when it is well again
		return false
	}
	if (g.ejected()+1)*100 > p.MaxPercent*len(g.members) {
		return false
	}
	if time.Since(m.back) > m.spell { // it has held out longer than it was out
		m.ejections = 0
	}
	m.ejections = min(m.ejections+1, maxGrowth)
	m.total++
	m.spell = p.EjectFor * time.Duration(m.ejections)
	m.until = time.Now().Add(m.spell)
	m.out = true
	m.timer = time.AfterFunc(m.spell, m.serve)
	g.monitor.show(m)
	m.update()
	return true
}

// serve is called when the time is over. Where nothing asks the member anyway, it
// first has to take a connection.
func (m *Member) serve() {
	g := m.group
	g.mu.Lock()
	if !m.out || m.returning != nil || time.Now().Before(m.until) { // it is of another ejection, or of none
		g.mu.Unlock()
		return
	}
	if m.asked == nil {
		s, v, _ := g.monitor.subscribe(g.policy.returning(m.address), m.dial, unknown, m.reached)
		if m.returning = s; v != up {
			g.mu.Unlock()
			return
		}
	}
	m.comeBack()
	g.mu.Unlock()
	g.changed()
}

// reached takes the verdict of the check that an ejected member has to pass.
func (m *Member) reached(s *subscription, v verdict, _ string) {
	g := m.group
	g.mu.Lock()
	passed := s == m.returning && v == up
	if passed {
		m.comeBack()
	}
	g.mu.Unlock()
	if passed {
		g.changed()
	}
}

// comeBack ends an ejection. It is called with the group's mu.
func (m *Member) comeBack() {
	m.group.monitor.unsubscribe(m.returning)
	m.returning = nil
	m.timer.Stop()
	m.out, m.back = false, time.Now()
	m.update()
}

// Report is what is known of a member.
type Report struct {
	Cluster, Address string
	State            State
	Why              string // the last answer of a check that was bad, "" else
	Asked            bool   // whether checks are made, by this node or by others
	Others           bool   // by others, who say that all is well
	Ejections        int    // since the address is in the cluster
	Until            time.Time
}

// Report tells what is known. Until is zero but for an ejected member.
func (m *Member) Report() Report {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	r := Report{
		Cluster: m.group.cluster, Address: m.address, State: m.State(), Why: m.why, Asked: m.asked != nil || m.part != nil, Others: m.asked == nil && m.part != nil, Ejections: m.total,
	}
	if m.out {
		r.Until = m.until
	}
	return r
}
