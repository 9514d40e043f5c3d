package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"testing"
)

// Forge gives an identity that names the victim's cluster and shows its CA, and
// whose certificate another CA signed.
func Forge(t testing.TB, forger, victim *Identity) *Identity {
	t.Helper()
	ca := *victim.cluster.ca
	ca.PublicKey = forger.cluster.ca.PublicKey
	pretended := &Authority{cluster: &Cluster{ca: &ca, id: victim.cluster.id}, caKey: forger.authority.caKey}
	der, err := pretended.issue(forger.self.Node, Voter, forger.key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	h := *forger.now.Load()
	h.cluster = victim.cluster
	if h.leaf, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	forged := &Identity{cluster: victim.cluster, key: h.key, self: h.peer}
	forged.now.Store(&h)
	return forged
}

// NewRequest makes a request for a certificate with a key of its own.
func NewRequest(t testing.TB, node string) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := newRequest(node, key)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// PlainEdge gives an edge of the voter's cluster, which without TLS only has to
// say that it is one.
func PlainEdge(voter *Identity, node string) *Identity {
	edge := &Identity{options: voter.options, cluster: voter.cluster, self: Peer{Node: node, Role: Edge}}
	edge.now.Store(voter.now.Load())
	return edge
}

// Recode decodes a file and encodes it again.
func Recode(data []byte) (Peer, []byte, error) {
	h, err := decode(data)
	if err != nil {
		return Peer{}, nil, err
	}
	again, err := h.encode()
	return h.peer, again, err
}

// Leaf is the node's certificate, in DER.
func Leaf(id *Identity) []byte { return id.now.Load().leaf.Raw }

// ReadAnswer reads the answer of a seed.
func ReadAnswer(r io.Reader) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, "http://cluster"+JoinPath, nil)
	if err != nil {
		return nil, err
	}
	return readAnswer(r, request)
}

// ParseLines reads a line as either side does.
func ParseLines(line string) {
	parseGreeting(line)
	parseAnswer(line)
}

// EncodeTokenBody makes a token of any bytes, with the right length and checksum.
func EncodeTokenBody(front, seeds []byte) string {
	body := make([]byte, 9+16+32+16)
	copy(body, front)
	data := binary.BigEndian.AppendUint16(nil, uint16(len(body)+len(seeds)+4))
	data = append(append(data, body...), seeds...)
	data = binary.BigEndian.AppendUint32(data, tokenSum(data))
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(data)
}
