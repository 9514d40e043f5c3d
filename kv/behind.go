package kv

import (
	"errors"
	"sync"
	"time"
)

const (
	// maxUnsaved is how many calls of MergeSoon may be ahead of the disk. The next
	// one waits for it.
	maxUnsaved = 256
	// SaveWithin bounds how long a store that is told to gather what it writes
	// waits for more.
	SaveWithin = 50 * time.Millisecond
)

// behind is what readers see and the file has not yet.
type behind struct {
	// saving is held while the file is written; who holds the store's writing may
	// take it, not the other way round.
	saving sync.Mutex

	mu      sync.Mutex // guards all below
	unsaved []steps
	// busy says that a goroutine is on its way to save them.
	busy bool
	// failed is why the last try did not, nil if it did.
	failed error
}

// steps are what one merge adds to the file.
type steps struct {
	added, dropped []*step
	old, next      *state
}

// Soon says when the file has what MergeSoon lets readers see.
type Soon struct {
	// Gather is how long it is waited for more to write, 0 to SaveWithin.
	Gather time.Duration
	// Failed, if set, is told why the file could not be written afterwards. It is
	// called in a goroutine of its own, and the store is not closed before it returns.
	Failed func(error)
}

// MergeSoon is Merge for who can bring the commits again after a crash: readers see
// them when it returns, and the file has them some moments later. A store that
// crashed before is as if they had never been merged: at an earlier revision, and
// whole.
//
// It is for commits that are on disk elsewhere: in raft's log, or on the nodes that
// a lost tail is pulled from. After the file could not be written it is as Merge,
// until that succeeds: nobody sees what can't be written. Flush waits for what is
// under way.
//
// Errors as for Merge.
func (s *Store) MergeSoon(soon Soon, commits ...Commit) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	next, change, err := s.prepare(commits)
	if err != nil || next == nil {
		return err
	}
	if s.disk != nil && !s.later(change, soon) {
		if err := s.save(change); err != nil {
			return err
		}
	}
	s.publish(next)
	return nil
}

// Flush returns when the file has all that readers saw before the call. Errors are
// those of Merge.
func (s *Store) Flush() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	switch {
	case s.isClosed():
		return ErrClosed
	case s.disk == nil:
		return nil
	}
	s.behind.saving.Lock()
	defer s.behind.saving.Unlock()
	return s.catchUp()
}

// later leaves a change to a goroutine, and reports whether it could.
func (s *Store) later(change steps, soon Soon) bool {
	b := &s.behind
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil || len(b.unsaved) >= maxUnsaved {
		return false
	}
	b.unsaved = append(b.unsaved, change)
	if !b.busy {
		b.busy = true
		s.savers.Go(func() { s.saveLater(soon) })
	}
	return true
}

// saveLater writes what is unsaved until nothing is, or the disk fails.
func (s *Store) saveLater(soon Soon) {
	if soon.Gather > 0 {
		select {
		case <-time.After(min(soon.Gather, SaveWithin)):
		case <-s.closed: // Close waits
		}
	}
	for more := true; more; {
		s.behind.saving.Lock()
		err := s.catchUp()
		s.behind.saving.Unlock()
		if more = s.behind.goesOn(err); err != nil && soon.Failed != nil {
			soon.Failed(err)
		}
	}
}

// goesOn reports whether there is more to save, and else lets the next change
// begin anew.
func (b *behind) goesOn(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = err == nil && len(b.unsaved) > 0
	return b.busy
}

// save writes what is unsaved and one change more.
func (s *Store) save(change steps) error {
	return s.saveNow(func() error { return s.disk.saveSteps(change) })
}

// saveNow changes the file in its turn, which is after what is unsaved. It is for
// holders of writing.
func (s *Store) saveNow(change func() error) error {
	s.behind.saving.Lock()
	defer s.behind.saving.Unlock()
	if err := s.catchUp(); err != nil {
		return err
	}
	return change()
}

// catchUp writes what is unsaved, in one transaction. After an error it is unsaved
// still. It is for holders of saving.
func (s *Store) catchUp() error {
	b := &s.behind
	b.mu.Lock()
	unsaved := b.unsaved
	b.mu.Unlock()
	if len(unsaved) == 0 {
		return nil
	}
	err := s.disk.saveSteps(unsaved...)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = err
	if err == nil {
		b.unsaved = b.unsaved[len(unsaved):]
	}
	return err
}

// finish writes what is unsaved and closes the file. That the file could not be
// written has been told before. It is for Close.
func (s *Store) finish() error {
	s.savers.Wait()
	s.behind.saving.Lock()
	defer s.behind.saving.Unlock()
	told := s.behind.failed != nil
	err := s.catchUp()
	if told {
		err = nil
	}
	return errors.Join(err, s.disk.close())
}
