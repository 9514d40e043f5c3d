package gateway

import (
	"iter"
	"strings"

	"github.com/benbjohnson/immutable"
)

// index is a persistent map from keys to values, in the order of the keys. A
// changed one shares what did not change, so that a change costs the same in a
// table of any size. The zero index is empty.
type index[T any] struct {
	tree *immutable.SortedMap[string, T]
}

// get gives the value of key, zero if there is none.
func (x index[T]) get(key string) (value T) {
	if x.tree != nil {
		value, _ = x.tree.Get(key)
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
		walk := x.tree.Iterator()
		walk.Seek(prefix)
		for key, value, ok := walk.Next(); ok && strings.HasPrefix(key, prefix); key, value, ok = walk.Next() {
			if !yield(key, value) {
				return
			}
		}
	}
}

// indexEdit is a series of changes to an index.
type indexEdit[T any] struct {
	index[T]
	// builder holds everything when the index was empty at first: it need not
	// copy what nobody else has seen.
	builder *immutable.SortedMapBuilder[string, T]
}

func (x index[T]) edit() *indexEdit[T] {
	if x.len() > 0 {
		return &indexEdit[T]{index: x}
	}
	return &indexEdit[T]{builder: immutable.NewSortedMapBuilder[string, T](nil)}
}

func (e *indexEdit[T]) get(key string) (value T) {
	if e.builder != nil {
		value, _ = e.builder.Get(key)
		return value
	}
	return e.index.get(key)
}

func (e *indexEdit[T]) set(key string, value T) {
	if e.builder != nil {
		e.builder.Set(key, value)
		return
	}
	e.tree = e.tree.Set(key, value)
}

func (e *indexEdit[T]) del(key string) {
	if e.builder != nil {
		e.builder.Delete(key)
		return
	}
	e.tree = e.tree.Delete(key)
}

// now is the index as it stands. What is set later is not in it.
func (e *indexEdit[T]) now() index[T] {
	if e.builder != nil {
		e.index, e.builder = index[T]{e.builder.Map()}, nil
	}
	return e.index
}
