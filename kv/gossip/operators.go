package gossip

import (
	"fmt"
	"io"
	"sync/atomic"

	"grapevine/kv"
)

// historyStep is how many commits are asked of the store at once.
const historyStep = 64

// operators spreads the operators' keys of a store.
type operators struct {
	store  *kv.Store
	verify func(kv.Head) error
	// last is the change that was encoded last: the newest one goes to all
	// neighbours at once.
	last atomic.Pointer[encoded]
}

type encoded struct {
	hash   kv.Hash
	change []byte
}

// encode gives the bytes of a commit, which nobody may change.
func (o *operators) encode(commit kv.Commit) []byte {
	if last := o.last.Load(); last != nil && last.hash == commit.Hash {
		return last.change
	}
	change := kv.AppendCommit(nil, commit)
	o.last.Store(&encoded{commit.Hash, change})
	return change
}

// Operators is the stream of a store's commits. verify tells whether the
// signature of a head is a voter's; it is asked for every commit and snapshot that
// comes from another node.
func Operators(store *kv.Store, verify func(kv.Head) error) Stream {
	return &operators{store: store, verify: verify}
}

func (o *operators) ID() StreamID             { return OperatorStream }
func (o *operators) Head() kv.Head            { return o.store.View().Head() }
func (o *operators) Changed() <-chan struct{} { return o.store.Changed() }

func (o *operators) Verify(head kv.Head) error {
	if err := o.verify(head); err != nil {
		return fmt.Errorf("revision %s: %w: %w", head.Rev, ErrForged, err)
	}
	return nil
}

func (o *operators) Delta(since kv.Head, max int) ([][]byte, kv.Head, error) {
	ours := o.Head()
	if since.Rev.Epoch != ours.Rev.Epoch || since.EpochID != ours.EpochID {
		return nil, since, fmt.Errorf("revision %s: %w: here is epoch %d with id %x, there %x", since.Rev, kv.ErrDiverged, ours.Rev.Epoch, ours.EpochID[:4], since.EpochID[:4])
	}
	if since.Rev == ours.Rev {
		return nil, since, sameHash(since, ours.Hash)
	}
	var changes [][]byte
	upTo, size := since, 0
	for {
		commits, err := o.store.History("", upTo.Rev, historyStep)
		if err != nil || len(commits) == 0 {
			return changes, upTo, err
		}
		if err := sameHash(upTo, commits[0].Prev); err != nil {
			return nil, since, err
		}
		for _, commit := range commits {
			change := o.encode(commit)
			if size += len(change); size > max && len(changes) > 0 {
				return changes, upTo, nil
			}
			changes, upTo = append(changes, change), commit.Head(since.EpochID)
		}
	}
}

// sameHash compares a head with the hash that our history has at its revision.
func sameHash(head kv.Head, ours kv.Hash) error {
	if head.Hash != ours {
		return fmt.Errorf("revision %s: %w: it has hash %x, here it is %x", head.Rev, kv.ErrDiverged, head.Hash[:8], ours[:8])
	}
	return nil
}

func (o *operators) Apply(changes [][]byte) error {
	ours := o.Head()
	commits := make([]kv.Commit, len(changes))
	for i, change := range changes {
		commit, err := kv.DecodeCommit(change)
		if err != nil {
			return err
		}
		if commit.Rev.Compare(ours.Rev) > 0 {
			if err := o.Verify(commit.Head(ours.EpochID)); err != nil {
				return err
			}
		}
		commits[i] = commit
	}
	return o.store.Merge(commits...)
}

func (o *operators) Snapshot() (kv.Head, func(io.Writer) error) {
	snapshot := o.store.Snapshot()
	return snapshot.Head(), func(w io.Writer) error {
		_, err := snapshot.WriteTo(w)
		return err
	}
}

func (o *operators) Restore(r io.Reader, welcome func(kv.Head) error) error {
	snapshot, err := kv.ReadSnapshot(r)
	if err != nil {
		return err
	}
	if err := o.Verify(snapshot.Head()); err != nil {
		return err
	}
	if err := welcome(snapshot.Head()); err != nil {
		return err
	}
	return o.store.Restore(snapshot)
}
