package health

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Follow follows what the peers do and say, and tells them what this node finds,
// until ctx is over. Without peers it returns at once. It is called once.
func (m *Monitor) Follow(ctx context.Context) {
	if m.peers == nil {
		return
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	defer func() {
		m.Rest()
		m.lookAround(m.peers.Look())
	}()
	m.follows = time.Now()
	for {
		look := m.peers.Look()
		m.lookAround(look)
		select {
		case <-look.NodesChanged:
		case <-look.SaidChanged:
		case <-m.news:
		case <-ticker.C:
			continue
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(together):
		case <-ctx.Done():
			return
		}
	}
}

// Rest takes back what the peers were told, for good: a node that is about to stop
// lets others take its part before.
func (m *Monitor) Rest() {
	m.resting.Store(true)
	m.wake()
}

// settled tells whether the node has had the time to find its peers.
func (m *Monitor) settled(now time.Time) bool {
	return now.Sub(m.follows) >= settleIn
}

// wake has Follow look soon.
func (m *Monitor) wake() {
	select {
	case m.news <- struct{}{}:
	default: // it will look anyway
	}
}

// lookAround brings all members in line, and tells the peers what is new.
func (m *Monitor) lookAround(look Outlook) {
	now, e := time.Now(), newElectorate(look.Self, look.Nodes)
	changed := map[*Group]struct{}{}
	for _, member := range m.sharing() {
		g := member.group
		g.mu.Lock()
		p := member.part
		if p == nil || member.users == 0 { // meanwhile
			g.mu.Unlock()
			continue
		}
		if member.listen(now, e, look.Said[p.subject]) {
			changed[g] = struct{}{}
		}
		finding, tell, withdraw := member.finding(now)
		g.mu.Unlock()
		switch {
		case withdraw:
			m.peers.Withdraw(p.subject)
		case tell:
			m.tell(p, finding)
		}
	}
	for _, subject := range m.left() {
		m.peers.Withdraw(subject)
	}
	for g := range changed {
		g.changed()
	}
}

// tell says once that the others can't be told. They ask for themselves then.
func (m *Monitor) tell(p *part, f Finding) {
	err := m.peers.Tell(f)
	if err != nil && !p.mute {
		m.logger.Warn("what checks find is not told to the other nodes, which ask for themselves",
			"cluster", f.Subject.Cluster, "destination", f.Address, "err", err)
	}
	p.mute = err != nil
}

// sharing are the members that share checks.
func (m *Monitor) sharing() []*Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.shared))
}

// share is called with the group's mu, as unshare.
func (m *Monitor) share(member *Member) {
	m.mu.Lock()
	m.shared[member] = struct{}{}
	m.mu.Unlock()
	m.wake()
}

func (m *Monitor) unshare(member *Member) {
	m.mu.Lock()
	delete(m.shared, member)
	if member.part.told != unknown {
		m.gone = append(m.gone, member.part.subject)
	}
	m.mu.Unlock()
	m.wake()
}

// left are the subjects that this node has told of, and that it has no part in any
// more.
func (m *Monitor) left() []Subject {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := m.gone
	m.gone = nil
	for member := range m.shared { // it may be back meanwhile
		gone = slices.DeleteFunc(gone, func(s Subject) bool { return s == member.part.subject })
	}
	return gone
}

// found is what a subscription's own checks say, unknown before the first answer.
func (m *Monitor) found(s *subscription) verdict {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !s.probe.answered {
		return unknown
	}
	return s.probe.verdict
}

// answers are how many good and bad ones an address has given.
func (m *Monitor) answers(address string) (good, bad uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.turns[address]; t != nil {
		good, bad = t.results[1], t.results[0]
	}
	return good, bad
}
