package kv

import (
	"fmt"
	"iter"
	"maps"
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
	return s.SetLocals(map[string][]byte{name: append([]byte{}, value...)})
}

// DeleteLocal removes a name. Removing an absent one changes nothing.
func (s *Store) DeleteLocal(name string) error {
	return s.SetLocals(map[string][]byte{name: nil})
}

// SetLocals sets names, or removes those whose value is nil: all of them, or none. It is as
// SetLocal otherwise, but that nobody may change the values or the map any more.
func (s *Store) SetLocals(values map[string][]byte) error {
	for name := range values {
		if name == "" || len(name) > MaxLocalNameBytes {
			return &KeyError{Key: name, Problem: fmt.Sprintf("a local name has 1 to %d bytes", MaxLocalNameBytes)}
		}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	local := s.local.Load()
	maps.DeleteFunc(values, func(name string, value []byte) bool {
		_, there := local.Get([]byte(name))
		return value == nil && !there
	})
	if len(values) == 0 {
		return nil
	}
	if s.disk != nil {
		if err := s.saveNow(func() error { return s.disk.saveLocals(local, values) }); err != nil {
			return err
		}
	}
	txn := local.Txn()
	for name, value := range values {
		if value == nil {
			txn.Delete([]byte(name))
			continue
		}
		txn.Insert([]byte(name), value)
	}
	s.local.Store(txn.CommitOnly())
	return nil
}
