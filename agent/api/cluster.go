package api

import (
	"context"
	"net/http"
	"time"

	"grapevine/kv"
)

// Cluster is what the API asks of the node's cluster. A node is named by its name or its id. Each call that asks other
// nodes ends with its context; the API bounds each of them.
//
// Author names who asked, for the history.
//
// Besides the context's, a call may return a *NoQuorumError, an *UnknownOutcomeError, a *NotFoundError, a
// *RefusedError or an *UnreachableError. The client is told these as they are; another error is a fault of the agent,
// which the log tells.
type Cluster interface {
	// Standing is what the node knows of its own place in the cluster. It asks nobody.
	Standing() Standing
	// Members are the nodes that this one knows of, itself among them, by name. It asks nobody.
	Members() []Member
	// Await returns when share of the live nodes serves rev, or a later one, or when ctx ends. It is asked for shares in
	// percent only.
	Await(ctx context.Context, rev kv.Rev, share Share) Receipt
	// Read returns when this node's store has all that was committed before the call.
	Read(ctx context.Context) error

	// Peers are the voters and learners.
	Peers(ctx context.Context) ([]Peer, error)
	// TransferLeadership makes node the leader, or where it is empty the voter that is furthest. It returns the name of
	// the new leader.
	TransferLeadership(ctx context.Context, node string) (leader string, err error)
	// Promote makes a learner, or a node that may become one, a voter; Demote makes a voter a learner.
	Promote(ctx context.Context, node string) error
	Demote(ctx context.Context, node string) error

	// RecoveryPlan says what Recover would do, and refuses as it would. It changes nothing.
	RecoveryPlan(ctx context.Context) (Recovery, error)
	// Recover makes this node the only voter of its cluster, in the next epoch, when a majority of the voters is lost. It
	// returns when the node leads.
	Recover(ctx context.Context) (Recovery, error)

	// Join gets in touch with the nodes of this cluster at addresses, host:port. One that answers is enough.
	Join(ctx context.Context, addresses []string) error
	// Leave takes this node out of the cluster. When it returns nil the agent is about to stop by itself, as after
	// SIGTERM.
	Leave(ctx context.Context) error
	// ForceLeave takes out a node that can't do so itself. With revoke its certificate is refused from now on.
	ForceLeave(ctx context.Context, node string, revoke bool) error
	// Reachability lets each live node probe each other, and tells by pairs who reaches whom.
	Reachability(ctx context.Context) ([]Reach, error)

	// CreateToken makes a join token. The first result is what a new node is given, and is kept nowhere.
	CreateToken(ctx context.Context, wish TokenWish) (secret string, t Token, err error)
	// Tokens are those that were not revoked, the newest first.
	Tokens(ctx context.Context) ([]Token, error)
	RevokeToken(ctx context.Context, id string) error
	// Alarms are the nodes whose history contradicts this one's. It asks nobody.
	Alarms() ([]Alarm, error)
	// Difference is what another node holds that this one does not, and the other way.
	Difference(ctx context.Context, node string) (Difference, error)
	// Settle ends a contradiction: the node gives up its history, and with KeepNode what it holds is written before.
	Settle(ctx context.Context, node string, keep Keep) (Settled, error)
	// Keyring is which gossip keys the cluster has, and which each live node has.
	Keyring(ctx context.Context) (Keyring, error)
	// RotateKeys replaces the gossip key. It returns how far that is when it is done or ctx is about to end; the rest is
	// done by itself.
	RotateKeys(ctx context.Context) (Keyring, error)
	// Certificates are those of the cluster's CA and of this node, as ReadCertificates makes them; none where nodes speak
	// without TLS.
	Certificates() ([]Certificate, error)

	// Ask gives what serves requests by the API of another node, at its Peers door. Of the headers it must let through
	// AuthorHeader; RefuseAsked answers where the node can't be reached.
	Ask(node string) (http.Handler, error)
}

// Standing is a node's own place in its cluster.
type Standing struct {
	// Cluster is the cluster's id.
	Cluster string
	// Leader is the name of the leader, empty where the node knows of none.
	Leader string
	// Voters is how many nodes vote, and Reachable how many of these live as far as this node knows.
	Voters, Reachable int
	// Stale says that what is served may be old: the node has heard of no leader for a while.
	Stale bool
	// Alarms are what an operator has to look at, each in one sentence without a full stop.
	Alarms []string
}

// Receipt tells which of the live nodes serve a revision.
type Receipt struct {
	// Nodes of Of live nodes do.
	Nodes, Of int
	// Took is the time from the call until the last of Nodes did, or where some are missing, that of the call.
	Took time.Duration
	// Slowest is the name of the last of them, empty where there is none to compare with.
	Slowest string
	// Missing are the names of the live nodes that don't, by name.
	Missing []string
}

// TokenWish says what a new join token shall be good for.
type TokenWish struct {
	// Role is voter or edge.
	Role string
	// TTL is how long it admits nodes; zero is the cluster's default.
	TTL time.Duration
	// Uses is how many nodes it admits; zero is any number.
	Uses int
}
