package kv

import "time"

// Entry is a key with its value and where the value came from. Entries are
// shared between views, history and watchers: nobody may change the bytes of
// Value.
type Entry struct {
	Key   Key
	Value []byte

	// Own says whose an ephemeral entry is, nil of an operators'. Then By is the owner, At
	// the zero time, and the revisions count the changes that this node has seen of
	// ephemeral keys since its start, in epoch 0: they order nothing, but no two
	// entries of a key have one ModRev.
	Own *Ownership

	// CreateRev is the revision since which the key exists without a break,
	// ModRev the one that wrote this value. A compare-and-set compares ModRev.
	CreateRev, ModRev Rev
	// Version counts the writes since CreateRev; the first one is 1.
	Version uint64

	// By is the author as the API knew them, Message their reason, At their
	// clock. At orders nothing.
	By, Message string
	At          time.Time
}
