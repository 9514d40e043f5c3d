package gossip

import (
	"errors"
	"io"

	"grapevine/kv"
)

// StreamID names a stream, the same on all nodes.
type StreamID uint8

// OperatorStream is the stream of the operators' keys.
const OperatorStream StreamID = 1

// OwnStream is the plane of what belongs to one node, as its instances.
const OwnStream StreamID = 2

// maxStreams bounds how many streams a node spreads.
const maxStreams = 4

// ErrForged is returned by a Stream for what lacks the signature that it needs.
var ErrForged = errors.New("signature is not valid")

// Stream is a sequence of changes that every node shall have. Its head tells how
// far it is. All methods may be called by any number of goroutines.
type Stream interface {
	ID() StreamID
	Head() kv.Head
	// Changed is closed when the head changes.
	Changed() <-chan struct{}
	// Verify tells whether a head is genuine; ErrForged if not.
	Verify(kv.Head) error
	// Delta gives the changes after since, oldest first: as many as fit into max
	// bytes, but at least one if there is one. upTo is the head after the last.
	// Errors: kv.ErrDiverged if since is of another history, kv.ErrFuture if it is
	// ahead, kv.ErrCompacted if it is too old.
	Delta(since kv.Head, max int) (changes [][]byte, upTo kv.Head, err error)
	// Apply verifies changes and applies them, all or none, and skips those that it
	// has. Errors: kv.ErrGap, kv.ErrDiverged, kv.ErrCompacted, ErrForged.
	Apply(changes [][]byte) error
	// Snapshot is all there is at one head, to be written once or never.
	Snapshot() (kv.Head, func(io.Writer) error)
	// Restore reads a snapshot, verifies it, asks whether its head is welcome, and
	// puts it in the place of everything. After an error nothing has changed.
	Restore(r io.Reader, welcome func(kv.Head) error) error
}
