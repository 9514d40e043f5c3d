package kv

import (
	"maps"
	"slices"
)

// OwnerStatus is what is known of an owner.
type OwnerStatus struct {
	Owner OwnerID
	Mark  OwnerMark
	State OwnerState
	Keys  int
	// Held says that the owner has announced a restart.
	Held bool
	// Purged says that its keys are gone, and that nothing up to Mark is taken.
	Purged bool
}

// Owners are all owners that are known, in the order of their ids.
func (s *Store) Owners() []OwnerStatus {
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]OwnerStatus, 0, len(p.owners))
	for _, owner := range slices.Sorted(maps.Keys(p.owners)) {
		l := p.owners[owner]
		all = append(all, OwnerStatus{Owner: owner, Mark: l.mark, State: l.state, Keys: len(l.live), Held: l.held > 0, Purged: l.purged})
	}
	return all
}

// OwnerChanged returns a channel that is closed when an owner's keys, or what is believed
// of it, change. To miss nothing, take the channel first.
func (s *Store) OwnerChanged() <-chan struct{} {
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// SetOwner says what this node believes of an owner, whether something is known of it
// already or not. Of the node itself nothing else is believed than that it lives. Nothing
// of this is written or spread.
func (s *Store) SetOwner(owner OwnerID, state OwnerState) {
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isSelf(owner) {
		return
	}
	p.states[owner] = state
	l := p.owners[owner]
	if l == nil || l.state == state {
		return
	}
	l.state = state
	if state == OwnerActive {
		for _, c := range l.live {
			c.silent = false
		}
	}
	p.expose(slices.Collect(maps.Keys(l.live)))
	p.signal()
}

// ForgetOwner is SetOwner for an owner of whom nobody says anything any more.
func (s *Store) ForgetOwner(owner OwnerID) {
	s.SetOwner(owner, OwnerUnlisted)
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.states, owner)
}

// PurgeOwner drops the keys of an owner. Its mark stays as a floor, so that whoever still
// has the keys can't bring them back.
func (s *Store) PurgeOwner(owner OwnerID) {
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.owners[owner]
	if l == nil || l.purged || p.isSelf(owner) {
		return
	}
	p.change(l, func() []Key {
		gone := slices.Collect(maps.Keys(l.live))
		l.live, l.bytes, l.claims, l.deletes, l.held = map[Key]*claim{}, 0, nil, nil, 0
		l.purged = true
		return gone
	})
	// Whoever is purged, and back, and purged again, has one place in the order.
	p.floors = append(slices.DeleteFunc(p.floors, func(o OwnerID) bool { return o == owner }), owner)
}

// OwnedRefused is how many changes of other nodes' keys were not taken, as there are MaxOwners owners, or
// MaxOwnedBytes, since the store was opened. What is missing is fetched when there is room.
func (s *Store) OwnedRefused() uint64 {
	s.plane.mu.Lock()
	defer s.plane.mu.Unlock()
	return s.plane.refused
}

// OwnedBy are the entries of an owner, shown or not, in the order of their keys.
func (s *Store) OwnedBy(owner OwnerID) []Entry {
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.owners[owner]
	if l == nil {
		return nil
	}
	entries := make([]Entry, 0, len(l.live))
	for _, key := range slices.Sorted(maps.Keys(l.live)) {
		c := l.live[key]
		entries = append(entries, Entry{Key: key, Value: c.value, By: string(owner), Own: &Ownership{
			Owner: owner, Mark: c.mark, Draining: c.draining, Orphaned: l.state != OwnerActive,
		}})
	}
	return entries
}

// SilenceOwned stops showing a key of an owner that does not live, because nobody answers
// there. It is shown again when the owner lives, or writes it anew.
func (s *Store) SilenceOwned(owner OwnerID, key Key) {
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.owners[owner]
	if l == nil || l.live[key] == nil || l.state == OwnerActive {
		return
	}
	l.live[key].silent = true
	p.expose([]Key{key})
}

// isSelf tells whether an owner is this node. Holders of mu call it.
func (p *plane) isSelf(owner OwnerID) bool { return p.self != nil && p.self.log.owner == owner }
