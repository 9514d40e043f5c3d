package kv

import (
	"bytes"
	"iter"
)

// differences yields, in the order of the keys, each entry of v beside that of
// next where the two differ; nil stands for none.
func (v View) differences(next View) iter.Seq2[*Entry, *Entry] {
	return func(yield func(before, after *Entry) bool) {
		old, now := v.walk(), next.walk()
		before, after := old(), now()
		for before != nil || after != nil {
			var goOn bool
			switch {
			case after == nil || before != nil && before.Key < after.Key:
				goOn = yield(before, nil)
				before = old()
			case before == nil || after.Key < before.Key:
				goOn = yield(nil, after)
				after = now()
			default:
				goOn = before.same(after) || yield(before, after)
				before, after = old(), now()
			}
			if !goOn {
				return
			}
		}
	}
}

// walk gives the entries in the order of their keys, one a call, then nil.
func (v View) walk() func() *Entry {
	iterator := v.begin().Root().Iterator()
	return func() *Entry {
		_, entry, _ := iterator.Next()
		return entry
	}
}

// same compares all that is stored of two entries of one key.
func (e *Entry) same(other *Entry) bool {
	return e == other || e.CreateRev == other.CreateRev && e.ModRev == other.ModRev && e.Version == other.Version &&
		e.By == other.By && e.Message == other.Message && e.At.Equal(other.At) && bytes.Equal(e.Value, other.Value)
}
