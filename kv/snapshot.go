package kv

import "slices"

// Snapshot is everything that stores share, at one revision: the entries, the
// head, and the newest request ids. It is immutable and stays what it is while
// writes go on. Two stores that merged the same commits give equal snapshots,
// byte for byte, whatever history they keep.
//
// The signature of its head does not cover the entries: the hash that is signed
// is over what the commits did. So a snapshot is worth as much trust as whoever
// gave it, and a voter's is the one to take.
type Snapshot struct {
	view     View
	requests requests
}

// Snapshot takes one of the newest state. It costs nothing until it is written.
func (s *Store) Snapshot() *Snapshot {
	now := s.now.Load()
	return &Snapshot{view: View{head: now.view.head, keys: now.view.keys}, requests: now.requests}
}

// Head is where in history the snapshot was taken.
func (s *Snapshot) Head() Head { return s.view.head }

// View is the state in the snapshot, to be looked at before it is restored. It
// does not know what changed on the way to it.
func (s *Snapshot) View() View { return s.view }

// state is that of a store right after the snapshot was restored. It shares no
// slice with the store that the snapshot is from, which may go on to extend its own.
func (s *Snapshot) state() *state {
	return &state{
		view:     s.view,
		history:  history{base: s.view.head},
		requests: requests{byID: s.requests.byID, ordered: slices.Clip(s.requests.ordered)},
		changed:  make(chan struct{}),
	}
}
