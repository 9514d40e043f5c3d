package gossip

import "iter"

// Plane is what a Stream is, for many sequences of changes instead of one: each
// owner makes its own, and every node shall have all of them. Neither has the other's
// head: two nodes may each have what the other lacks. What a change looks like, and
// what may follow what, is the plane's business; each is at most MaxChangeBytes.
//
//	heads    the digest, 8 bytes; two nodes with one digest are done
//	pushes   what is new here, made or received, to the neighbours at once
//	pulls    who has another digest sends its vector and gets what it lacks
//
// All methods may be called by any number of goroutines, and none may wait for the
// network.
type Plane interface {
	ID() StreamID
	// Digest is equal on two nodes that have the same, and else, but for a chance of
	// one in 2^64, not.
	Digest() uint64
	// Changed is closed when the digest changes.
	Changed() <-chan struct{}
	// Made gives the changes that this node made since Made was called last, oldest
	// first: nothing of what came by Apply. Only the Peer calls it.
	Made() [][]byte
	// Vector says how far each sequence is, in at most MaxVectorBytes.
	Vector() []byte
	// Delta gives what a node with a vector lacks, each sequence oldest first, as of
	// this moment. behind reports that the vector has something that is missing here.
	// An error means that no node sends such a vector.
	Delta(vector []byte) (changes iter.Seq[[]byte], behind bool, err error)
	// Apply takes in changes as far as they follow what is here, and returns those that
	// were new, to be passed on. gap reports that one was left out because changes
	// before it are missing: they are pulled at once. An error means that no node sends
	// such a change; those before it have been applied, and are in fresh.
	Apply(changes [][]byte) (fresh [][]byte, gap bool, err error)
}

// Limits of what a Plane gives.
const (
	// MaxChangeBytes bounds one change: a connection has to carry it in one piece.
	MaxChangeBytes = 1 << 20
	// MaxVectorBytes bounds a vector: 40 bytes for each of 25,000 owners.
	MaxVectorBytes = 1 << 20
)
