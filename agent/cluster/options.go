package cluster

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"

	"grapevine/agent/identity"
	"grapevine/kv"
	"grapevine/kv/consensus"
	"grapevine/kv/gossip"
)

// Options say what a Node is made of. What is not said to be optional is required.
type Options struct {
	// ID is the node's for life; Name, Region and Version are for people. Region may
	// be empty.
	ID, Name, Region, Version string

	// Build is what the program was built from, and Addresses are those of the node's
	// listeners by name; both are for people, and optional.
	Build     string
	Addresses map[string]string

	Store *kv.Store
	// Answers tells within two seconds whether somebody answers at an ephemeral key whose
	// owner can't be reached. Where nobody does for a while the key is not used any more.
	// Optional: then it is used until its time is over.
	Answers func(kv.Entry) bool
	// Check judges writes when this node leads.
	Check consensus.Check
	// Gateway is the node's own; nil: it runs none, and then nobody waits for it.
	Gateway Gateway

	// Dir is the folder of the node's identity and of raft's log; empty keeps both in
	// memory.
	Dir string
	// Port is where the other nodes come in. It is the Node's from New on.
	Port Port
	// Advertise is the address by which they do, IP or IP:port; empty finds it.
	Advertise string
	// Join is how the node finds its cluster when it is in none; nil founds one.
	Join *Join
	// Role is what the node wants to be; empty is what its token allows, which for the
	// founder is a voter.
	Role identity.Role
	// Adopt lets a node that holds keys of another cluster give them up.
	Adopt bool
	// Insecure leaves TLS out; then all addresses are loopback.
	Insecure bool

	// API serves requests that other nodes pass on for their operators.
	API http.Handler
	// Stop is told that the node has left its cluster, and that the agent is to stop.
	Stop   func()
	Logger *slog.Logger

	// Timing and Gossip are for tests; zero is the default.
	Timing consensus.Timing
	Gossip gossip.Timings
}

// Gateway is what other nodes ask of this one's gateway. Owner is the node that asks.
type Gateway interface {
	// WaitOwned returns when the gateway serves what owner did up to mark, or with an error.
	WaitOwned(ctx context.Context, owner kv.OwnerID, mark kv.OwnerMark) error
	// Drained returns when it sends the instance nothing any more, as mark says, or with an error.
	Drained(ctx context.Context, instance kv.Key, owner kv.OwnerID, mark kv.OwnerMark) error
}

// Port is a TCP port and the UDP port of the same number.
type Port struct {
	Listener net.Listener
	Packets  net.PacketConn
	Dial     func(ctx context.Context, address string) (net.Conn, error)
}

// close closes what is not closed yet.
func (p Port) close() error {
	var errs []error
	for _, part := range []io.Closer{p.Listener, p.Packets} {
		if err := part.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Join is a way into a cluster.
type Join struct {
	Token identity.Token
	// Seeds are asked in place of the token's, if there are any: host:port.
	Seeds []string
}

// The names of local values in the store.
const (
	// localFounding is set while a node founds a cluster.
	localFounding = "cluster/founding"
	// localLeft is set once the node has left its cluster, to that cluster's id.
	localLeft = "cluster/left"
	// localServer counts the raft folders that the node has had, as decimal digits.
	localServer = "cluster/server"
)
