package kv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// What Merge and Apply say of a commit that they can't take, one error for each
// row of the table in docs/design/store.md.
var (
	// ErrOldEpoch is returned for a commit of an epoch that has been replaced:
	// whoever sent it is to be told of the newer one.
	ErrOldEpoch = errors.New("epoch has been replaced")
	// ErrNewEpoch is returned for a commit of a later epoch. No commits lead
	// there, only a snapshot does.
	ErrNewEpoch = errors.New("epoch is not begun here")
	// ErrGap is returned for a commit that is not the next one: those between
	// are missing and have to be fetched first.
	ErrGap = errors.New("revision is not the next one")
	// ErrDiverged is returned for a commit that another history made: it has the
	// right revision and the wrong hash, or is made for another head. Nothing can
	// merge the two by itself.
	ErrDiverged = errors.New("histories have diverged")
	// ErrDamaged is returned for a commit whose content does not have its hash. It
	// says nothing of a history: whoever sent it made or garbled it.
	ErrDamaged = errors.New("content does not have its hash")
)

// Commit is a transaction whose compares have been decided: it holds what
// changes, not under which condition. Whoever applies it to the same head gets
// the same view.
type Commit struct {
	ID string
	// Index is the raft index, 0 on a single node. The hash leaves it out, so
	// that a rebuilt raft log does not change history.
	Index uint64
	Rev   Rev
	// Signature is that of the head after the commit, all zero where nobody
	// signed. It is not part of the hash: the hash is part of what is signed.
	Signature [64]byte
	// Prev is the hash of the head before, Hash that of the head after.
	Prev, Hash Hash

	By, Message string
	At          time.Time
	// Else says that the compares did not hold, and Else was done.
	Else    bool
	Effects []Effect // in the order of their keys, each key once
}

// Effect is the outcome for one key. A delete carries only Entry.Key.
type Effect struct {
	Entry   Entry
	Deleted bool
}

// entry is the entry that a put effect leaves behind. What the commit says of
// all its effects is taken from the commit alone.
func (c Commit) entry(effect Effect) Entry {
	entry := effect.Entry
	entry.ModRev, entry.By, entry.Message, entry.At = c.Rev, c.By, c.Message, c.At
	return entry
}

// check refuses what Resolve would not have made. A key that comes twice would be
// counted twice in the ledger, and the file refused when it is opened next; what
// is too large would make a store of which no snapshot can be read.
func (c Commit) check() error {
	if err := checkTexts(c.ID, c.By, c.Message); err != nil {
		return err
	}
	for i, effect := range c.Effects {
		key := effect.Entry.Key
		if _, err := ParseKey(string(key)); err != nil {
			return err
		}
		if err := checkOperators(key); err != nil {
			return err
		}
		if i > 0 && c.Effects[i-1].Entry.Key >= key {
			return &KeyError{Key: string(key), Problem: fmt.Sprintf("comes after %q: effects stand in the order of their keys, each key once", c.Effects[i-1].Entry.Key)}
		}
		if effect.Deleted {
			continue
		}
		if err := checkValue(key, effect.Entry.Value); err != nil {
			return err
		}
		if effect.Entry.Version == 0 || effect.Entry.CreateRev.Compare(c.Rev) > 0 {
			return &KeyError{Key: string(key), Problem: fmt.Sprintf("has version %d and was created in %s", effect.Entry.Version, effect.Entry.CreateRev)}
		}
	}
	return nil
}

// keys are those that the commit puts or deletes, in order.
func (c Commit) keys() []Key {
	keys := make([]Key, len(c.Effects))
	for i, effect := range c.Effects {
		keys[i] = effect.Entry.Key
	}
	return keys
}

// Head is where a view stands after the commit, in the epoch of the given id.
func (c Commit) Head(epochID [16]byte) Head {
	return Head{Rev: c.Rev, EpochID: epochID, Index: c.Index, Hash: c.Hash, Signature: c.Signature}
}

// hash chains what the commit does to the history before it.
func (c Commit) hash() Hash {
	h := sha256.New()
	h.Write(c.Prev[:])
	h.Write(encodeChange(c))
	return Hash(h.Sum(nil))
}

// canonicalTime drops what does not travel: the monotonic reading and the zone.
func canonicalTime(t time.Time) time.Time { return t.Round(0).UTC() }
