package kv

import (
	"cmp"
	"fmt"
	"strings"
)

// Limits of the ephemeral plane.
const (
	// MaxOwnedValueBytes bounds a value, MaxOwnedKeys the keys of one owner.
	MaxOwnedValueBytes = 4 << 10
	MaxOwnedKeys       = 10_000
	// MaxOwners bounds the owners that are known, those of which only the floor is
	// left included.
	MaxOwners = 8192
	// MaxOwnerBytes bounds the id of an owner.
	MaxOwnerBytes = 64
	// keptDeletes is how many of an owner's deletes are remembered. Who lacks more
	// gets the whole list of what lives.
	keptDeletes = 1024
	// MaxOwnedBytes bounds what all other nodes own together, as counted by claim.size: room for
	// half a million instances, and not for what one node that has gone bad makes up in the name of all.
	MaxOwnedBytes = 512 << 20
)

// ephemeralKinds are the second segments of keys below gateway/ that live as long as
// their owner. They are part of what all nodes have to agree on.
var ephemeralKinds = [...]string{"breakers", "health", "instances", "nodes", "shares", "tunnels"}

// Ephemeral tells whether a key is of the ephemeral plane: it belongs to one node,
// which alone writes it, and lives as long as that. All other keys are operators'.
func Ephemeral(key Key) bool {
	rest, ok := strings.CutPrefix(string(key), "gateway/")
	if !ok {
		return false
	}
	for _, kind := range ephemeralKinds {
		if below, ok := strings.CutPrefix(rest, kind+"/"); ok {
			return below != ""
		}
	}
	return false
}

// OwnerID is the id of the node to which keys belong: 1 to 64 of a-z and 0-9.
type OwnerID string

func (o OwnerID) check() error {
	notPlain := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	if o == "" || len(o) > MaxOwnerBytes || strings.ContainsFunc(string(o), notPlain) {
		return fmt.Errorf("owner %.80q: want 1 to %d of a-z and 0-9", string(o), MaxOwnerBytes)
	}
	return nil
}

// OwnerMark is a point in what an owner did: the state of its keys is the same on
// all nodes that are at the same mark. The zero mark is before everything.
type OwnerMark struct {
	// Incarnation grows with every start of the owner, by an amount with some chance in it, see
	// startBits; Seq with every change that it makes, by one, from 1 on.
	Incarnation, Seq uint64
}

const (
	// startBits of an incarnation are drawn, the rest counts the starts. A copy of a disk, or one that was put
	// back, counts on from what others may know already, and if it came to the same incarnation one mark
	// would stand for two states without anybody's notice.
	startBits = 20
	// maxIncarnation is more than any node comes to.
	maxIncarnation = 1 << 62
)

// Compare returns -1, 0 or +1, as m is before, at or after other.
func (m OwnerMark) Compare(other OwnerMark) int {
	return cmp.Or(cmp.Compare(m.Incarnation, other.Incarnation), cmp.Compare(m.Seq, other.Seq))
}

// OwnerState is what this node believes of an owner. It never leaves the node.
type OwnerState uint8

const (
	// OwnerUnlisted: nobody has said that the owner is a member. Its keys are kept and
	// not shown.
	OwnerUnlisted OwnerState = iota
	// OwnerActive: it lives.
	OwnerActive
	// OwnerOrphaned: it can't be reached. Its keys are shown, below those of the living.
	OwnerOrphaned
	// OwnerHidden: it could not be reached for long. Its keys are kept up to date and
	// not shown.
	OwnerHidden
)

var ownerStates = [...]string{"unlisted", "active", "orphaned", "hidden"}

func (s OwnerState) String() string {
	if int(s) < len(ownerStates) {
		return ownerStates[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

func (s OwnerState) shown() bool { return s == OwnerActive || s == OwnerOrphaned }

// Ownership is whose an ephemeral entry is.
type Ownership struct {
	Owner OwnerID
	// Mark is the owner's change that wrote the entry.
	Mark OwnerMark
	// Draining says that the owner asks for no new work for it.
	Draining bool
	// Orphaned says that the owner can't be reached from this node, so that nobody
	// vouches for the entry.
	Orphaned bool
}

// OwnerChange leads the keys of an owner from one point to another. Who is at From, or
// between From and Seq, gets by it to Seq. From 0 holds all that lives at Seq, and takes
// the place of everything.
type OwnerChange struct {
	Owner       OwnerID
	Incarnation uint64
	From, Seq   uint64
	// Held is the Seq at which the owner said that it restarts, 0 if it did not.
	Held uint64
	// After and More divide what is too large for one change: After is the Seq of the
	// last operation of the part before, 0 in the first, and More says that another part
	// follows. The parts have an effect together, or none.
	After uint64
	More  bool
	// Ops are in the order of their Seq, each Seq once.
	Ops []OwnerOp
}

// OwnerOp is the last thing that an owner did with a key.
type OwnerOp struct {
	Seq      uint64
	Key      Key
	Value    []byte
	Draining bool
	Deleted  bool
}

// mark is where the change leads.
func (c OwnerChange) mark() OwnerMark { return OwnerMark{c.Incarnation, c.Seq} }

// check refuses what no owner does.
func (c OwnerChange) check() error {
	if err := c.Owner.check(); err != nil {
		return err
	}
	switch {
	case c.Incarnation == 0, c.Incarnation > maxIncarnation, c.From >= c.Seq && c.Seq > 0, c.After > c.Seq, c.Held > c.Seq:
		return fmt.Errorf("owner %s: no change leads from %d.%d to %d, after %d, held at %d", c.Owner, c.Incarnation, c.From, c.Seq, c.After, c.Held)
	case len(c.Ops) > MaxOwnedKeys+keptDeletes:
		return &LimitError{What: "the number of an owner's operations", Got: len(c.Ops), Max: MaxOwnedKeys + keptDeletes}
	}
	last := max(c.From, c.After)
	for _, op := range c.Ops {
		if op.Seq <= last || op.Seq > c.Seq {
			return fmt.Errorf("owner %s: operation %d is out of order, after %d and up to %d", c.Owner, op.Seq, last, c.Seq)
		}
		if err := op.check(); err != nil {
			return err
		}
		last = op.Seq
	}
	return nil
}

func (o OwnerOp) check() error {
	if _, err := ParseKey(string(o.Key)); err != nil {
		return err
	}
	return checkOwned(o.Key, o.Value)
}

// checkOwned refuses what is not for the ephemeral plane.
func checkOwned(key Key, value []byte) error {
	if !Ephemeral(key) {
		return &KeyError{Key: string(key), Problem: "is an operator's, and no node may own it"}
	}
	if len(value) > MaxOwnedValueBytes {
		return &LimitError{Key: key, What: "the value's size in bytes", Got: len(value), Max: MaxOwnedValueBytes}
	}
	return nil
}

// checkOperators refuses what is for the ephemeral plane.
func checkOperators(key Key) error {
	if Ephemeral(key) {
		return &KeyError{Key: string(key), Problem: "lives as long as the node that owns it, and no transaction may name it"}
	}
	return nil
}
