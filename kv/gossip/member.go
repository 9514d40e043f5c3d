package gossip

// Status is what this node knows of a member's life.
type Status int

const (
	// Alive: it answers, or somebody whom it answers says so.
	Alive Status = iota
	// Suspect: it did not answer this node's last probe and nothing was heard of it
	// since. It counts as alive.
	Suspect
	// Dead: it went without a word.
	Dead
	// Left: it said that it goes, or an operator said so.
	Left
)

var statusNames = [...]string{"alive", "suspect", "dead", "left"}

func (s Status) String() string { return statusNames[s] }

// Member is one node of the cluster as this node sees it.
type Member struct {
	ID      NodeID
	Name    string
	Address string // of its gossip, IP and port
	Peer    string // of its other services, host and port
	Status  Status
	Role    Role
	Version string
	Region  string
	// NoGateway says that it runs no gateway.
	NoGateway bool
	// UDPBlocked says that it lives, and answers this node over TCP alone.
	UDPBlocked bool

	boot string // which of its starts this is
}

// alive tells whether it is worth talking to.
func (m Member) alive() bool { return m.Status == Alive || m.Status == Suspect }

// fullName is what memberlist calls it. It holds the boot, so that a node which
// returns at another address is another member, and no conflict of addresses.
func fullName(id NodeID, boot string) string { return string(id) + "-" + boot }
