package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/kv"
)

// ErrNoMember is returned by Open for a node that has neither founded nor
// joined a cluster yet.
var ErrNoMember = errors.New("this node is a member of no cluster")

// Options are the same for founding, joining and opening.
type Options struct {
	// Path is the file that holds the identity; "" keeps it in memory.
	Path string
	// Node is the node's id.
	Node string
	// Insecure leaves TLS out; then only loopback addresses are allowed.
	Insecure bool
	// Denied reports whether a node was revoked; nil: none is. It is asked in
	// each handshake and must be quick.
	Denied func(node string) bool
}

// Identity is who this node is: a member of a cluster.
type Identity struct {
	options   Options
	cluster   *Cluster
	authority *Authority // nil on an edge
	key       ed25519.PrivateKey
	self      Peer

	// mu makes changes one after the other, in the file and in now.
	mu  sync.Mutex
	now atomic.Pointer[holding]
}

// Found founds a cluster, of which this node is the first voter. A node that is
// a member already is refused.
func Found(o Options) (*Identity, error) {
	h, err := o.load()
	if err == nil && h.cluster != nil {
		return nil, fmt.Errorf("founding a cluster: this node is a member of cluster %s", h.cluster.id)
	}
	key, err := o.keyOf(h, err)
	if err != nil {
		return nil, err
	}
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	der, err := authority.issue(o.Node, Voter, key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	gossipKey := make([]byte, gossipKeySize)
	rand.Read(gossipKey)
	self := Peer{Node: o.Node, Role: Voter, Key: PublicKey(key.Public().(ed25519.PublicKey))}
	return o.take(key, self, admission{authority.cluster, authority.caKey, authority.voterKey, der, [][]byte{gossipKey}})
}

// Open reads who this node is. It returns ErrNoMember if it is a member of no
// cluster. A certificate that is over is no error: the node serves without its
// peers until it is renewed.
func Open(o Options) (*Identity, error) {
	h, err := o.load()
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && h.cluster == nil:
		return nil, ErrNoMember
	case err != nil:
		return nil, err
	case h.peer.Node != o.Node:
		return nil, fmt.Errorf("identity %q: is that of node %s, and this is node %s; a copied data directory needs an id and an identity of its own",
			o.Path, h.peer.Node, o.Node)
	}
	return o.identity(h), nil
}

func (o Options) load() (*holding, error) {
	if err := CheckNodeID(o.Node); err != nil {
		return nil, err
	}
	return load(o.Path)
}

// keyOf gives the node's key from what load returned, or makes one and saves it
// before anybody hears of it. It is a node's for life: its id is bound to it.
func (o Options) keyOf(h *holding, err error) (ed25519.PrivateKey, error) {
	switch {
	case err == nil:
		return h.key, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return key, save(o.Path, &holding{key: key})
}

func newKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// admission is what makes a node a member.
type admission struct {
	cluster         *Cluster
	caKey, voterKey ed25519.PrivateKey // nil for an edge
	certificate     []byte
	gossip          [][]byte
}

// take makes an admission this node's, on disk first, if it is that of self.
func (o Options) take(key ed25519.PrivateKey, self Peer, a admission) (*Identity, error) {
	leaf, err := x509.ParseCertificate(a.certificate)
	if err != nil {
		return nil, err
	}
	b := blocks{cas: []*x509.Certificate{a.cluster.ca}, leaves: []*x509.Certificate{leaf}, gossip: a.gossip}
	for _, key := range []ed25519.PrivateKey{key, a.caKey, a.voterKey} {
		if key != nil {
			b.keys = append(b.keys, key)
		}
	}
	h, err := b.assemble()
	if err != nil {
		return nil, err
	}
	if h.peer != self {
		return nil, fmt.Errorf("the certificate is for %s, want %s", h.peer, self)
	}
	if err := save(o.Path, h); err != nil {
		return nil, err
	}
	return o.identity(h), nil
}

func (o Options) identity(h *holding) *Identity {
	i := &Identity{options: o, cluster: h.cluster, authority: h.authority, key: h.key, self: h.peer}
	i.now.Store(h)
	return i
}

// Node is this node's id.
func (i *Identity) Node() string { return i.self.Node }

// Role is this node's role.
func (i *Identity) Role() Role { return i.self.Role }

// Self is how peers see this node.
func (i *Identity) Self() Peer { return i.self }

// Cluster is what this node knows of its cluster.
func (i *Identity) Cluster() *Cluster { return i.cluster }

// Authority is what only a voter holds; nil on an edge.
func (i *Identity) Authority() *Authority { return i.authority }

// Insecure reports whether connections go without TLS.
func (i *Identity) Insecure() bool { return i.options.Insecure }

// Verify checks that a voter of this cluster signed the head.
func (i *Identity) Verify(head kv.Head) error { return i.cluster.Verify(head) }

// Expires is when this node's certificate is over.
func (i *Identity) Expires() time.Time { return i.now.Load().leaf.NotAfter }

// GossipKeys are the keys of gossip, 32 bytes each, the one to encrypt with
// first.
func (i *Identity) GossipKeys() [][]byte {
	keys := slices.Clone(i.now.Load().gossip)
	for n := range keys {
		keys[n] = slices.Clone(keys[n])
	}
	return keys
}

// SetGossipKeys keeps other keys of gossip, on disk when it returns.
func (i *Identity) SetGossipKeys(keys [][]byte) error {
	if err := checkGossipKeys(keys); err != nil {
		return err
	}
	return i.change(func(h *holding) (*holding, error) {
		next := *h
		next.gossip = nil
		for _, key := range keys {
			next.gossip = append(next.gossip, slices.Clone(key))
		}
		return &next, nil
	})
}

// change replaces what the node holds: on disk, then for readers.
func (i *Identity) change(to func(*holding) (*holding, error)) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	next, err := to(i.now.Load())
	if err == nil {
		err = save(i.options.Path, next)
	}
	if err != nil {
		return err
	}
	i.now.Store(next)
	return nil
}

// denied reports whether a node was revoked.
func (i *Identity) denied(node string) bool {
	return i.options.Denied != nil && i.options.Denied(node)
}
