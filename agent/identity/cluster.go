package identity

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"grapevine/kv"
)

// ClusterID tells clusters apart. It is drawn at random when a cluster is founded.
type ClusterID [16]byte

// String gives 32 hexadecimal digits.
func (c ClusterID) String() string { return hex.EncodeToString(c[:]) }

// Fingerprint is the SHA-256 of a certificate.
type Fingerprint [sha256.Size]byte

// String gives 64 hexadecimal digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// The extensions of our certificates. Their numbers lie under 2.25, where
// whoever draws a number at random needs nobody's leave (ITU-T X.667); these
// are as long as crypto/x509 can read. They are not critical, so that other
// tools can look at our certificates.
var (
	clusterExtension = asn1.ObjectIdentifier{2, 25, 193415726} // of the CA: clusterValue
	roleExtension    = asn1.ObjectIdentifier{2, 25, 193415727} // of a node: the role's name, a string
)

// clusterValue is what the CA's extension holds, as a SEQUENCE.
type clusterValue struct {
	ID       []byte // 16 bytes
	VoterKey []byte // 32 bytes, Ed25519
}

// nameSuffix ends every name in our certificates. The domain .internal is kept
// for private use (ICANN, 2024).
const nameSuffix = ".grapevine.internal"

// Cluster is what all nodes know of theirs: the CA's certificate. It is immutable.
type Cluster struct {
	ca       *x509.Certificate
	id       ClusterID
	voterKey ed25519.PublicKey
	roots    *x509.CertPool
}

// ParseCluster reads the certificate of a cluster's CA.
func ParseCluster(der []byte) (*Cluster, error) {
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cluster CA: %w", err)
	}
	c := &Cluster{ca: ca, roots: x509.NewCertPool()}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("cluster CA %q: %w", shorten(ca.Subject.CommonName), err)
	}
	c.roots.AddCert(ca)
	return c, nil
}

func (c *Cluster) read() error {
	if _, ok := c.ca.PublicKey.(ed25519.PublicKey); !ok || !c.ca.IsCA {
		return errors.New("is not the certificate of a CA with an Ed25519 key")
	}
	if err := c.ca.CheckSignatureFrom(c.ca); err != nil {
		return fmt.Errorf("has not signed itself: %w", err)
	}
	var value clusterValue
	if err := extension(c.ca, clusterExtension, &value); err != nil {
		return fmt.Errorf("which cluster it is of: %w", err)
	}
	if len(value.ID) != len(c.id) || len(value.VoterKey) != ed25519.PublicKeySize {
		return fmt.Errorf("has a cluster id of %d bytes and a voter key of %d, want %d and %d",
			len(value.ID), len(value.VoterKey), len(c.id), ed25519.PublicKeySize)
	}
	c.id, c.voterKey = ClusterID(value.ID), value.VoterKey
	return nil
}

// extension reads one extension of a certificate into value.
func extension(cert *x509.Certificate, id asn1.ObjectIdentifier, value any) error {
	for _, e := range cert.Extensions {
		if !e.Id.Equal(id) {
			continue
		}
		rest, err := asn1.Unmarshal(e.Value, value)
		if err == nil && len(rest) > 0 {
			err = errors.New("has bytes after its end")
		}
		if err != nil {
			return fmt.Errorf("extension %s: %w", id, err)
		}
		return nil
	}
	return fmt.Errorf("extension %s is missing", id)
}

func newExtension(id asn1.ObjectIdentifier, value any) (pkix.Extension, error) {
	data, err := asn1.Marshal(value)
	return pkix.Extension{Id: id, Value: data}, err
}

// ID is the cluster's id.
func (c *Cluster) ID() ClusterID { return c.id }

// Fingerprint is that of the CA's certificate. Whoever knows it can tell the
// cluster from an impostor.
func (c *Cluster) Fingerprint() Fingerprint { return sha256.Sum256(c.ca.Raw) }

// Certificate is that of the CA, in DER. Nobody may change the bytes.
func (c *Cluster) Certificate() []byte { return c.ca.Raw }

// name is the DNS name that all nodes of the cluster answer to.
func (c *Cluster) name() string { return c.id.String() + nameSuffix }

func (c *Cluster) nodeName(node string) string { return node + "." + c.name() }

// peer reads what the certificate of a node says. It checks no signature.
func (c *Cluster) peer(cert *x509.Certificate) (Peer, error) {
	key, ok := cert.PublicKey.(ed25519.PublicKey)
	if !ok {
		return Peer{}, fmt.Errorf("certificate %q: its key is no Ed25519 key", shorten(cert.Subject.CommonName))
	}
	var role string
	if err := extension(cert, roleExtension, &role); err != nil {
		return Peer{}, fmt.Errorf("certificate %q: role: %w", shorten(cert.Subject.CommonName), err)
	}
	peer := Peer{Role: Role(role), Key: PublicKey(key)}
	if _, err := ParseRole(role); err != nil {
		return Peer{}, fmt.Errorf("certificate %q: %w", shorten(cert.Subject.CommonName), err)
	}
	for _, name := range cert.DNSNames {
		node, ours := strings.CutSuffix(name, "."+c.name())
		if ours && CheckNodeID(node) == nil {
			peer.Node = node
			return peer, nil
		}
	}
	return Peer{}, fmt.Errorf("certificate %q: names no node of cluster %s", shorten(cert.Subject.CommonName), c.id)
}

// Verify checks that a voter of this cluster signed the head.
func (c *Cluster) Verify(head kv.Head) error {
	if head.Signature == [ed25519.SignatureSize]byte{} {
		return fmt.Errorf("head %s (hash %x): carries no signature", head.Rev, head.Hash[:8])
	}
	if !ed25519.Verify(c.voterKey, head.SigningBytes(), head.Signature[:]) {
		return fmt.Errorf("head %s (hash %x): its signature is not by the voter key %x of cluster %s",
			head.Rev, head.Hash[:8], c.voterKey[:8], c.id)
	}
	return nil
}
