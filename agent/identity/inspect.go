package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Certificate is what a certificate says, for people and programs.
type Certificate struct {
	Kind        string    `json:"kind"` // "ca" or "node"
	Cluster     string    `json:"cluster"`
	Node        string    `json:"node,omitempty"`
	Role        Role      `json:"role,omitempty"`
	Fingerprint string    `json:"fingerprint"` // SHA-256
	Key         string    `json:"key"`         // the public key, 64 hexadecimal digits
	VoterKey    string    `json:"voterKey,omitempty"`
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	Names       []string  `json:"names,omitempty"`
}

// Inspect reads a certificate of a cluster, in DER. It checks no signature but
// that of a CA's by itself.
func Inspect(der []byte) (Certificate, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	key, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok {
		return Certificate{}, fmt.Errorf("certificate %q: its key is %s, and those of a cluster are Ed25519", shorten(cert.Subject.CommonName), cert.PublicKeyAlgorithm)
	}
	fingerprint := Fingerprint(sha256.Sum256(der))
	c := Certificate{
		Fingerprint: fingerprint.String(), Key: hex.EncodeToString(key),
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter, Names: cert.DNSNames,
	}
	if cert.IsCA {
		return c.ofCA(der)
	}
	return c.ofNode(cert)
}

func (c Certificate) ofCA(der []byte) (Certificate, error) {
	cluster, err := ParseCluster(der)
	if err != nil {
		return Certificate{}, err
	}
	c.Kind, c.Cluster, c.VoterKey = "ca", cluster.id.String(), hex.EncodeToString(cluster.voterKey)
	return c, nil
}

// ofNode takes the cluster from the certificate's own names.
func (c Certificate) ofNode(cert *x509.Certificate) (Certificate, error) {
	for _, name := range cert.DNSNames {
		var cluster Cluster
		digits := strings.TrimSuffix(name, nameSuffix)
		if cluster.id.UnmarshalText([]byte(digits)) != nil || digits == name {
			continue
		}
		peer, err := cluster.peer(cert)
		if err != nil {
			return Certificate{}, err
		}
		c.Kind, c.Cluster, c.Node, c.Role = "node", cluster.id.String(), peer.Node, peer.Role
		return c, nil
	}
	return Certificate{}, fmt.Errorf("certificate %q: names no cluster", shorten(cert.Subject.CommonName))
}

// InspectPEM reads all certificates of a PEM file, as of an identity's; what
// else is in there it leaves out.
func InspectPEM(data []byte) ([]Certificate, error) {
	var list []Certificate
	var problems []error
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != blockCertificate {
			continue
		}
		c, err := Inspect(block.Bytes)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, c)
	}
	if len(list) == 0 && problems == nil {
		problems = append(problems, errors.New("holds no certificate in PEM form"))
	}
	return list, errors.Join(problems...)
}

// CertificatePEM is the certificate of the cluster's CA, for other programs.
func (c *Cluster) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: c.ca.Raw})
}

// Certificate is what this node's certificate says.
func (i *Identity) Certificate() Certificate {
	c, err := Inspect(i.now.Load().leaf.Raw)
	if err != nil {
		panic(err) // it was read before in the same way
	}
	return c
}

// CertificatePEM is this node's certificate.
func (i *Identity) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: i.now.Load().leaf.Raw})
}

// Provision makes the whole file of a new node of the cluster, for a node that
// can't ask: it starts as a member. The file is as secret as the node, and for a
// voter as the cluster.
func (i *Identity) Provision(node string, role Role) ([]byte, error) {
	if i.authority == nil {
		return nil, fmt.Errorf("identity of node %s: node %s is an edge, and only a voter can make one", shorten(node), i.self.Node)
	}
	if _, err := ParseRole(string(role)); err != nil {
		return nil, err
	}
	o := Options{Node: node}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := i.authority.issue(node, role, key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	a := admission{cluster: i.cluster, certificate: der, gossip: i.GossipKeys()}
	if role == Voter {
		a.caKey, a.voterKey = i.authority.caKey, i.authority.voterKey
	}
	made, err := o.take(key, Peer{node, role, PublicKey(key.Public().(ed25519.PublicKey))}, a)
	if err != nil {
		return nil, err
	}
	return made.now.Load().encode()
}

// TokenInfo is what a token says, without its secret.
type TokenInfo struct {
	ID      string     `json:"id"`
	Role    Role       `json:"role"`
	State   TokenState `json:"state"`
	Expires time.Time  `json:"expires"`
	// Of a token's string alone:
	Cluster string   `json:"cluster,omitempty"`
	CA      string   `json:"ca,omitempty"`
	Seeds   []string `json:"seeds,omitempty"`
	// Of a record alone:
	Created  time.Time `json:"created,omitzero"`
	Uses     int       `json:"uses,omitempty"`     // 0: any number
	UsesLeft int       `json:"usesLeft,omitempty"` // of Uses
	UsedBy   []string  `json:"usedBy,omitempty"`   // nodes, in order
}

// Info is what the token's string says. Whether the cluster still knows it only
// the cluster can tell.
func (t Token) Info(now time.Time) TokenInfo {
	return TokenInfo{
		ID: t.ID(), Role: t.Role, Expires: t.Expires, State: TokenRecord{Expires: t.Expires}.State(now),
		Cluster: t.Cluster.String(), CA: t.CA.String(), Seeds: t.Seeds,
	}
}

// Info is what the record says.
func (r TokenRecord) Info(now time.Time) TokenInfo {
	info := TokenInfo{
		ID: r.ID, Role: r.Role, State: r.State(now), Expires: r.Expires, Created: r.Created,
		Uses: r.Uses, UsedBy: slices.Sorted(maps.Keys(r.UsedBy)),
	}
	if r.Uses > 0 {
		info.UsesLeft = r.Uses - len(r.UsedBy)
	}
	return info
}

// ListTokens reads records by their ids, the newest first; a record that can't
// be read is an error beside the others.
func ListTokens(records map[string][]byte, now time.Time) ([]TokenInfo, error) {
	var list []TokenInfo
	var problems []error
	for _, id := range slices.Sorted(maps.Keys(records)) {
		record, err := DecodeTokenRecord(id, records[id])
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, record.Info(now))
	}
	slices.SortStableFunc(list, func(a, b TokenInfo) int { return b.Created.Compare(a.Created) })
	return list, errors.Join(problems...)
}
