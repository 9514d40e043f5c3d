package kv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrGap is returned for a commit that is not the next one: those between
	// are missing and have to be fetched first.
	ErrGap = errors.New("revision is not the next one")
	// ErrDiverged is returned for a commit that another history made: it has the
	// right revision and the wrong hash. Nothing can merge the two by itself.
	ErrDiverged = errors.New("histories have diverged")
)

// Hash identifies a whole history: that of a revision covers that of the
// revision before it.
type Hash [32]byte

// Head is the point in history at which a view stands.
type Head struct {
	Rev Rev
	// EpochID is drawn at random when an epoch begins: two epochs with one
	// counter can be told apart.
	EpochID [16]byte
	// Index is the raft index of the last commit, 0 on a single node.
	Index uint64
	Hash  Hash
}

// Commit is a transaction whose compares have been decided: it holds what
// changes, not under which condition. Whoever applies it to the same head gets
// the same view.
type Commit struct {
	ID string
	// Index is the raft index, 0 on a single node. The hash leaves it out, so
	// that a rebuilt raft log does not change history.
	Index uint64
	Rev   Rev
	// Prev is the hash of the head before, Hash that of the head after.
	Prev, Hash Hash

	By, Message string
	At          time.Time
	Effects     []Effect // in the order of their keys, each key once
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

// checkKeys refuses effects that Resolve would not have made. A key that comes
// twice would be counted twice in the ledger, and the file refused when it is
// opened next.
func (c Commit) checkKeys() error {
	for i, effect := range c.Effects {
		key := effect.Entry.Key
		if _, err := ParseKey(string(key)); err != nil {
			return err
		}
		if i > 0 && c.Effects[i-1].Entry.Key >= key {
			return &KeyError{Key: string(key), Problem: fmt.Sprintf("comes after %q: effects stand in the order of their keys, each key once", c.Effects[i-1].Entry.Key)}
		}
	}
	return nil
}

// head is where a view stands after the commit.
func (c Commit) head(epochID [16]byte) Head {
	return Head{Rev: c.Rev, EpochID: epochID, Index: c.Index, Hash: c.Hash}
}

// hash chains what the commit does to the history before it.
func (c Commit) hash() Hash {
	h := sha256.New()
	h.Write(c.Prev[:])
	h.Write(encodeChange(c))
	return Hash(h.Sum(nil))
}

// genesis is the head of an empty history. Its hash holds the epoch's id, so
// that the histories of two clusters differ from their first revision on.
func genesis(epoch uint32, epochID [16]byte) Head {
	return Head{
		Rev:     Rev{Epoch: epoch},
		EpochID: epochID,
		Hash:    sha256.Sum256(append([]byte("grapevine epoch "), epochID[:]...)),
	}
}

// canonicalTime drops what does not travel: the monotonic reading and the zone.
func canonicalTime(t time.Time) time.Time { return t.Round(0).UTC() }
