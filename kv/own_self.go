package kv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Bounds of what this node has made and nobody has fetched yet, and of one change of it.
const (
	maxMade      = 1024
	maxMadeOps   = 64
	maxMadeBytes = 128 << 10
)

// ErrOtherOwner is returned when a store is to write the keys of a second owner.
var ErrOtherOwner = errors.New("a store writes the keys of one owner")

// Own writes the keys of this node. They are shown here at once. Others get them once
// Begin has given the node an incarnation. What the node had announced before it was
// restarted is pending: it is there as before, until it is put again or DropPending takes
// it away.
//
// All methods may be called by any number of goroutines.
type Own struct {
	s *Store
	// beginning lets one Begin at a time write the incarnation.
	beginning sync.Mutex
}

// self is what only this node's own log has. It is guarded by the plane's lock.
type self struct {
	log     *ownerLog
	pending map[Key]bool
	made    []madeOp
	from    uint64 // the seq before the first of made
	whole   bool   // a new incarnation is to be made known
	lost    bool   // more was made than made holds: others have to pull
	// foreign is the highest mark that somebody else has of this node and that it never
	// made.
	foreign  OwnerMark
	disputed chan struct{} // closed when foreign rises
}

// madeOp is one step of this node: an operation, or none if it was a hold.
type madeOp struct {
	op   *OwnerOp
	held uint64
}

// Own is the way to write this node's own keys. Every call is to name the same owner.
// Errors: ErrOtherOwner, or what is wrong with the id.
func (s *Store) Own(owner OwnerID) (*Own, error) {
	if err := owner.check(); err != nil {
		return nil, err
	}
	p := s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.self == nil:
		p.adopt(owner)
	case p.self.log.owner != owner:
		return nil, fmt.Errorf("owner %s: %w, here %s", owner, ErrOtherOwner, p.self.log.owner)
	}
	return s.own, nil
}

// adopt makes the log of an owner this node's own. What it has is pending.
func (p *plane) adopt(owner OwnerID) {
	l := p.owners[owner]
	if l == nil { // there may be as many others as there may be
		l = newOwnerLog(owner)
		p.owners[owner] = l
	}
	p.bytes -= l.bytes
	p.self = &self{log: l, pending: map[Key]bool{}, disputed: make(chan struct{})}
	p.change(l, func() []Key {
		l.state, l.purged = OwnerActive, false
		keys := slices.Sorted(maps.Keys(l.live))
		for _, key := range keys {
			p.self.pending[key] = true
		}
		p.self.renumber(OwnerMark{})
		return keys
	})
}

// renumber gives what lives new numbers, from 1 on, after a mark.
func (s *self) renumber(mark OwnerMark) {
	l := s.log
	old := slices.Clone(l.claims)
	live := l.live
	l.mark, l.held, l.deletes, l.claims, l.live, l.bytes = mark, 0, nil, nil, make(map[Key]*claim, len(live)), 0
	for _, c := range old {
		if live[c.key] == c {
			l.mark.Seq++
			l.do(OwnerOp{Seq: l.mark.Seq, Key: c.key, Value: c.value, Draining: c.draining})
		}
	}
	l.base = l.mark.Seq
	s.made, s.from, s.whole, s.lost = nil, l.mark.Seq, mark.Incarnation > 0, false
}

// Begin gives the node an incarnation above atLeast and above all that it had, and lets
// others have its keys from then on. The incarnation is on disk, synced, when others may
// hear of it. Begin may be called again, when somebody turns out to know a higher one.
// Errors are those of SetLocal, or that there is no higher one, which no node comes to by itself; then
// nothing has changed.
func (o *Own) Begin(atLeast uint64) (uint64, error) {
	o.beginning.Lock()
	defer o.beginning.Unlock()
	p := o.s.plane
	above := max(atLeast, o.s.storedIncarnation(), o.Mark().Incarnation)
	next := (above>>startBits+1)<<startBits | p.draw()&(1<<startBits-1)
	if above > maxIncarnation || next > maxIncarnation {
		return 0, fmt.Errorf("there is no incarnation above %d: somebody made it up", above)
	}
	if err := o.s.SetLocal(selfName, fmt.Append(nil, next)); err != nil {
		return 0, fmt.Errorf("incarnation %d is not kept: %w", next, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.self.log
	p.change(l, func() []Key {
		p.self.renumber(OwnerMark{Incarnation: next})
		return slices.Collect(maps.Keys(l.live))
	})
	return next, nil
}

// Mark is how far this node is. Its incarnation is 0 before Begin.
func (o *Own) Mark() OwnerMark {
	p := o.s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.self.log.mark
}

// Put announces a key, or changes it; it is no longer draining, nor pending. Errors: a
// *KeyError for a key that no node may own, a *LimitError for a value of more than
// MaxOwnedValueBytes, or the key that is one too many.
func (o *Own) Put(key Key, value []byte) error { return o.put(key, value, false) }

// PutDraining is Put for a key that gets no new work: at no moment is it seen without
// that mark.
func (o *Own) PutDraining(key Key, value []byte) error { return o.put(key, value, true) }

func (o *Own) put(key Key, value []byte, draining bool) error {
	if _, err := ParseKey(string(key)); err != nil {
		return err
	}
	if err := checkOwned(key, value); err != nil {
		return err
	}
	return o.step(func(l *ownerLog) (*OwnerOp, error) {
		c := l.live[key]
		switch {
		case c != nil && c.draining == draining && bytes.Equal(c.value, value):
			return nil, nil
		case c == nil && len(l.live) >= MaxOwnedKeys:
			return nil, &LimitError{Key: key, What: "the number of keys of this node", Got: MaxOwnedKeys + 1, Max: MaxOwnedKeys}
		}
		return &OwnerOp{Key: key, Value: append([]byte{}, value...), Draining: draining}, nil
	}, key)
}

// Drain asks all nodes to give a key no new work. Draining an absent key changes nothing.
func (o *Own) Drain(key Key) error {
	return o.step(func(l *ownerLog) (*OwnerOp, error) {
		c := l.live[key]
		if c == nil || c.draining {
			return nil, nil
		}
		return &OwnerOp{Key: key, Value: c.value, Draining: true}, nil
	}, key)
}

// Withdraw takes keys away. Those that are not there are no fault.
func (o *Own) Withdraw(keys ...Key) error {
	for _, key := range keys {
		err := o.step(func(l *ownerLog) (*OwnerOp, error) {
			if l.live[key] == nil {
				return nil, nil
			}
			return &OwnerOp{Key: key, Deleted: true}, nil
		}, key)
		if err != nil {
			return err
		}
	}
	return nil
}

// WithdrawAll takes all keys of this node away.
func (o *Own) WithdrawAll() error { return o.Withdraw(o.keys(false)...) }

// Pending are the keys from before the restart that nobody has put again, in order.
func (o *Own) Pending() []Key { return o.keys(true) }

// DropPending withdraws what is still pending.
func (o *Own) DropPending() error { return o.Withdraw(o.Pending()...) }

func (o *Own) keys(pending bool) (keys []Key) {
	p := o.s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.self.log.live {
		if !pending || p.self.pending[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Hold says that this node is about to restart, so that the others keep its keys as they
// are for a while. It holds until the next incarnation.
func (o *Own) Hold() error {
	p := o.s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.self.log
	if l.held > 0 || l.mark.Incarnation == 0 {
		return nil
	}
	p.change(l, func() []Key {
		l.mark.Seq++
		l.held = l.mark.Seq
		p.self.note(madeOp{held: l.held})
		return nil
	})
	return nil
}

// Disputed is the highest mark of this node that somebody else has and that it never
// made, the zero mark if there is none, and a channel that is closed when there is a
// higher one: another process has this node's id, or the disk is older than what the others remember.
func (o *Own) Disputed() (OwnerMark, <-chan struct{}) {
	p := o.s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.self.foreign.Compare(p.self.log.mark) <= 0 {
		return OwnerMark{}, p.self.disputed
	}
	return p.self.foreign, p.self.disputed
}

// step makes the operation that f asks for, the next one of this node. f may ask for
// none.
func (o *Own) step(f func(*ownerLog) (*OwnerOp, error), key Key) error {
	p := o.s.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.self.log
	op, err := f(l)
	if err != nil {
		return err
	}
	delete(p.self.pending, key)
	if op == nil {
		return nil
	}
	p.change(l, func() []Key {
		l.mark.Seq++
		op.Seq = l.mark.Seq
		l.do(*op)
		p.self.note(madeOp{op: op, held: l.held})
		return []Key{key}
	})
	return nil
}

// note keeps what was made until it is fetched.
func (s *self) note(step madeOp) {
	if s.made = append(s.made, step); len(s.made) > maxMade {
		s.made, s.lost = nil, true
	}
}

// hear notes a mark of this node that somebody else has.
func (s *self) hear(mark OwnerMark) {
	if mark.Compare(s.log.mark) > 0 && mark.Compare(s.foreign) > 0 {
		s.foreign = mark
		close(s.disputed)
		s.disputed = make(chan struct{})
	}
}
