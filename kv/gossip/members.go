package gossip

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// How long a node that is gone stays in the list of members, and how many such
// nodes at most. Serf keeps failed nodes as long (its ReconnectTimeout).
const (
	keepDead = 24 * time.Hour
	keepLeft = time.Hour
	maxGone  = 4096
	// maxMembers bounds those that live: who has the key of the gossip can make up any number.
	maxMembers = 10_000
)

var (
	// ErrUnknownMember is returned for a node id that no member has.
	ErrUnknownMember = errors.New("no such member")
	// ErrMemberAlive is returned when a member is to be forgotten that may live.
	ErrMemberAlive = errors.New("member is not dead")
)

// members is all nodes by their full names. memberlist reports into it, from
// within its own lock: what is below never calls memberlist.
type members struct {
	log     *slog.Logger
	changed signal
	// appliedChanged tells that a node applied something.
	appliedChanged signal

	mu      sync.Mutex // guards what is below
	entries map[string]*entry
	joins   uint64    // how many nodes joined, which orders them
	living  uint64    // a sum over those who live
	alive   int       // how many that are
	moved   time.Time // when it changed
	shunned map[NodeID]bool
	bests   map[NodeID]*entry // see best; nil: to be found anew
	list    []Member          // see all; nil: to be made anew
	rest    []Member          // see others; nil: to be made anew
	sums    map[uint64]string // full names by nameSum; nil: to be made anew
	// packetsLost is how many probes in a row, whoever was probed, were answered over TCP alone.
	packetsLost int
}

// entry is one boot of a node.
type entry struct {
	Member
	join     uint64    // its place in the order of joining
	sum      uint64    // of its name and what it says of itself
	since    time.Time // its status
	leaving  bool      // it said that it goes, or an operator said so
	answered time.Time // when it was last told our heads out of turn
	report   report
	// packetsLost is how many probes in a row it answered over TCP alone, and told that a
	// line of the log says so.
	packetsLost int
	told        bool
}

// NotifyAlive makes memberlist ignore nodes whose metadata is not ours.
func (m *members) NotifyAlive(n *memberlist.Node) error {
	meta, err := decodeMeta(n.Meta)
	if err != nil {
		return err
	}
	if boot, ok := strings.CutPrefix(n.Name, string(meta.ID)+"-"); !ok || boot == "" || len(boot) > maxBootBytes {
		return fmt.Errorf("it calls itself %.150q with node id %q", n.Name, string(meta.ID))
	}
	return m.admits(meta.ID, n.Name)
}

// admits refuses who is shunned, and whoever is new when there are as many as there may be.
func (m *members) admits(id NodeID, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shunned[id] {
		return fmt.Errorf("node %s is shunned", id)
	}
	if e := m.entries[name]; m.alive >= maxMembers && (e == nil || !e.alive()) {
		return fmt.Errorf("node %s is one too many: %d members live", id, m.alive)
	}
	return nil
}

// NotifyJoin, NotifyUpdate and NotifyLeave are memberlist's events.
func (m *members) NotifyJoin(n *memberlist.Node) { m.note(n, "member joined") }

func (m *members) NotifyUpdate(n *memberlist.Node) { m.note(n, "member changed") }

func (m *members) note(n *memberlist.Node, event string) {
	meta, err := decodeMeta(n.Meta)
	if err != nil {
		return // NotifyAlive has refused it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shunned[meta.ID] {
		return // since NotifyAlive was asked
	}
	e := m.entries[n.Name]
	if e != nil && e.alive() {
		m.flip(e)
	} else {
		m.joins++
		m.alive++
		kept := report{}
		if e != nil {
			kept = e.report
		}
		e = &entry{join: m.joins, since: time.Now(), report: kept}
		m.entries[n.Name] = e
	}
	e.Member = Member{
		ID: meta.ID, Name: meta.Name, Address: n.Address(), Peer: cmp.Or(meta.Peer, n.Address()), Status: e.Status,
		Role: meta.Role, Version: meta.Version, Region: meta.Region, NoGateway: meta.NoGateway,
		boot: strings.TrimPrefix(n.Name, string(meta.ID)+"-"),
	}
	e.sum = nameSum(n.Name + string(n.Meta))
	m.flip(e)
	m.log.Info(event, "member", string(e.ID), "name", e.Name, "address", e.Address, "role", e.Role.String(), "version", e.Version)
	m.touch()
}

func (m *members) NotifyLeave(n *memberlist.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[n.Name]
	if e == nil {
		return
	}
	status := Dead
	if e.leaving {
		status = Left
	}
	m.set(e, status)
}

// set changes a status. Holders of mu call it.
func (m *members) set(e *entry, status Status) {
	if e.Status == status {
		return
	}
	if e.alive() && status > Suspect {
		m.flip(e)
		m.alive--
	}
	m.log.Info("member is "+status.String(), "member", string(e.ID), "name", e.Name, "address", e.Address)
	e.Status, e.since = status, time.Now()
	m.touch()
}

// touch tells that the members changed. Holders of mu call it.
func (m *members) touch() {
	m.bests, m.list, m.rest, m.sums = nil, nil, nil, nil
	m.changed.fire()
}

// flip takes a node into the sum of the living, or out of it.
func (m *members) flip(e *entry) {
	m.living ^= e.sum
	m.moved = time.Now()
}

// sum is equal on nodes that see the same members alive and know the same of them. It tells too for how long
// it has not changed.
func (m *members) sum() (uint64, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.living, time.Since(m.moved)
}

// suspect notes that a member did not answer a probe, and heard that something
// came from it. heard reports whether it is a member at all.
func (m *members) suspect(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.entries[name]; e != nil && e.Status == Alive {
		m.set(e, Suspect)
	}
}

func (m *members) heard(name string) (Member, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil || m.shunned[e.ID] {
		return Member{}, false
	}
	if e.Status == Suspect {
		m.set(e, Alive)
	}
	return e.Member, true
}

// departs notes that a node goes or went for good. It reports whether that is new.
func (m *members) departs(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil || e.leaving {
		return false
	}
	e.leaving = true
	if e.Status == Dead {
		m.set(e, Left)
	}
	return true
}

// forget marks every dead boot of a node as left, and returns their full names.
func (m *members) forget(id NodeID) ([]string, error) {
	if e := m.find(id); e.ID == "" {
		return nil, fmt.Errorf("node %s: %w", id, ErrUnknownMember)
	} else if e.alive() {
		return nil, fmt.Errorf("node %s at %s is %s: %w", id, e.Address, e.Status, ErrMemberAlive)
	}
	m.mu.Lock()
	names := []string{}
	for name, e := range m.entries {
		if e.ID == id && !e.alive() {
			names = append(names, name)
		}
	}
	m.mu.Unlock()
	for _, name := range names {
		m.departs(name)
	}
	return names, nil
}

// shun takes a node for gone, whatever it says from now on.
func (m *members) shun(id NodeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shunned[id] = true
	for _, e := range m.entries {
		if e.ID == id {
			e.leaving = true
			m.set(e, Left)
		}
	}
}

func (m *members) shuns(id NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shunned[id]
}

// mayAnswer grants a member an answer out of turn, unless it just had one.
func (m *members) mayAnswer(name string, pause time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[name]
	if e == nil || time.Since(e.answered) < pause {
		return false
	}
	e.answered = time.Now()
	return true
}

// tidy forgets those who are long gone, and the oldest if there are too many.
func (m *members) tidy(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var gone []*entry
	for _, e := range m.entries {
		if !e.alive() {
			gone = append(gone, e)
		}
	}
	slices.SortFunc(gone, func(a, b *entry) int { return b.since.Compare(a.since) })
	for i, e := range gone {
		keep := keepDead
		if e.Status == Left {
			keep = keepLeft
		}
		if i >= maxGone || now.Sub(e.since) > keep {
			delete(m.entries, fullName(e.ID, e.boot))
			m.touch()
		}
	}
}

// best is the boot of each node that stands for it: one that lives, and else, or
// among several, the one that joined last. Holders of mu call it.
func (m *members) best() map[NodeID]*entry {
	if m.bests != nil {
		return m.bests
	}
	best := map[NodeID]*entry{}
	for _, e := range m.entries {
		other := best[e.ID]
		if other == nil || e.alive() && !other.alive() || e.alive() == other.alive() && e.join > other.join {
			best[e.ID] = e
		}
	}
	m.bests = best
	return best
}

// all is every node once, in the order of the ids.
func (m *members) all() []Member { return slices.Clone(m.sorted()) }

// sorted is all, which nobody may change.
func (m *members) sorted() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sortedLocked()
}

// sortedLocked is sorted, for holders of mu.
func (m *members) sortedLocked() []Member {
	if m.list == nil {
		best := m.best()
		m.list = make([]Member, 0, len(best))
		for _, id := range slices.Sorted(maps.Keys(best)) {
			member := best[id].Member
			member.UDPBlocked = m.blocked(best[id])
			m.list = append(m.list, member)
		}
	}
	return m.list
}

// find is the member with an id; the zero Member if there is none.
func (m *members) find(id NodeID) Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.best()[id]; e != nil {
		return e.Member
	}
	return Member{}
}

// others are the living members without this node, which is always the same; nobody may
// change them.
func (m *members) others(self NodeID) []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rest == nil {
		sorted := m.sortedLocked()
		m.rest = make([]Member, 0, len(sorted))
		for _, member := range sorted {
			if member.ID != self && member.alive() {
				m.rest = append(m.rest, member)
			}
		}
	}
	return m.rest
}

// addresses are those of the living members, of those that went without a word, and
// of those that are gone for good.
func (m *members) addresses() (living, dead, left []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := slices.SortedFunc(maps.Values(m.entries), func(a, b *entry) int { return cmp.Compare(b.join, a.join) })
	for _, e := range entries {
		switch {
		case e.alive():
			living = append(living, e.Address)
		case e.Status == Left:
			left = append(left, e.Address)
		default:
			dead = append(dead, e.Address)
		}
	}
	return living, dead, left
}
