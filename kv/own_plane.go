package kv

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// plane is what a store knows of all owners. It decides which claim of a key is shown,
// and gives views to the store; it never waits for the disk.
type plane struct {
	// show puts what is to be seen into the store's view.
	publish func(owned)

	mu      sync.Mutex // guards what is below
	owners  map[OwnerID]*ownerLog
	states  map[OwnerID]OwnerState // of those of whom somebody has said something
	holders map[Key][]*ownerLog
	view    owned
	origin  [16]byte // of this plane, so that its views are no other's
	changes uint64   // see claim.touched
	floors  []OwnerID
	sum     uint64
	bytes   int    // of all owners but this node
	refused uint64 // changes that there was no room for
	draw    func() uint64
	// maxBytes is MaxOwnedBytes but in tests.
	maxBytes int
	changed  chan struct{} // closed when sum changes
	part     *OwnerChange  // what has come of a change in parts
	self     *self         // nil until Store.Own

	// dirty names what is to be written: see keep.
	dirty map[string]bool
}

// owned is the ephemeral plane of a view.
type owned struct {
	keys  *iradix.Tree[*Entry] // nil: none
	trail trail
	mark  Hash // which state it is, all zero for none
}

func newPlane(publish func(owned)) *plane {
	p := &plane{
		publish: publish, owners: map[OwnerID]*ownerLog{}, states: map[OwnerID]OwnerState{}, holders: map[Key][]*ownerLog{},
		draw: mathrand.Uint64, maxBytes: MaxOwnedBytes, changed: make(chan struct{}), dirty: map[string]bool{},
	}
	rand.Read(p.origin[:]) // never fails: it would end the process
	return p
}

// enter gives the log of an owner its place; false if there are too many.
func (p *plane) enter(l *ownerLog) bool {
	if p.owners[l.owner] == l {
		return true
	}
	if len(p.owners) >= MaxOwners && !p.forgetFloor() {
		return false
	}
	l.state = p.states[l.owner]
	p.owners[l.owner] = l
	return true
}

// forgetFloor forgets whoever was purged first. Should somebody still have its keys,
// they begin anew as those of an owner that nobody has heard of.
func (p *plane) forgetFloor() bool {
	for len(p.floors) > 0 {
		owner := p.floors[0]
		p.floors = p.floors[1:]
		if l := p.owners[owner]; l != nil && l.purged {
			delete(p.owners, owner)
			p.dirty[ownerName(owner)] = true
			return true
		}
	}
	return false
}

// apply takes in one change. taken tells that something is another now, gap that changes
// before it are missing.
func (p *plane) apply(c OwnerChange) (taken, gap bool, err error) {
	if p.self != nil && c.Owner == p.self.log.owner {
		p.self.hear(c.mark())
		return false, false, nil
	}
	l := p.owners[c.Owner]
	if l == nil {
		l = newOwnerLog(c.Owner)
	}
	if !l.welcomes(c.mark()) {
		return false, false, nil
	}
	if c.From > 0 && (l.purged || c.Incarnation != l.mark.Incarnation || c.From > l.mark.Seq) {
		return false, true, nil
	}
	if c.After > 0 || c.More {
		whole, wait, err := p.assemble(c)
		if whole == nil {
			return false, wait, err
		}
		c = *whole
	}
	keys, bytes := l.after(c)
	if keys > MaxOwnedKeys {
		return false, false, &LimitError{What: fmt.Sprintf("the number of keys of owner %s", c.Owner), Got: keys, Max: MaxOwnedKeys}
	}
	if bytes > l.bytes && p.bytes-l.bytes+bytes > p.maxBytes || !p.enter(l) {
		p.refused++ // no fault of this owner, nor of who sent it
		return false, false, nil
	}
	p.change(l, func() []Key {
		if l.purged || c.From == 0 {
			l.purged = false
			return l.replace(c)
		}
		return l.extend(c)
	})
	return true, false, nil
}

// welcomes tells whether a mark is beyond what is known of the owner. Where only a floor
// is left that is so of the floor itself, too, once the owner lives: it has not changed
// anything since.
func (l *ownerLog) welcomes(mark OwnerMark) bool {
	order := mark.Compare(l.mark)
	return order > 0 || order == 0 && l.purged && l.state == OwnerActive
}

// assemble puts the parts of a change together. It returns the whole once that is there,
// and gap if a part is missing.
func (p *plane) assemble(c OwnerChange) (whole *OwnerChange, gap bool, err error) {
	if c.After == 0 {
		first := c
		p.part = &first
		return nil, false, nil
	}
	w := p.part
	if w == nil || w.Owner != c.Owner || w.mark() != c.mark() || w.From != c.From || len(w.Ops) == 0 || w.Ops[len(w.Ops)-1].Seq != c.After {
		return nil, true, nil
	}
	w.Ops = append(slices.Clip(w.Ops), c.Ops...)
	if len(w.Ops) > MaxOwnedKeys+keptDeletes {
		p.part = nil
		return nil, false, w.check()
	}
	if c.More {
		return nil, false, nil
	}
	p.part = nil
	w.More = false
	return w, false, nil
}

// change lets f change a log, and shows the keys that it returns as they are then.
func (p *plane) change(l *ownerLog, f func() []Key) {
	p.sum ^= l.digest()
	before := l.bytes
	touched := f()
	if !p.isSelf(l.owner) {
		p.bytes += l.bytes - before
	}
	p.sum ^= l.digest()
	p.hold(l, touched)
	p.expose(touched)
	p.soil(l.owner, touched)
	p.signal()
}

func (p *plane) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// hold brings in line which owners hold the keys.
func (p *plane) hold(l *ownerLog, keys []Key) {
	for _, key := range keys {
		holders := p.holders[key]
		i := slices.Index(holders, l)
		switch there := l.live[key] != nil; {
		case there && i < 0:
			p.holders[key] = append(slices.Clip(holders), l)
		case !there && i >= 0 && len(holders) == 1:
			delete(p.holders, key)
		case !there && i >= 0:
			p.holders[key] = slices.Delete(slices.Clone(holders), i, i+1)
		}
	}
}

// expose shows the keys as the claims of their holders are now.
func (p *plane) expose(keys []Key) {
	tree := p.view.keys
	if tree == nil {
		tree = iradix.New[*Entry]()
	}
	txn, moved := tree.Txn(), []Key{}
	for _, key := range keys {
		shown, _ := txn.Get([]byte(key))
		next := p.entry(key, shown)
		if next == shown {
			continue
		}
		if moved = append(moved, key); next == nil {
			txn.Delete([]byte(key))
			continue
		}
		txn.Insert([]byte(key), next)
	}
	if len(moved) == 0 {
		return
	}
	slices.Sort(moved)
	p.view = owned{keys: txn.CommitOnly(), trail: p.view.trail.extend(p.view.mark, slices.Compact(moved)), mark: p.nextMark()}
	p.publish(p.view)
}

// nextMark names the state that comes next.
func (p *plane) nextMark() (mark Hash) {
	p.changes++
	copy(mark[:], p.origin[:])
	binary.BigEndian.PutUint64(mark[16:], p.changes)
	return mark
}

// entry is what is to be shown of a key: shown itself if that is still right, nil if
// nothing is.
func (p *plane) entry(key Key, shown *Entry) *Entry {
	l := p.winner(key)
	if l == nil {
		return nil
	}
	c := l.live[key]
	own := Ownership{Owner: l.owner, Mark: c.mark, Draining: c.draining, Orphaned: l.state != OwnerActive}
	if shown != nil && *shown.Own == own {
		return shown
	}
	rev := Rev{Rev: p.changes + 1}
	e := &Entry{Key: key, Value: c.value, CreateRev: rev, ModRev: rev, Version: 1, By: string(l.owner), Own: &own}
	if shown != nil {
		e.CreateRev, e.Version = shown.CreateRev, shown.Version+1
	}
	return e
}

// winner is the owner whose claim of a key is shown: of those that are to be shown one
// that lives, then the one of the highest incarnation, then of the highest id. No clock
// decides, so that all nodes that believe the same of the owners show the same.
func (p *plane) winner(key Key) (best *ownerLog) {
	for _, l := range p.holders[key] {
		if l.state.shown() && (l.state == OwnerActive || !l.live[key].silent) && (best == nil || l.beats(best)) {
			best = l
		}
	}
	return best
}

func (l *ownerLog) beats(other *ownerLog) bool {
	switch {
	case l.state != other.state:
		return l.state == OwnerActive
	case l.mark.Incarnation != other.mark.Incarnation:
		return l.mark.Incarnation > other.mark.Incarnation
	}
	return l.owner > other.owner
}
