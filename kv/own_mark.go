package kv

import (
	"bytes"
	"encoding/binary"
)

// OwnerMark is how far the keys of an owner are here, shown or not. known is false of an
// owner that nobody has heard of, or that was purged: nothing of it will be shown. A
// View that is taken after the call has at least that.
func (s *Store) OwnerMark(owner OwnerID) (mark OwnerMark, known bool) {
	s.plane.mu.Lock()
	defer s.plane.mu.Unlock()
	l := s.plane.owners[owner]
	if l == nil || l.purged {
		return OwnerMark{}, false
	}
	return l.mark, true
}

// HasOwned tells whether a view has all that another one of the same store has of
// ephemeral keys, or what followed it.
func (v View) HasOwned(other View) bool {
	ours, theirs := v.own.mark, other.own.mark
	if theirs == (Hash{}) {
		return true
	}
	const origin = 16 // see plane.nextMark
	return bytes.Equal(ours[:origin], theirs[:origin]) &&
		binary.BigEndian.Uint64(ours[origin:]) >= binary.BigEndian.Uint64(theirs[origin:])
}
