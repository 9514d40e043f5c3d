package routing

import "hash/maphash"

// branch is a persistent table from hashes to values: a trie with 16 ways a
// level. A change copies the few branches on its way, and a look reads one slot a
// level. Each branch knows the least rank below it. A nil *branch is an empty
// table.
//
// What has the same hash has the same place. So a value that is found is only
// probably meant, and whoever finds it has to look.
type branch[T ranked] struct {
	slots [1 << levelBits]slot[T]
	used  int
	least rank
	edit  *edit
}

// ranked is what a table holds.
type ranked interface {
	comparable
	lowest() rank // lastRank for the zero value
}

// slot holds a value, or the branch of all hashes that begin alike, or nothing.
type slot[T ranked] struct {
	hash  uint64
	value T
	below *branch[T]
}

func (s *slot[T]) isFree() bool {
	var zero T
	return s.below == nil && s.value == zero
}

func (s *slot[T]) lowest() rank {
	if s.below != nil {
		return s.below.least
	}
	return s.value.lowest()
}

// edit is the identity of one series of changes. What it has made nobody else
// has seen, so it may change that in place.
type edit struct{ _ byte }

// levelBits of a hash choose the slot on each level, the lowest first.
const levelBits = 4

var seed = maphash.MakeSeed()

// hashOf is a variable, so that a test can make all hashes meet.
var hashOf = func(key []byte) uint64 { return maphash.Bytes(seed, key) }

// place is the index for the low bits of a hash.
func place(hash uint64) uint64 { return hash % (1 << levelBits) }

// get gives the value of a hash, zero if there is none.
func (b *branch[T]) get(hash uint64) (value T) {
	for rest := hash; b != nil; rest >>= levelBits {
		s := &b.slots[place(rest)]
		if b = s.below; b == nil && s.hash == hash {
			return s.value
		}
	}
	return value
}

// set gives a table in which hash has value, which is not zero.
func (b *branch[T]) set(e *edit, hash uint64, value T) *branch[T] {
	return b.put(e, 0, slot[T]{hash: hash, value: value})
}

// put sets a slot on a level, which is given by the bits above it.
func (b *branch[T]) put(e *edit, shift int, s slot[T]) *branch[T] {
	b = b.mine(e)
	switch at := &b.slots[place(s.hash>>shift)]; {
	case at.below != nil:
		at.below = at.below.put(e, shift+levelBits, s)
	case at.isFree():
		b.used++
		*at = s
	case at.hash == s.hash:
		*at = s
	default:
		var below *branch[T]
		below = below.put(e, shift+levelBits, *at)
		*at = slot[T]{below: below.put(e, shift+levelBits, s)}
	}
	b.measure()
	return b
}

// del gives a table without hash, nil for an empty one.
func (b *branch[T]) del(e *edit, hash uint64) *branch[T] { return b.cut(e, 0, hash) }

func (b *branch[T]) cut(e *edit, shift int, hash uint64) *branch[T] {
	if b == nil {
		return nil
	}
	if s := &b.slots[place(hash>>shift)]; s.isFree() || s.below == nil && s.hash != hash {
		return b
	}
	b = b.mine(e)
	at := &b.slots[place(hash>>shift)]
	if at.below = at.below.cut(e, shift+levelBits, hash); at.below == nil {
		*at = slot[T]{}
		b.used--
	}
	if b.used == 0 {
		return nil
	}
	b.measure()
	return b
}

// mine gives the branch itself to the edit that made it, else a copy.
func (b *branch[T]) mine(e *edit) *branch[T] {
	switch {
	case b == nil:
		return &branch[T]{edit: e}
	case b.edit == e:
		return b
	default:
		now := *b
		now.edit = e
		return &now
	}
}

func (b *branch[T]) measure() {
	b.least = lastRank
	for i := range b.slots {
		b.least = min(b.least, b.slots[i].lowest())
	}
}

func (b *branch[T]) lowest() rank {
	if b == nil {
		return lastRank
	}
	return b.least
}
