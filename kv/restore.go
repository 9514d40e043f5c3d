package kv

import (
	"errors"
	"fmt"
	"math"

	bolt "go.etcd.io/bbolt"
)

// Restore puts a snapshot in the place of all that is shared: entries, head and
// request ids. It is on disk, synced, when Restore returns, as a whole or not at
// all, and only then do readers see it. Local values stay. The history begins at
// the snapshot's head: Changed is closed, and watchers that are elsewhere get a
// *CompactedError. Whether the snapshot is newer, or of the right epoch, is for the
// caller to decide.
//
// A state that is replaced by one of another epoch, or of another epoch's id, is
// first written beside the store's file, as lkg-EPOCH-REV.snap, for ReadSnapshot
// to read; of these files the newest few are kept.
//
// Errors: ErrDiskFull and ErrReadOnly as for Merge, ErrClosed, or why the replaced
// state could not be kept. After any error everything is what it was.
func (s *Store) Restore(snapshot *Snapshot) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	now, next := s.now.Load(), snapshot.state()
	if s.disk != nil {
		if err := s.saveNow(func() error { return s.disk.replace(now, next) }); err != nil {
			return err
		}
	}
	s.publish(next)
	return nil
}

// NewEpoch begins the next epoch on top of the present state, for a cluster that
// has lost its voters, or one that takes an older state for its present. Entries and
// request ids stay; the revision goes on counting, under the next epoch; the raft
// index is 0, because a new raft log begins; the history begins here, so that
// watchers get a *CompactedError. The hash covers that of the epoch before.
//
// epochID is drawn at random by the caller, so that two recoveries from one state
// differ. sign gives the signature of Head.SigningBytes; if it is nil the head
// is unsigned. Errors as for Restore.
func (s *Store) NewEpoch(epochID [16]byte, sign func(signingBytes []byte) [64]byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	now := s.now.Load()
	before := now.view.head
	if before.Rev.Epoch == math.MaxUint32 || epochID == before.EpochID || epochID == ([16]byte{}) {
		return fmt.Errorf("no epoch with id %x can follow epoch %d with id %x", epochID, before.Rev.Epoch, before.EpochID)
	}
	head := before.successor(epochID)
	if sign != nil {
		head.Signature = sign(head.SigningBytes())
	}
	next := &state{
		// No key changes, and the view says so to whoever asks what changed.
		view:    View{head: head, keys: now.view.keys, trail: now.view.trail.extend(before.Hash, nil)},
		history: history{base: head}, requests: now.requests, changed: make(chan struct{}),
	}
	if s.disk != nil {
		if err := s.saveNow(func() error { return s.disk.saveEpoch(now, next) }); err != nil {
			return err
		}
	}
	s.publish(next)
	return nil
}

// replace makes the file hold next, and keeps the state that it held if that is
// of another epoch.
func (d *disk) replace(old, next *state) error {
	if d.failed != nil {
		return d.failed
	}
	if was, is := old.view.head, next.view.head; was.Rev.Epoch != is.Rev.Epoch || was.EpochID != is.EpochID {
		if err := d.keep(old); err != nil {
			return err
		}
	}
	return d.update(func(tx *bolt.Tx, l *ledger) error {
		for before, after := range old.view.differences(next.view) {
			if err := saveDifference(tx, l, before, after); err != nil {
				return err
			}
		}
		return errors.Join(replaceRequests(tx, l, next.requests), beginHistory(tx, l, next))
	})
}

func saveDifference(tx *bolt.Tx, l *ledger, before, after *Entry) error {
	if after == nil {
		return saveEffect(tx, l, Effect{Entry: Entry{Key: before.Key}, Deleted: true}, before)
	}
	return saveEffect(tx, l, Effect{Entry: *after}, before)
}

func replaceRequests(tx *bolt.Tx, l *ledger, next requests) error {
	l.requests = tally{}
	bucket, err := emptied(tx, bucketRequests)
	if err != nil {
		return err
	}
	for _, r := range next.ordered {
		if err := saveRequest(bucket, l, r); err != nil {
			return err
		}
	}
	return nil
}

// saveEpoch lets the history begin at the head of next, which differs from old
// in nothing else.
func (d *disk) saveEpoch(old, next *state) error {
	return d.update(func(tx *bolt.Tx, l *ledger) error {
		return errors.Join(beginHistory(tx, l, next), saveRequests(tx, l, old, next))
	})
}

func beginHistory(tx *bolt.Tx, l *ledger, next *state) error {
	l.head, l.base = next.view.head, next.history.base
	_, err := emptied(tx, bucketHistory)
	return err
}

// emptied replaces a bucket by an empty one.
func emptied(tx *bolt.Tx, name []byte) (*bolt.Bucket, error) {
	if err := tx.DeleteBucket(name); err != nil {
		return nil, err
	}
	return tx.CreateBucket(name)
}
