package agent

import (
	"io"
	"time"
)

const (
	// DefaultHTTP is where the proxy listens; of a --dev agent it is DevHTTP.
	DefaultHTTP = ":8080"
	DevHTTP     = "127.0.0.1:8080"
	// DefaultAdmin is where the API listens beside its unix socket.
	DefaultAdmin = "127.0.0.1:8500"
	// VoterAuto leaves it to the cluster whether a node votes; VoterNo makes it one that never does.
	VoterAuto = "auto"
	VoterYes  = "yes"
	VoterNo   = "no"
	// DefaultDrain bounds the wait for requests under way when the agent stops.
	DefaultDrain = 30 * time.Second
)

// Config is what the command line and the environment say; an empty field is one that they don't mention, and then the
// static file decides, and then a default.
type Config struct {
	ConfigFiles []string
	// ConfigDir is read as if each of its .yaml, .yml and .json files were in ConfigFiles.
	ConfigDir string

	// DataDir defaults to the state directory that systemd gives, else to ./grapevine-data.
	DataDir string
	// Node defaults to the host's name.
	Node, Region string

	// HTTP, Admin, Gossip and Metrics are addresses as spec.ListenAddress takes them; port 0 lets the system choose.
	// Metrics is one more place that serves /metrics, with no default. Gossip is where the other nodes reach this one.
	HTTP, Admin, Gossip, Metrics string
	// Socket is a path. It defaults to agent.sock in systemd's runtime directory, else in the data directory.
	Socket string

	// Join is how the node finds its cluster when it is a member of none yet: one join token, or addresses of nodes,
	// host:port, and then TokenFile names the file that holds the token.
	Join      []string
	TokenFile string
	// Advertise is the address by which the others reach Gossip, where it isn't the one that the agent finds by itself.
	Advertise string
	// Voter says whether the node may vote: VoterAuto, which an empty text is too, VoterYes or VoterNo.
	Voter string
	// BootstrapExpect is how many new nodes have to find each other before they found a cluster together; 0: this node
	// founds one alone.
	BootstrapExpect int
	// Adopt lets a node that founded a cluster of its own give it up, and its keys, for the one that it joins.
	Adopt bool
	// Insecure is a cluster without TLS, whose addresses are loopback only.
	Insecure bool

	// NoGateway leaves the proxy out: the node announces instances, holds the keys and answers the API. It joins a cluster as
	// an edge, since a voter judges writes by its gateway.
	NoGateway bool

	// Dev keeps everything in memory and allows loopback addresses only. There is a socket only where Socket asks for it.
	Dev bool

	// Grace is how long the agent goes on accepting requests after it reported itself as not ready, so that load
	// balancers learn of it; none by default. Drain bounds the wait for the requests under way after that.
	Grace, Drain time.Duration

	// AccessLog gets a line for each request where gateway/config/logging asks for it; nil: nobody does.
	AccessLog io.Writer

	Version, Build string
}
