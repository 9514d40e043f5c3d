package consensus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/hashicorp/raft"
)

// Recovery is how Recover asks for what is not raft's.
type Recovery struct {
	// Server is this node's next id in raft.
	Server string
	// EpochID is that of the epoch that begins, drawn at random.
	EpochID [16]byte
	// CatchUp, if set, lets the store take what others have and this node has not. It
	// is called while raft stands still, and if it fails raft goes on as it was.
	CatchUp func() error
	// Renamed notes durably that the node is Server from now on.
	Renamed func() error
}

// Recover founds a cluster anew, with this node as its only voter, when a majority of
// the voters is lost for good: in the next epoch, on top of what the store holds and
// of all that is in this node's log, since the one that led last may have
// acknowledged any of it. What raft had is put aside, see Archive.
//
// The other voters of before have no part in it. Those that come back are to GiveWay.
//
// Errors: those of CatchUp and of the disk, with raft as it was; or of what came
// later, with raft at a stand: then Recover may be called again.
func (r *Raft) Recover(recovery Recovery) error {
	return r.anew(recovery.Server, recovery.Renamed, func() error {
		if recovery.CatchUp != nil {
			if err := recovery.CatchUp(); err != nil {
				return err
			}
		}
		return r.applyLog()
	}, func() error {
		if err := r.o.Store.NewEpoch(recovery.EpochID, r.o.Sign); err != nil {
			return err
		}
		return r.home.bootstrap(r.o.Store, []Server{{ID: recovery.Server, Address: r.o.Address, Voter: true}})
	})
}

// GiveWay ends this node's part in raft: it is another server from now on, with an
// empty log, until a leader adds it. It is for a voter whose cluster went on without
// it in another epoch.
func (r *Raft) GiveWay(server string, renamed func() error) error {
	return r.anew(server, renamed, nil, nil)
}

// anew ends the instance, puts its log aside and begins with an empty one as another
// server. before may still refuse; after works on the new log.
func (r *Raft) anew(server string, renamed, before, after func() error) error {
	if NodeOf(server) != r.o.Node || server == r.server() {
		return fmt.Errorf("raft: server id %q: want another one of node %q", server, r.o.Node)
	}
	r.swap.lock()
	defer r.swap.unlock()
	if r.isClosed() {
		return ErrClosed
	}
	r.stop()
	r.mu.Lock()
	r.was = false // from here on the store may take what others have
	r.mu.Unlock()
	if before != nil {
		if err := before(); err != nil {
			return errors.Join(err, r.goOn())
		}
	}
	err := r.putAside(server, renamed)
	if err == nil {
		err = r.openHome()
	}
	if err == nil && after != nil {
		err = after()
	}
	if err == nil {
		err = r.begin()
	}
	r.setProblem(err)
	return err
}

// goOn begins again with what there is, if there is a log.
func (r *Raft) goOn() error {
	if r.home == nil {
		return nil
	}
	return r.begin()
}

// putAside archives what raft has, once the store's file has all that came of it.
func (r *Raft) putAside(server string, renamed func() error) error {
	if err := errors.Join(r.o.Store.Flush(), r.closeHome()); err != nil {
		return err
	}
	r.o.home = nil // what a test keeps is put aside, too
	if r.o.Dir != "" {
		if err := r.archive(); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.name = server
	r.mu.Unlock()
	return renamed()
}

func (r *Raft) archive() error {
	if _, err := os.Lstat(r.o.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	archived, err := Archive(r.o.Dir)
	if err == nil {
		r.log.Info("raft's log is put aside", "folder", archived)
	}
	return err
}

// applyLog merges what is in the log and follows the store, whether or not this node
// was told that it is committed.
func (r *Raft) applyLog() error {
	if r.home == nil { // it can't be read, which is the Problem
		return nil
	}
	first, err := r.home.backend.FirstIndex()
	if err != nil || first == 0 {
		return err
	}
	last, err := r.home.backend.LastIndex()
	if err != nil {
		return err
	}
	var failed error
	m := newMachine(r.o.Store, false, r.watch, func(err error) { failed = err })
	for index := first; index <= last && failed == nil; index++ {
		var entry raft.Log
		if err := r.home.backend.GetLog(index, &entry); err != nil {
			return fmt.Errorf("raft log: entry %d: %w", index, err)
		}
		if entry.Type == raft.LogCommand {
			m.Apply(&entry)
		}
	}
	return failed
}
