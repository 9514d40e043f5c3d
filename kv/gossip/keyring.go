package gossip

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/memberlist"
)

// KeyBytes is the length of a gossip key: AES-256.
const KeyBytes = 32

// maxKeys is how many gossip keys a node has at once: the one it encrypts with and
// one more, which is the next or the last one. memberlist removes a key by moving
// those behind it within the very array from which its receivers read. With two
// keys there is none behind, and nothing moves.
const maxKeys = 2

var (
	// ErrKeyUnknown is returned for a key that the node does not have.
	ErrKeyUnknown = errors.New("gossip key is not known here")
	// ErrKeyInUse is returned when the key is to go that messages are encrypted with.
	ErrKeyInUse = errors.New("gossip key is in use")
	// ErrKeysFull is returned when there is no room for another key.
	ErrKeysFull = errors.New("there are two gossip keys already: one has to be removed first")
	// ErrNotEncrypted is returned by a node that began without keys.
	ErrNotEncrypted = errors.New("gossip is not encrypted")
)

// keyring changes memberlist's keys. It is empty for gossip in the clear.
type keyring struct {
	mu   sync.Mutex // one change at a time
	ring *memberlist.Keyring
}

func newKeyring(keys [][]byte) (*keyring, error) {
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("%d gossip keys: at most %d are allowed", len(keys), maxKeys)
	}
	for _, key := range keys {
		if err := checkKey(key); err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 {
		return &keyring{}, nil
	}
	ring, err := memberlist.NewKeyring(keys[1:], keys[0])
	return &keyring{ring: ring}, err
}

func checkKey(key []byte) error {
	if len(key) != KeyBytes {
		return fmt.Errorf("gossip key has %d bytes: want %d", len(key), KeyBytes)
	}
	return nil
}

// AddKey makes messages readable that are encrypted with another key. To replace a
// key: add the new one on all nodes, then UseKey on all, then RemoveKey of the old.
// Errors: ErrKeysFull, ErrNotEncrypted. A key that is there is no error.
func (p *Peer) AddKey(key []byte) error {
	return p.keys.change(key, func(have bool) error {
		if have {
			return nil
		}
		if len(p.keys.ring.GetKeys()) == maxKeys {
			return ErrKeysFull
		}
		return p.keys.ring.AddKey(key)
	})
}

// UseKey encrypts with a key that was added before. Errors: ErrKeyUnknown,
// ErrNotEncrypted.
func (p *Peer) UseKey(key []byte) error {
	return p.keys.change(key, func(have bool) error {
		if !have {
			return ErrKeyUnknown
		}
		return p.keys.ring.UseKey(key)
	})
}

// RemoveKey forgets a key. Errors: ErrKeyInUse, ErrNotEncrypted. A key that is
// not there is no error.
func (p *Peer) RemoveKey(key []byte) error {
	return p.keys.change(key, func(have bool) error {
		switch {
		case !have:
			return nil
		case string(p.keys.ring.GetPrimaryKey()) == string(key):
			return ErrKeyInUse
		}
		return p.keys.ring.RemoveKey(key)
	})
}

// change runs f with whether the key is there, one at a time.
func (k *keyring) change(key []byte, f func(have bool) error) error {
	if k.ring == nil {
		return ErrNotEncrypted
	}
	if err := checkKey(key); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, have := range k.ring.GetKeys() {
		if string(have) == string(key) {
			return f(true)
		}
	}
	return f(false)
}
