package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
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
	setting sync.Mutex // one SetKeys at a time
	mu      sync.Mutex // one change at a time
	ring    *memberlist.Keyring
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

// SetKeys changes the keys to one or two others: messages are encrypted with the
// first, and read with both. To replace a key k by n without losing anybody, give all
// nodes k, n, then all n, k, then all n. Errors: ErrNotEncrypted, or what is wrong with
// a key; then nothing has changed.
func (p *Peer) SetKeys(keys ...[]byte) error {
	if len(keys) == 0 {
		return errors.New("gossip keys: there is none")
	}
	if _, err := newKeyring(keys); err != nil {
		return err
	}
	if p.keys.ring == nil {
		return ErrNotEncrypted
	}
	p.keys.setting.Lock()
	defer p.keys.setting.Unlock()
	isMeant := func(key []byte) bool {
		return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	if now := p.keys.ring.GetKeys(); len(now) == maxKeys && !bytes.Equal(now[0], keys[0]) && !bytes.Equal(now[1], keys[0]) {
		// Room for the first, at the cost of what is not meant.
		stays, goes := now[0], now[1]
		if isMeant(now[1]) {
			stays, goes = now[1], now[0]
		}
		if err := errors.Join(p.useKey(stays), p.removeKey(goes)); err != nil {
			return err
		}
	}
	if err := errors.Join(p.addKey(keys[0]), p.useKey(keys[0])); err != nil {
		return err
	}
	for _, key := range p.keys.ring.GetKeys()[1:] {
		if !isMeant(key) {
			if err := p.removeKey(key); err != nil {
				return err
			}
		}
	}
	return p.addKey(keys[len(keys)-1])
}

// addKey makes messages readable that are encrypted with another key. Errors:
// ErrKeysFull, ErrNotEncrypted. A key that is there is no error.
func (p *Peer) addKey(key []byte) error {
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

// useKey encrypts with a key that was added before. Errors: ErrKeyUnknown,
// ErrNotEncrypted.
func (p *Peer) useKey(key []byte) error {
	return p.keys.change(key, func(have bool) error {
		if !have {
			return ErrKeyUnknown
		}
		return p.keys.ring.UseKey(key)
	})
}

// removeKey forgets a key. Errors: ErrKeyInUse, ErrNotEncrypted. A key that is
// not there is no error.
func (p *Peer) removeKey(key []byte) error {
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
