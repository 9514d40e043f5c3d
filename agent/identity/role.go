package identity

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
)

// Role is what a node may be in its cluster.
type Role string

const (
	// Voter may vote, order writes, sign heads and admit nodes.
	Voter Role = "voter"
	// Edge serves, gossips and announces, and never votes.
	Edge Role = "edge"
)

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	if role := Role(s); role == Voter || role == Edge {
		return role, nil
	}
	return "", fmt.Errorf("role %q: want voter or edge", shorten(s))
}

// The protocols of the cluster's port, as ALPN (RFC 7301) names them.
const (
	ProtocolMembers = "gv-ml/1"     // memberlist's streams
	ProtocolRaft    = "gv-raft/1"   // raft, among voters
	ProtocolSpread  = "gv-spread/1" // pushes and pulls
	ProtocolPeer    = "gv-peer/1"   // HTTP calls between nodes
	ProtocolJoin    = "gv-join/1"   // HTTP for those who are no node yet
)

// speakers says which roles may speak a protocol, on either side. To join one
// needs no role.
var speakers = map[string][]Role{
	ProtocolMembers: {Voter, Edge},
	ProtocolRaft:    {Voter},
	ProtocolSpread:  {Voter, Edge},
	ProtocolPeer:    {Voter, Edge},
}

// Peer is the node on the other side of a connection.
type Peer struct {
	Node string
	Role Role
	// Key is the node's public key, zero without TLS.
	Key PublicKey
}

// String names the node, its role and the front of its key.
func (p Peer) String() string {
	return fmt.Sprintf("node %s as %s with key %x", p.Node, p.Role, p.Key[:8])
}

// PublicKey is an Ed25519 public key that can be compared.
type PublicKey [ed25519.PublicKeySize]byte

// maySpeak says why peer may not speak protocol. The zero Peer is one that
// proved nothing.
func maySpeak(protocol string, peer Peer) error {
	if protocol == ProtocolJoin {
		return nil
	}
	roles, known := speakers[protocol]
	switch {
	case !known:
		return fmt.Errorf("protocol %q: is none of the cluster's", shorten(protocol))
	case peer.Node == "":
		return fmt.Errorf("protocol %s: is for nodes of the cluster, and the peer shows no certificate", protocol)
	case !slices.Contains(roles, peer.Role):
		return fmt.Errorf("protocol %s: node %s has role %s, and only %s may speak it", protocol, peer.Node, peer.Role, roles[0])
	}
	return nil
}

// nodeDigits are those of a ULID in lower case.
const nodeDigits = "0123456789abcdefghjkmnpqrstvwxyz"

// CheckNodeID says what is wrong with a node's id, which is a ULID in lower case.
func CheckNodeID(s string) error {
	if len(s) == 26 && s[0] <= '7' && strings.Trim(s, nodeDigits) == "" {
		return nil
	}
	return fmt.Errorf("node id %q: want a ULID of 26 lower-case digits and letters", shorten(s))
}

// shorten cuts what is too long for a message.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
