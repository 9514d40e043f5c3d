package identity

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// RingKey is where the Ring of the cluster stands in its store.
const RingKey = "cluster/keyring"

// RingPhase says how far the replacement of a gossip key has come.
type RingPhase string

// The phases in their order. Each is to be true on all living nodes before the next
// one begins, so that at no moment two of them don't understand each other.
const (
	RingAdd  RingPhase = "add"  // nodes learn the next key, and encrypt with the last one
	RingUse  RingPhase = "use"  // nodes encrypt with the next key, and still read the last one
	RingDone RingPhase = "done" // there is one key
)

// ringPhases gives each phase its number, and how many keys there are in it.
var ringPhases = map[RingPhase]struct{ number, keys int }{RingAdd: {1, 2}, RingUse: {2, 2}, RingDone: {3, 1}}

// Ring says which gossip keys a cluster has. It holds none of them, so that everybody
// may read it. A voter makes each key that is not the first one of the cluster from the
// voter key and a salt that the Ring names; an edge asks for it. It is signed, so that a
// node which has lost touch with all others can take it from anybody.
type Ring struct {
	// Generation counts the keys that the cluster has had; the first one is 0.
	Generation uint64    `json:"generation"`
	Phase      RingPhase `json:"phase"`
	// Keys are those of the phase, the one to encrypt with first.
	Keys []RingEntry `json:"keys"`
	// Again says that the next rotation is to begin when this one is done.
	Again bool `json:"again,omitempty"`
}

// RingEntry names a gossip key.
type RingEntry struct {
	ID   string `json:"id"`             // see GossipKeyID
	Salt string `json:"salt,omitempty"` // in hexadecimal digits; empty: it is the first key, which was drawn
}

// signedRing is a Ring as it is stored.
type signedRing struct {
	Ring      json.RawMessage `json:"ring"`
	Signature string          `json:"signature"` // by the voter key, in hexadecimal digits
}

const (
	ringContext = "grapevine keyring\x00"    // in front of what is signed
	ringInfo    = "grapevine gossip key\x00" // of HKDF, and in front of what an id is the hash of
	saltBytes   = 32
)

// GossipKeyID names a gossip key: the front of its hash. A key has 256 random bits, of
// which the name tells nothing.
func GossipKeyID(key []byte) string {
	hash := sha256.Sum256(append([]byte(ringInfo), key...))
	return hex.EncodeToString(hash[:8])
}

// Compare orders rings of one cluster by age.
func (r Ring) Compare(other Ring) int {
	return cmp.Or(cmp.Compare(r.Generation, other.Generation), cmp.Compare(ringPhases[r.Phase].number, ringPhases[other.Phase].number))
}

// Names reports whether a key of this id is one of the ring's.
func (r Ring) Names(id string) bool {
	return slices.ContainsFunc(r.Keys, func(e RingEntry) bool { return e.ID == id })
}

// Ring is what this node has when its cluster's store says nothing of keys: those that
// it was founded, or let in, with.
func (i *Identity) Ring() Ring {
	return Ring{Phase: RingDone, Keys: []RingEntry{{ID: GossipKeyID(i.now.Load().gossip[0])}}}
}

// Rotate begins to replace the gossip key, or has another rotation follow one that is
// under way.
func (a *Authority) Rotate(r Ring) (Ring, error) {
	if r.Phase != RingDone {
		r.Again = true
		return r, nil
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	key, err := a.gossipKey(salt)
	next := RingEntry{ID: GossipKeyID(key), Salt: hex.EncodeToString(salt)}
	return Ring{Generation: r.Generation + 1, Phase: RingAdd, Keys: []RingEntry{r.Keys[0], next}}, err
}

// Advance is the ring of the next phase; that of a rotation that is done is itself.
func (r Ring) Advance() Ring {
	switch r.Phase {
	case RingAdd:
		r.Phase, r.Keys = RingUse, []RingEntry{r.Keys[1], r.Keys[0]}
	case RingUse:
		r.Phase, r.Keys = RingDone, r.Keys[:1]
	}
	return r
}

// gossipKey makes the key of a salt. Whoever has the voter key can make it, and so no
// key is lost with the one who began its rotation.
func (a *Authority) gossipKey(salt []byte) ([]byte, error) {
	return hkdf.Key(sha256.New, a.voterKey.Seed(), salt, ringInfo, gossipKeySize)
}

// EncodeRing signs a ring and gives its value in the store.
func (a *Authority) EncodeRing(r Ring) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	signature := ed25519.Sign(a.voterKey, append([]byte(ringContext), body...))
	return json.Marshal(signedRing{Ring: body, Signature: hex.EncodeToString(signature)})
}

// DecodeRing reads a ring that a voter of the cluster has signed.
func (c *Cluster) DecodeRing(value []byte) (Ring, error) {
	r, err := c.decodeRing(value)
	if err != nil {
		return Ring{}, fmt.Errorf("%s: %w", RingKey, err)
	}
	return r, nil
}

func (c *Cluster) decodeRing(value []byte) (r Ring, err error) {
	var signed signedRing
	if err := decodeStrictly(value, &signed); err != nil {
		return r, err
	}
	signature, err := hex.DecodeString(signed.Signature)
	if err != nil || len(signature) != ed25519.SignatureSize || !ed25519.Verify(c.voterKey, append([]byte(ringContext), signed.Ring...), signature) {
		return r, fmt.Errorf("its signature is not by the voter key %x of cluster %s", c.voterKey[:8], c.id)
	}
	if err := json.Unmarshal(signed.Ring, &r); err != nil { // a later version may have signed more
		return r, err
	}
	return r, r.check()
}

func decodeStrictly(data []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(value); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has something after its value")
	}
	return nil
}

func (r Ring) check() error {
	phase, known := ringPhases[r.Phase]
	if !known || len(r.Keys) != phase.keys || r.Generation == 0 {
		return fmt.Errorf("generation %d, phase %q with %d keys: makes no sense", r.Generation, shorten(string(r.Phase)), len(r.Keys))
	}
	for _, e := range r.Keys {
		if salt, err := hex.DecodeString(e.Salt); err != nil || len(salt) != 0 && len(salt) != saltBytes {
			return fmt.Errorf("key %s: its salt is not one of %d bytes", shorten(e.ID), saltBytes)
		}
	}
	return nil
}

// RingKeys are the keys of a ring, in its order, of those that this node holds, can
// make, or was given. missing are the ids of the others.
func (i *Identity) RingKeys(r Ring, given [][]byte) (keys [][]byte, missing []string, err error) {
	held := slices.Concat(i.GossipKeys(), given)
	for _, e := range r.Keys {
		at := slices.IndexFunc(held, func(key []byte) bool { return len(key) == gossipKeySize && GossipKeyID(key) == e.ID })
		switch {
		case at >= 0:
			keys = append(keys, held[at])
		case i.authority != nil && e.Salt != "":
			salt, err := hex.DecodeString(e.Salt)
			if err != nil {
				return nil, nil, err
			}
			key, err := i.authority.gossipKey(salt)
			if err != nil {
				return nil, nil, err
			}
			if GossipKeyID(key) != e.ID {
				return nil, nil, fmt.Errorf("gossip key %s: is not made of its salt", shorten(e.ID))
			}
			keys = append(keys, key)
		default:
			missing = append(missing, e.ID)
		}
	}
	return keys, missing, nil
}
