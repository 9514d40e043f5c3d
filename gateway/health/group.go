package health

import (
	"sync"
	"sync/atomic"

	"grapevine/gateway/spec"
)

// Group is the health of a cluster's destinations, for as long as tables use
// them.
type Group struct {
	cluster string
	monitor *Monitor
	// changed is called after a member's state has changed, without a lock held.
	changed func()
	// limit is how many failures of requests in a row mean something: the policy's
	// Failures, or where these take nothing out, as many as make a node doubt what
	// others say. 0: none do.
	limit atomic.Int32

	// mu guards what follows, and all of the members but their atomics.
	mu      sync.Mutex
	policy  Policy
	members map[string]*Member
	begun   bool // has had members
}

// NewGroup makes a group without members. changed may be called from any
// goroutine, and more often than something has changed.
func (m *Monitor) NewGroup(cluster string, changed func()) *Group {
	return &Group{cluster: cluster, monitor: m, changed: changed, members: map[string]*Member{}}
}

// Member gives the health of an address, which begins as Unknown. It is the
// group's own from the first Enter to the last Leave with it.
func (g *Group) Member(address string, dial Dial) *Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	member := g.members[address]
	if member == nil {
		member = &Member{group: g, address: address, dial: dial}
		g.members[address] = member
	}
	return member
}

// Enter begins a use of members, which are judged by policy from now on, as all
// of the group are. Each Enter is followed by one Leave of the same members.
func (g *Group) Enter(policy Policy, members []*Member) {
	g.mu.Lock()
	old := g.policy
	g.policy = policy
	g.limit.Store(int32(policy.Failures))
	if policy.Failures == 0 && policy.Probers > 0 && g.monitor.peers != nil {
		g.limit.Store(spec.DefaultConsecutiveFailures)
	}
	fresh := !g.begun
	for _, member := range members {
		if member.users++; member.users == 1 {
			member.enter(fresh)
		}
	}
	if old != policy {
		for _, member := range g.members {
			member.follow()
		}
	}
	g.begun = true
	g.mu.Unlock()
	g.changed()
}

// Leave ends a use. Of members that nobody uses any more nothing is left.
func (g *Group) Leave(members []*Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, member := range members {
		if member.users--; member.users == 0 {
			member.leave()
			delete(g.members, member.address)
		}
	}
}

// Close ends the checks and waits of all members, for good.
func (g *Group) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, member := range g.members {
		member.leave()
	}
}

// ejected counts the members that are out. It is called with mu.
func (g *Group) ejected() (n int) {
	for _, member := range g.members {
		if member.out {
			n++
		}
	}
	return n
}
