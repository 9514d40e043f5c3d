package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"
)

// Waits between the rounds of a join, and the time that one seed gets.
const (
	leastJoinWait = 500 * time.Millisecond
	mostJoinWait  = 15 * time.Second
	seedTimeout   = joinTimeout + 10*time.Second
	// maxUnknown is how many rounds a token that nobody knows is tried: a new one
	// may not have reached the seeds yet.
	maxUnknown = 6
)

// Joining is a node's way into a cluster. Token and Dial are required.
type Joining struct {
	Token Token
	// Seeds are asked instead of the token's, if there are any.
	Seeds []string
	// Role is what the node wants to be; "" is what the token allows.
	Role    Role
	Version string
	Address string // that the node will announce; "" if it asks what others see
	// Adopt lets a node leave the cluster that it is a member of. Its identity there
	// is lost.
	Adopt  bool
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Logger *slog.Logger // nil: none
}

// Joined is what a node learned when it joined, besides who it is.
type Joined struct {
	Seeds    []string // members that can be asked for more
	Observed string   // the IP address from which a seed saw this node come; "" if unknown
}

// Join makes this node a member, and its identity is on disk when it returns.
// It asks the seeds in turn until one admits it, for as long as ctx lasts, or
// until it is refused for good (a *Refusal).
func Join(ctx context.Context, o Options, j Joining) (*Identity, Joined, error) {
	key, err := j.prepare(o)
	if err != nil {
		return nil, Joined{}, err
	}
	waits := backoff{least: leastJoinWait, most: mostJoinWait}
	for unknown := 0; ; {
		answer, err := j.round(ctx, o, key)
		if err == nil {
			return j.accept(o, key, answer)
		}
		refusal := new(Refusal)
		refused := errors.As(err, &refusal)
		if refused && refusal.Reason == ReasonUnknown {
			unknown++
		}
		if refused && refusal.Final() || unknown == maxUnknown {
			return nil, Joined{}, fmt.Errorf("joining cluster %s: %w", j.Token.Cluster, err)
		}
		j.logger().Warn("not admitted yet", "err", err)
		if waits.wait(ctx) != nil {
			return nil, Joined{}, fmt.Errorf("joining cluster %s: %w", j.Token.Cluster, err)
		}
	}
}

// prepare checks what can be told without asking anybody, and gives the node's key.
func (j *Joining) prepare(o Options) (ed25519.PrivateKey, error) {
	if j.Role == "" {
		j.Role = j.Token.Role
	}
	if len(j.Seeds) == 0 {
		j.Seeds = j.Token.Seeds
	}
	for _, seed := range j.Seeds {
		if err := checkSeed(seed); err != nil {
			return nil, err
		}
		if o.Insecure {
			if err := checkLoopback(seed); err != nil {
				return nil, err
			}
		}
	}
	if j.Role == Voter && j.Token.Role != Voter {
		return nil, refuse(ReasonRole, "%s is for edges, and this node is to be a voter; join as an edge, or with a token for voters", j.Token)
	}
	h, err := o.load()
	if err == nil && h.cluster != nil && h.cluster.id != j.Token.Cluster && !j.Adopt {
		return nil, refuse(ReasonCluster, "this node is a member of cluster %s, and the join token is of cluster %s; --adopt leaves the one for the other",
			h.cluster.id, j.Token.Cluster)
	}
	return o.keyOf(h, err)
}

func (j *Joining) logger() *slog.Logger {
	if j.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return j.Logger
}

// round asks each seed once. Its error is the first refusal for good, else what
// every seed said.
func (j *Joining) round(ctx context.Context, o Options, key ed25519.PrivateKey) (*JoinAnswer, error) {
	var errs []error
	for _, seed := range j.Seeds {
		answer, err := j.ask(ctx, o, key, seed, true)
		if err == nil {
			return answer, nil
		}
		err = fmt.Errorf("%s: %w", seed, err)
		if refusal := new(Refusal); errors.As(err, &refusal) && refusal.Final() {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// ask asks one node. If that is an edge and the token a voter's, it does not get
// the token, and may only tell whom to ask instead.
func (j *Joining) ask(ctx context.Context, o Options, key ed25519.PrivateKey, address string, redirect bool) (*JoinAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	conn, peer, err := j.connect(ctx, o, address)
	if err != nil {
		return nil, err
	}
	if peer.Role == Voter || j.Token.Role != Voter {
		return j.request(ctx, o, key, conn)
	}
	var voters votersAnswer
	if err := askJSON(ctx, conn, VotersPath, votersRequest{j.Token.ID()}, &voters); err != nil {
		return nil, err
	}
	if !redirect || len(voters.Voters) == 0 {
		return nil, refuse(ReasonVoter, "node %s is an edge, and the token is for voters to see alone", peer.Node)
	}
	return j.askVoters(ctx, o, key, voters.Voters)
}

func (j *Joining) askVoters(ctx context.Context, o Options, key ed25519.PrivateKey, addresses []string) (*JoinAnswer, error) {
	var errs []error
	for _, address := range addresses[:min(len(addresses), maxTokenSeeds)] {
		if err := checkSeed(address); err != nil {
			return nil, err
		}
		answer, err := j.ask(ctx, o, key, address, false)
		if err == nil {
			return answer, nil
		}
		errs = append(errs, fmt.Errorf("voter %s: %w", address, err))
	}
	return nil, errors.Join(errs...)
}

func (j *Joining) request(ctx context.Context, o Options, key ed25519.PrivateKey, conn net.Conn) (*JoinAnswer, error) {
	request, err := newRequest(o.Node, key)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return AskToJoin(ctx, conn, &JoinRequest{
		Cluster: j.Token.Cluster, Secret: j.Token.Secret, Node: o.Node, Role: j.Role,
		Request: request, Version: j.Version, Address: j.Address, Time: time.Now(),
	})
}

// connect opens a connection to a node of the token's cluster, and to no other.
func (j *Joining) connect(ctx context.Context, o Options, address string) (net.Conn, Peer, error) {
	conn, err := j.Dial(ctx, address)
	if err != nil {
		return nil, Peer{}, err
	}
	if o.Insecure {
		peer, err := plainHello(ctx, conn, ProtocolJoin, Peer{})
		if err != nil {
			return nil, Peer{}, errors.Join(err, conn.Close())
		}
		return conn, peer, nil
	}
	var peer Peer
	secured := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{ProtocolJoin},
		// The CA is not known before it is shown; VerifyConnection does all of it.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			peer, err = j.verify(state)
			return err
		},
	})
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close() // not through TLS, which would wait for a peer that is none
		return nil, Peer{}, err
	}
	return secured, peer, nil
}

// verify traces the peer to the CA that the token names.
func (j *Joining) verify(state tls.ConnectionState) (Peer, error) {
	i := slices.IndexFunc(state.PeerCertificates, func(c *x509.Certificate) bool { return sha256.Sum256(c.Raw) == j.Token.CA })
	if i < 0 {
		return Peer{}, fmt.Errorf("the node's certificate is not by the CA %s that the join token names: it is of another cluster, or somebody stands between", j.Token.CA)
	}
	cluster, err := ParseCluster(state.PeerCertificates[i].Raw)
	if err != nil {
		return Peer{}, err
	}
	leaf := state.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: cluster.roots, DNSName: cluster.name()}); err != nil {
		return Peer{}, clockHint(leaf, err)
	}
	return cluster.peer(leaf)
}

// clockHint adds that the fault may be this node's.
func clockHint(leaf *x509.Certificate, err error) error {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("the node's certificate is valid from %s to %s, and this node's clock shows %s; is that right?",
			leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
	}
	return err
}

// accept checks an answer, and makes it this node's identity.
func (j *Joining) accept(o Options, key ed25519.PrivateKey, answer *JoinAnswer) (*Identity, Joined, error) {
	identity, err := j.take(o, key, answer)
	if err != nil {
		return nil, Joined{}, fmt.Errorf("joining cluster %s: answer: %w", j.Token.Cluster, err)
	}
	seeds := slices.DeleteFunc(slices.Clone(answer.Seeds), func(s string) bool { return checkSeed(s) != nil })
	joined := Joined{Seeds: seeds[:min(len(seeds), maxAnswerSeeds)]}
	if net.ParseIP(answer.Observed) != nil {
		joined.Observed = answer.Observed
	}
	return identity, joined, nil
}

func (j *Joining) take(o Options, key ed25519.PrivateKey, answer *JoinAnswer) (*Identity, error) {
	if sha256.Sum256(answer.CA) != j.Token.CA {
		return nil, fmt.Errorf("its CA is not %s, which the join token names", j.Token.CA)
	}
	cluster, err := ParseCluster(answer.CA)
	if err != nil {
		return nil, err
	}
	a := admission{cluster: cluster, certificate: answer.Certificate, gossip: answer.GossipKeys}
	if a.caKey, err = keyFromSeed("CA key", answer.CAKey); err != nil {
		return nil, err
	}
	if a.voterKey, err = keyFromSeed("voter key", answer.VoterKey); err != nil {
		return nil, err
	}
	return o.take(key, Peer{Node: o.Node, Role: j.Role, Key: PublicKey(key.Public().(ed25519.PublicKey))}, a)
}

// keyFromSeed reads a key that only voters are sent.
func keyFromSeed(name string, seed []byte) (ed25519.PrivateKey, error) {
	switch len(seed) {
	case 0:
		return nil, nil
	case ed25519.SeedSize:
		return ed25519.NewKeyFromSeed(seed), nil
	}
	return nil, fmt.Errorf("%s: has %d bytes, want %d", name, len(seed), ed25519.SeedSize)
}
