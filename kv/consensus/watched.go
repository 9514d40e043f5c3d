package consensus

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// backend is where raft's log and votes are: a file, or memory.
type backend interface {
	raft.LogStore
	raft.StableStore
	close() error
}

// termName is raft's name for its term, which is the one value that raft panics
// on if it can't be written.
const termName = "CurrentTerm"

// watchedStore is what raft sees of its backend: one that never makes raft panic,
// that tells of its failures, and is under a watchdog.
type watchedStore struct {
	backend
	snapshots raft.SnapshotStore
	watch     *watchdog
	failed    func(error)
	// ending is closed when the instance of raft is to end, running set once it
	// has begun.
	ending  chan struct{}
	running atomic.Bool
}

// IsMonotonic makes raft drop the whole log when it takes another's snapshot.
// Otherwise it would keep an entry of a lost term at the snapshot's index, and
// refuse all that follows (hashicorp/raft #697).
func (s *watchedStore) IsMonotonic() bool { return true }

// GetLog also answers for the last entry of the newest snapshot, which a leader
// compares the term of when it looks for the point where two logs part. Without
// the log before, raft would not know it. An entry that can't be read ends the
// goroutine of raft's that asked, since raft would end the process.
func (s *watchedStore) GetLog(index uint64, entry *raft.Log) error {
	err := s.backend.GetLog(index, entry)
	if err == nil {
		return nil
	}
	if !errors.Is(err, raft.ErrLogNotFound) {
		return s.giveUp(err)
	}
	metas, listErr := s.snapshots.List()
	if listErr != nil || len(metas) == 0 || metas[0].Index != index {
		return err
	}
	*entry = raft.Log{Index: index, Term: metas[0].Term, Type: raft.LogNoop}
	return nil
}

func (s *watchedStore) StoreLog(entry *raft.Log) error { return s.StoreLogs([]*raft.Log{entry}) }

func (s *watchedStore) StoreLogs(entries []*raft.Log) error {
	return s.write(func() error { return s.backend.StoreLogs(entries) })
}

func (s *watchedStore) DeleteRange(low, high uint64) error {
	return s.write(func() error { return s.backend.DeleteRange(low, high) })
}

func (s *watchedStore) Set(name, value []byte) error {
	return s.write(func() error { return s.backend.Set(name, value) })
}

func (s *watchedStore) SetUint64(name []byte, value uint64) error {
	err := s.write(func() error { return s.backend.SetUint64(name, value) })
	if err != nil && string(name) == termName {
		return s.giveUp(err)
	}
	return err
}

func (s *watchedStore) write(do func() error) error {
	defer s.watch.enter()()
	err := do()
	if err != nil {
		s.tell(err)
	}
	return err
}

func (s *watchedStore) tell(err error) {
	if s.running.Load() {
		s.failed(err)
	}
}

// giveUp keeps raft's goroutine from going on with what it can't, and ends it
// with the instance. Before the instance runs, the error goes to whoever starts it.
func (s *watchedStore) giveUp(err error) error {
	if !s.running.Load() {
		return err
	}
	s.tell(err)
	<-s.ending
	runtime.Goexit()
	return nil
}
