package kv

import (
	"iter"
	"slices"
)

// maxPartBytes is about how much of a change goes into one part of it.
const maxPartBytes = 512 << 10

// OwnerDigest is equal on nodes that have the same of all owners, but for a chance of one
// in 2^64.
func (s *Store) OwnerDigest() uint64 {
	s.plane.mu.Lock()
	defer s.plane.mu.Unlock()
	return s.plane.sum
}

// OwnerVector says how far each owner is here, for OwnerDelta on another node.
func (s *Store) OwnerVector() []byte {
	p := s.plane
	p.mu.Lock()
	vector := make(map[OwnerID]vectorEntry, len(p.owners))
	for owner, l := range p.owners {
		if l.mark.Incarnation > 0 {
			vector[owner] = vectorEntry{l.mark, l.purged}
		}
	}
	p.mu.Unlock()
	return encodeVector(vector)
}

// OwnerDelta gives the changes that a node with a vector lacks, as of now. behind reports
// that the vector has something that is missing here. The error says that no store makes
// such a vector.
func (s *Store) OwnerDelta(vector []byte) (changes iter.Seq[[]byte], behind bool, err error) {
	theirs, err := decodeVector(vector)
	if err != nil {
		return nil, false, err
	}
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*OwnerChange
	for owner, l := range p.owners {
		at := theirs[owner]
		if at.floor && at.mark.Compare(l.mark) == 0 && l.state != OwnerActive {
			continue // they have dropped it, and would again
		}
		if at.floor {
			at.mark = OwnerMark{} // nothing but the whole helps
			if theirs[owner].mark.Compare(l.mark) > 0 {
				continue
			}
		}
		if c := l.since(at.mark); c != nil {
			all = append(all, c)
		}
	}
	for owner, at := range theirs {
		behind = behind || p.lacks(owner, at)
	}
	slices.SortFunc(all, func(a, b *OwnerChange) int { return compareOwners(a.Owner, b.Owner) })
	return encodedParts(all), behind, nil
}

func compareOwners(a, b OwnerID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// lacks tells whether another node has something of an owner that is wanted here. Holders of mu
// call it.
func (p *plane) lacks(owner OwnerID, at vectorEntry) bool {
	if at.floor {
		return false
	}
	if p.isSelf(owner) {
		p.self.hear(at.mark)
		return false
	}
	l := p.owners[owner]
	return l == nil && at.mark.Incarnation > 0 || l != nil && l.welcomes(at.mark)
}

// encodedParts encodes one part at a time: all together may be large.
func encodedParts(all []*OwnerChange) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, c := range all {
			for _, part := range c.parts(maxPartBytes) {
				if !yield(AppendOwnerChange(nil, part)) {
					return
				}
			}
		}
	}
}

// ApplyOwned takes in changes of other nodes' keys, as far as they follow what is here,
// and returns those that were new and are whole, to be passed on. gap reports that one
// was left out because what comes before it is missing. An error means that no node
// sends such a change; those before it have been taken. What others know of this node's own keys
// is never taken: see Own.Disputed.
func (s *Store) ApplyOwned(changes [][]byte) (fresh [][]byte, gap bool, err error) {
	for _, b := range changes {
		c, err := DecodeOwnerChange(b)
		if err != nil {
			return fresh, gap, err
		}
		s.plane.mu.Lock()
		taken, missing, err := s.plane.apply(c)
		s.plane.mu.Unlock()
		if err != nil {
			return fresh, gap, err
		}
		gap = gap || missing
		if taken && c.After == 0 {
			fresh = append(fresh, b)
		}
	}
	return fresh, gap, nil
}

// MadeOwned gives the changes that this node has made since it was called last, oldest
// first, in pieces that others can pass on. Where that is too much for pieces there are
// fewer, or none: then the others fetch it.
func (s *Store) MadeOwned() [][]byte {
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.self == nil || p.self.log.mark.Incarnation == 0 {
		return nil
	}
	var made [][]byte
	for _, c := range p.self.take() {
		made = append(made, AppendOwnerChange(nil, c))
	}
	return made
}

// take gives what was made and forgets it. The holders of the plane's lock call it.
func (s *self) take() (changes []OwnerChange) {
	l := s.log
	steps, from := s.made, s.from
	whole, lost := s.whole, s.lost
	s.made, s.from, s.whole, s.lost = nil, l.mark.Seq, false, false
	switch {
	case whole:
		// One swap, or none: a part of what lives would take the rest from the others.
		if parts := l.since(OwnerMark{}).parts(maxPartBytes); len(parts) == 1 {
			return parts
		}
		return nil
	case lost:
		return nil
	}
	for len(steps) > 0 {
		c := OwnerChange{Owner: l.owner, Incarnation: l.mark.Incarnation, From: from, Seq: from}
		size := 0
		for len(steps) > 0 && c.Seq-from < maxMadeOps && size < maxMadeBytes {
			if op := steps[0].op; op != nil {
				c.Ops = append(c.Ops, *op)
				size += len(op.Key) + len(op.Value)
			}
			c.Held = steps[0].held
			c.Seq++
			steps = steps[1:]
		}
		changes, from = append(changes, c), c.Seq
	}
	return changes
}
