package kv

import (
	"fmt"
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// MaxLocalNameBytes bounds a local name. It leaves room for a whole key and a
// word in front of it.
const MaxLocalNameBytes = 2 * MaxKeyBytes

// Local returns a value that this node keeps for itself. Local values are
// durable and never leave the node; they have no revision and no history. Nobody
// may change the bytes.
func (s *Store) Local(name string) ([]byte, bool) {
	return s.local.Load().Get([]byte(name))
}

// LocalUnder yields the local names that prefix covers, as Under says, in order,
// as they were when the loop began.
func (s *Store) LocalUnder(prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for name, value := range pairsUnder(s.local.Load().Root(), prefix) {
			if !yield(name, value) {
				return
			}
		}
	}
}

// SetLocal keeps a value under a name of 1 to MaxLocalNameBytes bytes of any
// kind. It is on disk, synced, when SetLocal returns. Errors as for Merge, and a
// *KeyError for a bad name.
func (s *Store) SetLocal(name string, value []byte) error {
	if name == "" || len(name) > MaxLocalNameBytes {
		return &KeyError{Key: name, Problem: fmt.Sprintf("a local name has 1 to %d bytes", MaxLocalNameBytes)}
	}
	value = append([]byte{}, value...)
	return s.changeLocal(name, value)
}

// DeleteLocal removes a name. Removing an absent one changes nothing.
func (s *Store) DeleteLocal(name string) error {
	return s.changeLocal(name, nil)
}

// changeLocal sets a name, or removes it if value is nil.
func (s *Store) changeLocal(name string, value []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	local := s.local.Load()
	old, there := local.Get([]byte(name))
	if !there && value == nil {
		return nil
	}
	if s.disk != nil {
		if err := s.saveNow(func() error { return s.disk.saveLocal(name, old, value) }); err != nil {
			return err
		}
	}
	s.local.Store(replaced(local, name, value))
	return nil
}

func replaced(tree *iradix.Tree[[]byte], name string, value []byte) *iradix.Tree[[]byte] {
	if value == nil {
		tree, _, _ = tree.Delete([]byte(name))
		return tree
	}
	tree, _, _ = tree.Insert([]byte(name), value)
	return tree
}
