package kv

import "strings"

// find looks among the ephemeral keys.
func (o owned) find(key Key) *Entry {
	if o.keys == nil {
		return nil
	}
	entry, _ := o.keys.Get([]byte(key))
	return entry
}

// below gives the entries that prefix covers, one a call, in order.
func (o owned) below(prefix string) func() (*Entry, bool) {
	if o.keys == nil {
		return func() (*Entry, bool) { return nil, false }
	}
	below := prefix
	var first *Entry
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		first, below = o.find(Key(prefix)), prefix+"/"
	}
	walk := o.keys.Root().Iterator()
	walk.SeekPrefix([]byte(below))
	return func() (*Entry, bool) {
		if entry := first; entry != nil {
			first = nil
			return entry, true
		}
		_, entry, ok := walk.Next()
		return entry, ok
	}
}
