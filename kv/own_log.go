package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sort"
)

// ownerLog is what is known of one owner. It is guarded by the plane's lock.
//
// Its content (mark, held, live) depends on nothing but the owner and the mark: a change
// is taken as a whole or not at all, and leads to what the owner itself had at that mark.
// So two nodes with one mark have one state, whatever way it came.
type ownerLog struct {
	owner OwnerID
	mark  OwnerMark
	held  uint64
	live  map[Key]*claim
	bytes int // of what lives, see claim.size
	// claims and deletes are in the order of their seq. A claim that is no longer the
	// live one of its key is stale, and dropped when there are many.
	claims  []*claim
	deletes []ownerDelete
	// base is where deletes begin: those up to it are not known any more.
	base uint64

	state OwnerState
	// purged says that only the mark is left, as a floor: nothing up to it is taken.
	purged bool
}

// claim is a key that an owner has. It is immutable but for silent.
type claim struct {
	owner    OwnerID
	mark     OwnerMark
	key      Key
	value    []byte
	draining bool
	// silent says that this node found nobody there while the owner is orphaned.
	silent bool
}

// size is about what a claim costs in memory.
func (c *claim) size() int { return sizeOwned(c.key, c.value) }

func sizeOwned(key Key, value []byte) int {
	const itself = 256 // with its places in maps, lists and the view
	return itself + len(key) + len(value)
}

type ownerDelete struct {
	seq uint64
	key Key
}

func newOwnerLog(owner OwnerID) *ownerLog {
	return &ownerLog{owner: owner, live: map[Key]*claim{}}
}

// do performs an operation at the next seq that counts, and returns the claim, nil of a
// delete.
func (l *ownerLog) do(op OwnerOp) *claim {
	if c := l.live[op.Key]; c != nil {
		l.bytes -= c.size()
	}
	if op.Deleted {
		delete(l.live, op.Key)
		l.remember(ownerDelete{op.Seq, op.Key})
		return nil
	}
	c := &claim{owner: l.owner, mark: OwnerMark{l.mark.Incarnation, op.Seq}, key: op.Key, value: op.Value, draining: op.Draining}
	l.live[op.Key] = c
	l.bytes += c.size()
	l.claims = append(l.claims, c)
	if len(l.claims) > 2*len(l.live)+64 {
		l.claims = slices.DeleteFunc(l.claims, func(c *claim) bool { return l.live[c.key] != c })
	}
	return c
}

func (l *ownerLog) remember(d ownerDelete) {
	l.deletes = append(l.deletes, d)
	if extra := len(l.deletes) - keptDeletes; extra > 0 {
		l.base = l.deletes[extra-1].seq
		l.deletes = slices.Delete(l.deletes, 0, extra)
	}
}

// replace makes the log hold what a whole list says, and returns the keys that it had.
func (l *ownerLog) replace(c OwnerChange) (touched []Key) {
	old := l.live
	l.live, l.bytes, l.claims, l.deletes = make(map[Key]*claim, len(c.Ops)), 0, nil, nil
	l.mark, l.held = OwnerMark{Incarnation: c.Incarnation}, c.Held
	for _, op := range c.Ops { // with deletes, if it is the owner's first steps and not a list
		l.do(op)
		touched = append(touched, op.Key)
	}
	l.mark.Seq, l.base, l.deletes = c.Seq, c.Seq, nil
	for key := range old {
		touched = append(touched, key)
	}
	return touched
}

// extend does what is new in a change that follows.
func (l *ownerLog) extend(c OwnerChange) (touched []Key) {
	for _, op := range c.Ops {
		if op.Seq > l.mark.Seq {
			l.do(op)
			touched = append(touched, op.Key)
		}
	}
	l.mark.Seq, l.held = c.Seq, c.Held
	return touched
}

// after is how many keys there would be, and how many bytes.
func (l *ownerLog) after(c OwnerChange) (keys, bytes int) {
	there := map[Key]int{} // the size of what is there then, 0 for nothing
	if c.From > 0 {
		keys, bytes = len(l.live), l.bytes
	}
	for _, op := range c.Ops {
		if c.From > 0 && op.Seq <= l.mark.Seq {
			continue
		}
		was, known := there[op.Key]
		if live := l.live[op.Key]; !known && c.From > 0 && live != nil {
			was = live.size()
		}
		now := 0
		if !op.Deleted {
			now = sizeOwned(op.Key, op.Value)
		}
		switch there[op.Key] = now; {
		case was > 0 && now == 0:
			keys--
		case was == 0 && now > 0:
			keys++
		}
		bytes += now - was
	}
	return keys, bytes
}

// since is what leads from a mark to ours, nil if nothing does.
func (l *ownerLog) since(mark OwnerMark) *OwnerChange {
	if !l.spread() || mark.Compare(l.mark) >= 0 {
		return nil
	}
	c := &OwnerChange{Owner: l.owner, Incarnation: l.mark.Incarnation, Seq: l.mark.Seq, Held: l.held}
	if mark.Incarnation == l.mark.Incarnation && mark.Seq >= l.base {
		c.From = mark.Seq
	}
	from := sort.Search(len(l.claims), func(i int) bool { return l.claims[i].mark.Seq > c.From })
	for _, claim := range l.claims[from:] {
		if l.live[claim.key] == claim {
			c.Ops = append(c.Ops, OwnerOp{Seq: claim.mark.Seq, Key: claim.key, Value: claim.value, Draining: claim.draining})
		}
	}
	if c.From == 0 {
		return c
	}
	from = sort.Search(len(l.deletes), func(i int) bool { return l.deletes[i].seq > c.From })
	for _, d := range l.deletes[from:] {
		if l.live[d.key] == nil {
			c.Ops = append(c.Ops, OwnerOp{Seq: d.seq, Key: d.key, Deleted: true})
		}
	}
	slices.SortFunc(c.Ops, func(a, b OwnerOp) int { return int(int64(a.Seq - b.Seq)) })
	return c
}

// spread tells whether others are to have it: not what is only a floor, and not what this
// node has not begun to announce.
func (l *ownerLog) spread() bool { return !l.purged && l.mark.Incarnation > 0 }

// digest is that of the owner at its mark, 0 for who is not spread.
func (l *ownerLog) digest() uint64 {
	if !l.spread() {
		return 0
	}
	var e encoder
	e.string(string(l.owner))
	e.u64(l.mark.Incarnation)
	e.u64(l.mark.Seq)
	sum := sha256.Sum256(e.buf)
	return binary.BigEndian.Uint64(sum[:8])
}
