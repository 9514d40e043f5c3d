package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// holding is what a node has: one file. It is immutable.
//
// A node that is not a member yet has a key alone.
type holding struct {
	key  ed25519.PrivateKey
	leaf *x509.Certificate // the node's certificate
	peer Peer              // what it says

	cluster   *Cluster
	authority *Authority // nil on an edge
	gossip    [][]byte   // the keys of gossip, the one that encrypts first
}

// The types of the file's PEM blocks. Which certificate is the CA's and which
// key belongs where, they say themselves.
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
	blockGossip      = "GRAPEVINE GOSSIP KEY"
)

// gossipKeySize chooses AES-256.
const gossipKeySize = 32

// maxGossipKeys bounds the ring: one in use, others while it is rotated.
const maxGossipKeys = 16

// encode writes the file.
func (h *holding) encode() ([]byte, error) {
	var buf bytes.Buffer
	write := func(kind string, data []byte) { pem.Encode(&buf, &pem.Block{Type: kind, Bytes: data}) }
	// First what makes a member: no front of the file then looks like that of a node
	// before its join.
	if h.cluster != nil {
		write(blockCertificate, h.leaf.Raw)
		write(blockCertificate, h.cluster.ca.Raw)
	}
	for _, key := range h.gossip {
		write(blockGossip, key)
	}
	keys := []ed25519.PrivateKey{h.key}
	if h.authority != nil {
		keys = append(keys, h.authority.caKey, h.authority.voterKey)
	}
	for _, key := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, err
		}
		write(blockKey, der)
	}
	return buf.Bytes(), nil
}

// blocks are the contents of the file, not yet put together.
type blocks struct {
	cas, leaves []*x509.Certificate
	keys        []ed25519.PrivateKey
	gossip      [][]byte
}

// decode reads what encode wrote, and checks that all of it belongs together.
func decode(data []byte) (*holding, error) {
	b, err := readBlocks(data)
	if err != nil {
		return nil, err
	}
	if len(b.cas) == 0 && len(b.leaves) == 0 {
		if len(b.keys) != 1 {
			return nil, fmt.Errorf("holds %d keys and no certificate", len(b.keys))
		}
		return &holding{key: b.keys[0]}, nil
	}
	if len(b.cas) != 1 || len(b.leaves) != 1 {
		return nil, fmt.Errorf("holds %d certificates of CAs and %d of nodes, want one of each", len(b.cas), len(b.leaves))
	}
	return b.assemble()
}

func readBlocks(data []byte) (b blocks, err error) {
	for len(bytes.TrimSpace(data)) > 0 {
		block, rest := pem.Decode(data)
		if block == nil {
			return blocks{}, errors.New("is no PEM file, or is cut short")
		}
		data = rest
		if err := b.add(block); err != nil {
			return blocks{}, err
		}
	}
	return b, nil
}

func (b *blocks) add(block *pem.Block) error {
	switch block.Type {
	case blockCertificate:
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		if cert.IsCA {
			b.cas = append(b.cas, cert)
		} else {
			b.leaves = append(b.leaves, cert)
		}
	case blockKey:
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return errors.New("a private key can't be read") // the cause may show parts of it
		}
		key, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return fmt.Errorf("a private key is %T, want Ed25519", parsed)
		}
		b.keys = append(b.keys, key)
	case blockGossip:
		b.gossip = append(b.gossip, block.Bytes)
	default:
		return fmt.Errorf("holds a %q, which is not known", shorten(block.Type))
	}
	return nil
}

// assemble finds the place of each key by its public half.
func (b *blocks) assemble() (*holding, error) {
	cluster, err := ParseCluster(b.cas[0].Raw)
	if err != nil {
		return nil, err
	}
	if err := checkGossipKeys(b.gossip); err != nil {
		return nil, err
	}
	h := &holding{leaf: b.leaves[0], cluster: cluster, gossip: b.gossip}
	if err := h.readLeaf(); err != nil {
		return nil, err
	}
	var caKey, voterKey ed25519.PrivateKey
	for _, key := range b.keys {
		switch public := key.Public().(ed25519.PublicKey); {
		case public.Equal(h.leaf.PublicKey):
			h.key = key
		case public.Equal(cluster.ca.PublicKey):
			caKey = key
		case public.Equal(cluster.voterKey):
			voterKey = key
		default:
			return nil, fmt.Errorf("the private key of %x belongs to no certificate here", public[:8])
		}
	}
	return h.complete(caKey, voterKey)
}

// readLeaf checks who signed the certificate and what it says, but not whether
// it is still valid: an agent whose certificate is over still serves.
func (h *holding) readLeaf() (err error) {
	if err := h.leaf.CheckSignatureFrom(h.cluster.ca); err != nil {
		return fmt.Errorf("certificate %q is not signed by the CA of cluster %s: %w", shorten(h.leaf.Subject.CommonName), h.cluster.id, err)
	}
	h.peer, err = h.cluster.peer(h.leaf)
	return err
}

// complete sees to it that nothing is missing for the role, and nothing there that is not for it.
func (h *holding) complete(caKey, voterKey ed25519.PrivateKey) (*holding, error) {
	voter := h.peer.Role == Voter
	switch {
	case h.key == nil:
		return nil, fmt.Errorf("the private key of node %s is missing", h.peer.Node)
	case voter && (caKey == nil || voterKey == nil):
		return nil, errors.New("is a voter's, and the CA key or the voter key is missing")
	case !voter && (caKey != nil || voterKey != nil):
		return nil, errors.New("is an edge's, and holds a key that only voters may have")
	case voter:
		authority, err := adopt(h.cluster, caKey, voterKey)
		if err != nil {
			return nil, err
		}
		h.authority = authority
	}
	return h, nil
}

// checkGossipKeys checks a ring of keys: at least one, none twice.
func checkGossipKeys(keys [][]byte) error {
	if len(keys) == 0 || len(keys) > maxGossipKeys {
		return fmt.Errorf("gossip keys: there are %d, want 1 to %d", len(keys), maxGossipKeys)
	}
	for i, key := range keys {
		if len(key) != gossipKeySize {
			return fmt.Errorf("gossip key %d: has %d bytes, want %d", i+1, len(key), gossipKeySize)
		}
		if slices.ContainsFunc(keys[:i], func(other []byte) bool { return bytes.Equal(key, other) }) {
			return fmt.Errorf("gossip key %d: is there twice", i+1)
		}
	}
	return nil
}

// certificate is the chain for TLS. The CA comes along for those who know only
// its fingerprint.
func (h *holding) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{h.leaf.Raw, h.cluster.ca.Raw}, PrivateKey: h.key, Leaf: h.leaf}
}

// with gives the holding with another certificate of the same node and key.
func (h *holding) with(der []byte) (*holding, error) {
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("new certificate: %w", err)
	}
	next := *h
	next.leaf = leaf
	if err := next.readLeaf(); err != nil {
		return nil, fmt.Errorf("new certificate: %w", err)
	}
	if next.peer != h.peer {
		return nil, fmt.Errorf("new certificate: is for %s, want %s", next.peer, h.peer)
	}
	return &next, nil
}
