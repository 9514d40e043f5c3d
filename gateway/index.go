package gateway

import (
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// index is a persistent map from keys to values, in the order of the keys. A
// changed one shares what did not change, so that a change costs the same in a
// table of any size. The zero index is empty.
type index[T any] struct{ tree *iradix.Tree[T] }

// get gives the value of key, zero if there is none.
func (x index[T]) get(key string) (value T) {
	if x.tree != nil {
		value, _ = x.tree.Get([]byte(key))
	}
	return value
}

func (x index[T]) len() int {
	if x.tree == nil {
		return 0
	}
	return x.tree.Len()
}

// under yields what has a key with the prefix, in order.
func (x index[T]) under(prefix string) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		if x.tree == nil {
			return
		}
		walk := x.tree.Root().Iterator()
		walk.SeekPrefix([]byte(prefix))
		for key, value, ok := walk.Next(); ok; key, value, ok = walk.Next() {
			if !yield(string(key), value) {
				return
			}
		}
	}
}

// indexEdit is a series of changes to an index.
type indexEdit[T any] struct{ txn *iradix.Txn[T] }

func (x index[T]) edit() indexEdit[T] {
	if x.tree == nil {
		return indexEdit[T]{iradix.New[T]().Txn()}
	}
	return indexEdit[T]{x.tree.Txn()}
}

func (e indexEdit[T]) get(key string) (value T) {
	value, _ = e.txn.Get([]byte(key))
	return value
}

func (e indexEdit[T]) set(key string, value T) { e.txn.Insert([]byte(key), value) }

func (e indexEdit[T]) del(key string) { e.txn.Delete([]byte(key)) }

// now is the index with the changes so far.
func (e indexEdit[T]) now() index[T] { return index[T]{e.txn.Clone().CommitOnly()} }

func (e indexEdit[T]) done() index[T] { return index[T]{e.txn.CommitOnly()} }
