package kv

import "crypto/sha256"

// Hash identifies a whole history: that of a revision covers that of the
// revision before it.
type Hash [32]byte

// Head is the point in history at which a view stands.
type Head struct {
	Rev Rev
	// EpochID is drawn at random when an epoch begins: two epochs with one
	// counter can be told apart.
	EpochID [16]byte
	// Index is the raft index of the last commit, 0 on a single node and where
	// an epoch begins.
	Index uint64
	Hash  Hash
	// Signature is the leader's, with Ed25519 over SigningBytes; all zero where
	// nobody signed. This package keeps it and checks nothing: whoever knows the
	// voters' key does.
	Signature [64]byte
}

// signingContext keeps a signature of a head from being taken for one of
// something else.
const signingContext = "grapevine head\x00"

// SigningBytes is what a head's signature covers: the context, 4 bytes epoch, 8
// bytes revision, 16 bytes epoch id, 32 bytes hash. The raft index is not part of
// it, as it is not part of the hash.
func (h Head) SigningBytes() []byte {
	e := encoder{buf: []byte(signingContext)}
	e.rev(h.Rev)
	e.raw(h.EpochID[:])
	e.raw(h.Hash[:])
	return e.buf
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

// successor is the head at which the next epoch begins, on top of h. Its hash
// holds the new epoch's id and all of the history before.
func (h Head) successor(epochID [16]byte) Head {
	e := encoder{buf: []byte("grapevine epoch after ")}
	e.rev(h.Rev)
	e.raw(h.EpochID[:])
	e.raw(h.Hash[:])
	e.raw(epochID[:])
	return Head{
		Rev:     Rev{Epoch: h.Rev.Epoch + 1, Rev: h.Rev.Rev},
		EpochID: epochID,
		Hash:    sha256.Sum256(e.buf),
	}
}
