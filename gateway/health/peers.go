package health

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Peers are the other nodes, as far as checks go that a few nodes make for all. It
// is used by one goroutine.
type Peers interface {
	// Look is what can be seen of them now.
	Look() Outlook
	// Tell lets the others know what this node finds. It does not wait for them. An
	// error means that they don't get to know it.
	Tell(Finding) error
	// Withdraw takes back what this node has told, so that nobody relies on it.
	Withdraw(Subject)
}

// Outlook is what a node sees of its peers. It never changes.
type Outlook struct {
	// Self is this node's id, and Nodes are all that make checks and live, with this
	// one.
	Self  string
	Nodes []string
	// Said is what the others that live say, by cluster and question.
	Said map[Subject][]Opinion
	// NodesChanged and SaidChanged are closed when there is more to see; nil never.
	NodesChanged, SaidChanged <-chan struct{}
}

// Subject is what an opinion is about: a question to a destination of a cluster.
type Subject struct{ Cluster, Question string }

// Opinion is what another node says. Count grows with each time that it says so.
type Opinion struct {
	Node  string
	Up    bool
	Count uint64
}

// Finding is what this node's own checks say.
type Finding struct {
	Subject   Subject
	Address   string
	Up        bool
	Why       string // the bad answer that turned it, "" else
	Good, Bad uint64 // answers of the address so far
	Count     uint64
}

// id names a check for all nodes: equal ones have equal ids, whatever asks them.
func (c Check) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d %d %d %d", c.Address, c.Path, c.Host, c.Statuses, c.Interval, c.Timeout, c.Rise, c.Fall))
	return hex.EncodeToString(sum[:12])
}

// electorate is the nodes among whom those that ask are found.
type electorate struct {
	self   uint64
	others []uint64
}

func newElectorate(self string, nodes []string) electorate {
	e := electorate{self: hashOf(self)}
	for _, node := range nodes {
		if node != self {
			e.others = append(e.others, hashOf(node))
		}
	}
	return e
}

func hashOf(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}

// elects tells whether this node is one of the n that ask a question. It is
// rendezvous hashing (Thaler and Ravishankar, 1998): each node draws a number that
// follows from its id and the question alone, and the n highest ask. So all nodes
// that see the same others agree, and one that comes or goes changes nothing but its
// own questions.
func (e electorate) elects(question uint64, n int) bool {
	mine, higher := mix(e.self^question), 0
	for _, other := range e.others {
		if mix(other^question) > mine {
			if higher++; higher >= n {
				return false
			}
		}
	}
	return true
}

// mix is the finalizer of SplitMix64, as java.util.SplittableRandom has it.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
