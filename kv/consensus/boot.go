package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"grapevine/kv"
)

// home is where raft's log, votes and snapshots are.
type home struct {
	backend   backend
	snapshots raft.SnapshotStore
}

// openHome opens the stores in a folder, or makes some in memory.
func openHome(dir string) (*home, error) {
	if dir == "" {
		return &home{backend: newMemoryLog(), snapshots: &memorySnapshots{}}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("raft: %w", err)
	}
	snapshots, err := openSnapshots(dir)
	if err != nil {
		return nil, err
	}
	log, err := openLogStore(dir)
	var damage *kv.CorruptError
	if errors.As(err, &damage) {
		return nil, fmt.Errorf("%w: %w", ErrRejoin, err)
	}
	if err != nil {
		return nil, err
	}
	return &home{backend: log, snapshots: snapshots}, nil
}

// newest is the newest snapshot, nil if there is none.
func (h *home) newest() (*raft.SnapshotMeta, error) {
	metas, err := h.snapshots.List()
	if err != nil || len(metas) == 0 {
		return nil, err
	}
	return metas[0], nil
}

func (h *home) hasState() (bool, error) {
	return raft.HasExistingState(h.backend, h.backend, h.snapshots)
}

// The names under which a node's stores know each other. Each says which server
// id the other was used with, so that a log that is gone, or is another's, shows.
var stampName = []byte("grapevine.server") // in the log -> server id

// markName is a local value of the store: "SERVER INDEX", where INDEX is the raft
// index that the store stood at when the server id was first used with it.
const markName = "consensus/server"

// identify checks that log and store belong together, and to the server id, and
// returns the index of the mark. A log that was lost took the node's votes with
// it: the node must not vote again in the terms in which it may have voted.
func (h *home) identify(store *kv.Store, server string) (joined uint64, err error) {
	stamp, err := h.backend.Get(stampName)
	isNew := errors.Is(err, errNotFound)
	if err != nil && !isNew {
		return 0, err
	}
	marked, joined, err := readMark(store)
	switch {
	case err != nil:
		return 0, err
	case !isNew && string(stamp) != server:
		return 0, fmt.Errorf("raft: the log is that of server %q, not of %q", stamp, server)
	case isNew && marked == server:
		return 0, fmt.Errorf("%w: the log of server %q is gone, and with it its votes", ErrRejoin, server)
	case isNew:
		if err := h.backend.Set(stampName, []byte(server)); err != nil {
			return 0, err
		}
	}
	if marked == server {
		return joined, nil
	}
	joined = store.View().Head().Index
	return joined, store.SetLocal(markName, fmt.Appendf(nil, "%s %d", server, joined))
}

func readMark(store *kv.Store) (server string, joined uint64, err error) {
	mark, there := store.Local(markName)
	if !there {
		return "", 0, nil
	}
	server, index, _ := strings.Cut(string(mark), " ")
	if joined, err = strconv.ParseUint(index, 10, 64); err != nil {
		return "", 0, fmt.Errorf("raft: the local value %s is %q: want a server id and an index", markName, mark)
	}
	return server, joined, nil
}

// mend completes what a crash cut off while another's snapshot was taken: the
// snapshot is there, and so is a log that it was to replace. A log that leads on
// from the snapshot stays. One that begins later has lost what was before, and
// with it the means to tell what this node has agreed to.
func (h *home) mend() error {
	newest, err := h.newest()
	if err != nil {
		return err
	}
	first, err := h.backend.FirstIndex()
	if err != nil || first == 0 {
		return err
	}
	last, err := h.backend.LastIndex()
	switch {
	case err != nil:
		return err
	case newest == nil:
		return fmt.Errorf("%w: its log begins at entry %d, and there is no snapshot", ErrRejoin, first)
	case first > newest.Index+1:
		return fmt.Errorf("%w: its log begins at entry %d, its newest snapshot ends at %d", ErrRejoin, first, newest.Index)
	case first == newest.Index+1:
		return nil
	}
	if newest.Index <= last {
		var entry raft.Log
		if err := h.backend.GetLog(newest.Index, &entry); err != nil || entry.Term == newest.Term {
			return err
		}
	}
	return h.backend.DeleteRange(first, last)
}

// align makes the store and raft's log fit: raft applies only what comes after
// its newest snapshot, so a store that is behind takes that first. A store that is
// ahead of both was not written through this log.
func (h *home) align(store *kv.Store, joined uint64) error {
	has, err := h.hasState()
	if err != nil || !has {
		return err
	}
	newest, err := h.newest()
	if err != nil {
		return err
	}
	end, err := h.backend.LastIndex()
	if err != nil {
		return err
	}
	have := store.View().Head()
	if newest != nil {
		end = max(end, newest.Index)
		if have.Index < newest.Index {
			if err := h.restoreInto(store, newest.ID); err != nil {
				return err
			}
		}
	}
	if have.Index > max(end, joined) {
		return fmt.Errorf("%w: its store is at raft index %d, its log ends at %d", ErrRejoin, have.Index, end)
	}
	return nil
}

func (h *home) restoreInto(store *kv.Store, id string) error {
	_, content, err := h.snapshots.Open(id)
	if err != nil {
		return err
	}
	defer content.Close()
	s, err := kv.ReadSnapshot(content)
	if err != nil {
		return fmt.Errorf("raft snapshot %s: %w", id, err)
	}
	return restore(store, s)
}

// bootTerm is the term of the first state of a cluster.
const bootTerm = 1

// bootIndex is the index of the first state of a cluster. It is drawn from the
// epoch's id, so that the logs of two clusters have no point in common: a server
// that was told to begin anew must not find in another's old log what it would
// take for its own. It is at least 2, because a follower that needs entry 1 must
// find no log to get it from, see watchedStore.GetLog.
func bootIndex(epochID [16]byte) uint64 {
	return 2 + uint64(binary.BigEndian.Uint32(epochID[:]))
}

// bootstrap writes the first state of a cluster of these servers: a snapshot, so
// that every other node begins with it. The log alone would not tell a new node
// what the store held before, nor of which epoch it is.
func (h *home) bootstrap(store *kv.Store, servers []Server) error {
	has, err := h.hasState()
	if err != nil {
		return err
	}
	head := store.View().Head()
	if has || head.Index > 0 {
		return fmt.Errorf("%w: raft state is %t, the store is at raft index %d", ErrHasState, has, head.Index)
	}
	index := bootIndex(head.EpochID)
	sink, err := h.snapshots.Create(raft.SnapshotVersionMax, index, bootTerm, toConfiguration(servers), index, nil)
	if err != nil {
		return err
	}
	if err := (snapshot{store.Snapshot()}).Persist(sink); err != nil {
		return err
	}
	return h.backend.SetUint64([]byte(termName), bootTerm)
}

// Archive moves the folder of a node that has to rejoin out of the way, as DIR.old-N,
// and returns where it is now. What was in it serves nobody but a person.
func Archive(dir string) (string, error) {
	for n := 1; ; n++ {
		archived := fmt.Sprintf("%s.old-%d", strings.TrimRight(dir, "/"), n)
		if _, err := os.Lstat(archived); errors.Is(err, fs.ErrNotExist) {
			return archived, os.Rename(dir, archived)
		} else if err != nil {
			return "", err
		}
	}
}
