package kv

import (
	"fmt"
	"iter"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// View is the operators' state at one revision, and beside it the ephemeral keys as this
// node saw them at that moment: immutable, ordered by key, safe for any number of
// goroutines and valid for ever. A change gives another View that shares all that did not
// change. The zero View is empty. A view of the past has no ephemeral keys.
type View struct {
	head  Head
	keys  *iradix.Tree[*Entry] // nil in the zero View
	trail trail
	own   owned
}

// Head is where in the operators' history the view stands.
func (v View) Head() Head { return v.head }

// Rev is the revision of the operators' keys, the zero Rev in the zero View.
func (v View) Rev() Rev { return v.head.Rev }

// Len counts the operators' keys.
func (v View) Len() int {
	if v.keys == nil {
		return 0
	}
	return v.keys.Len()
}

// LenOwned counts the ephemeral keys.
func (v View) LenOwned() int {
	if v.own.keys == nil {
		return 0
	}
	return v.own.keys.Len()
}

// Is tells whether two views of one store are the same state, of both planes.
func (v View) Is(other View) bool { return v.head == other.head && v.own.mark == other.own.mark }

// Get returns the entry of a key, if it is there.
func (v View) Get(key Key) (Entry, bool) {
	entry := v.find(key)
	if entry == nil {
		entry = v.own.find(key)
	}
	if entry == nil {
		return Entry{}, false
	}
	return *entry, true
}

// Under yields the entries that prefix covers, as the function Under says, in
// the order of their keys. The loop may stop at any time.
func (v View) Under(prefix string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		own := v.own.below(prefix)
		ahead, some := own()
		if v.keys != nil {
			for entry := range entriesUnder(v.keys.Root(), prefix) {
				for ; some && ahead.Key < entry.Key; ahead, some = own() {
					if !yield(*ahead) {
						return
					}
				}
				if !yield(*entry) {
					return
				}
			}
		}
		for ; some; ahead, some = own() {
			if !yield(*ahead) {
				return
			}
		}
	}
}

// Apply returns the view after c. It returns ErrOldEpoch, ErrNewEpoch, ErrGap,
// ErrDiverged or ErrDamaged if c does not follow v, a *KeyError if its effects are
// not such as Resolve makes, and a *LimitError if something in it is too large.
func (v View) Apply(c Commit) (View, error) {
	if err := v.follows(c); err != nil {
		return View{}, err
	}
	if err := c.check(); err != nil {
		return View{}, fmt.Errorf("revision %s: %w", c.Rev, err)
	}
	keys := v.begin()
	for _, effect := range c.Effects {
		key := []byte(effect.Entry.Key)
		if effect.Deleted {
			keys.Delete(key)
			continue
		}
		entry := c.entry(effect)
		keys.Insert(key, &entry)
	}
	return View{head: c.Head(v.head.EpochID), keys: keys.CommitOnly(), trail: v.trail.extend(c.Prev, c.keys()), own: v.own}, nil
}

// follows checks that c may be applied to v.
func (v View) follows(c Commit) error {
	switch {
	case c.Rev.Epoch < v.head.Rev.Epoch:
		return fmt.Errorf("revision %s after %s: %w", c.Rev, v.head.Rev, ErrOldEpoch)
	case c.Rev.Epoch > v.head.Rev.Epoch:
		return fmt.Errorf("revision %s after %s: %w", c.Rev, v.head.Rev, ErrNewEpoch)
	case c.Rev != v.head.Rev.Next():
		return fmt.Errorf("revision %s after %s: %w", c.Rev, v.head.Rev, ErrGap)
	// The content first: of a damaged commit nobody knows what it follows.
	case c.Hash != c.hash():
		return fmt.Errorf("revision %s: %w, which it says is %x", c.Rev, ErrDamaged, c.Hash[:8])
	case c.Prev != v.head.Hash:
		return fmt.Errorf("revision %s: %w: it follows %x, here is %x", c.Rev, ErrDiverged, c.Prev[:8], v.head.Hash[:8])
	}
	return nil
}

// find looks among the operators' keys.
func (v View) find(key Key) *Entry {
	if v.keys == nil {
		return nil
	}
	entry, _ := v.keys.Get([]byte(key))
	return entry
}

// begin starts a private copy of the keys that can be changed.
func (v View) begin() *iradix.Txn[*Entry] {
	if v.keys == nil {
		return iradix.New[*Entry]().Txn()
	}
	return v.keys.Txn()
}

// entriesUnder walks the part of a tree that prefix covers.
func entriesUnder[T any](root *iradix.Node[T], prefix string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, value := range pairsUnder(root, prefix) {
			if !yield(value) {
				return
			}
		}
	}
}

// pairsUnder yields the key itself and then what is below it, so that siblings
// such as "a/b-c" are never visited for "a/b".
func pairsUnder[T any](root *iradix.Node[T], prefix string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		below := prefix
		if prefix != "" && !strings.HasSuffix(prefix, "/") {
			below += "/"
			if value, ok := root.Get([]byte(prefix)); ok && !yield(prefix, value) {
				return
			}
		}
		walk := root.Iterator()
		walk.SeekPrefix([]byte(below))
		for key, value, ok := walk.Next(); ok; key, value, ok = walk.Next() {
			if !yield(string(key), value) {
				return
			}
		}
	}
}
