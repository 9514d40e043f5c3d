package kv

import (
	"errors"
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
	Effects     []Effect
}

// Effect is the outcome for one key. A delete carries only Entry.Key.
type Effect struct {
	Entry   Entry
	Deleted bool
}
