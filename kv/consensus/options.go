package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"grapevine/kv"
)

// Options say what a Raft works with.
type Options struct {
	// Node is the node's id, and Server its id in raft: the node's, or that with a
	// dot and something that differs for each empty folder. See NodeOf.
	Node, Server string
	// Address is the host and port by which the others reach Listener, and this
	// node's calls.
	Address string

	// Store takes the commits. While the node is in raft's configuration nobody
	// else may merge or restore operator keys.
	Store *kv.Store
	// Check judges writes when this node leads; nil refuses nothing.
	Check Check
	// Admit, if set, is asked before every batch of writes; its error refuses them,
	// as it is. It is for reasons that no write is to blame for, such as a disk that
	// is nearly full or an alarm.
	Admit func() error
	// Permit, if set, is asked about each write that another node brings, with the
	// context of its request; its error refuses the write, as it is.
	Permit func(context.Context, kv.Txn) error
	// Sign gives the leader's signature of Head.SigningBytes; nil leaves commits
	// unsigned.
	Sign func(signingBytes []byte) [64]byte

	// Dir is the folder of raft's log and snapshots. Empty means that they are in
	// memory, and that the node has forgotten its votes when it starts again.
	Dir string

	// Listener and Dial are for raft's streams between nodes. Raft closes Listener.
	Listener net.Listener
	Dial     Dial
	// Resolve, if set, gives the present address of a server whose address in the
	// configuration may be old.
	Resolve func(server string) (address string, ok bool)
	// Remote calls the leader. It may be nil on a node that is alone.
	Remote Remote

	// OnLeadership, if set, is called, one call at a time, when this node begins to
	// lead and has applied all that was committed before, and when it ceases to.
	// It must not wait for a method of the Raft.
	OnLeadership func(leads bool)

	Logger *slog.Logger
	Timing Timing

	// home is what a test keeps over restarts instead of Dir.
	home *home
}

// Timing holds raft's times and sizes. Zero fields take the defaults.
type Timing struct {
	// Heartbeat is how long a follower waits for its leader; a new one is there
	// within one to two of it. Less than DefaultHeartbeat is for tests with memory:
	// heartbeats may wait behind a sync.
	Heartbeat time.Duration
	// SnapshotInterval is how often it is looked whether SnapshotEntries have come
	// since the last snapshot, and TrailingEntries is how many stay in the log
	// after one, for followers that lag.
	SnapshotInterval time.Duration
	SnapshotEntries  uint64
	TrailingEntries  uint64
}

// The defaults of Timing. raft's own are the same but for the interval.
const (
	DefaultHeartbeat        = time.Second
	DefaultSnapshotInterval = 30 * time.Second
	DefaultSnapshotEntries  = 8192
	DefaultTrailingEntries  = 10240
)

// entriesAtOnce bounds what raft syncs, sends and applies together. Together with
// kv.MaxTxnBytes it bounds one message; and a batch of writes has no more.
const entriesAtOnce = mostAtOnce

// NodeOf gives the node's id that a server id begins with.
func NodeOf(server string) string {
	node, _, _ := strings.Cut(server, ".")
	return node
}

func (o *Options) check() error {
	switch {
	case o.Node == "" || strings.Contains(o.Node, "."):
		return fmt.Errorf("raft: node id %q: want an id without a dot", o.Node)
	case NodeOf(o.Server) != o.Node:
		return fmt.Errorf("raft: server id %q is not of node %q: want the node's id, alone or with a dot and more", o.Server, o.Node)
	case o.Address == "":
		return errors.New("raft: an address is needed")
	case o.Store == nil || o.Listener == nil || o.Dial == nil:
		return errors.New("raft: a store, a listener and a way to dial are needed")
	}
	if o.Check == nil {
		o.Check = func(_, _ kv.View) error { return nil }
	}
	if o.Admit == nil {
		o.Admit = func() error { return nil }
	}
	if o.Permit == nil {
		o.Permit = func(context.Context, kv.Txn) error { return nil }
	}
	if o.OnLeadership == nil {
		o.OnLeadership = func(bool) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// config is raft's own, for a server id.
func (o *Options) config(server string) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(server)
	c.HeartbeatTimeout = cmp.Or(o.Timing.Heartbeat, DefaultHeartbeat)
	c.ElectionTimeout = c.HeartbeatTimeout
	c.LeaderLeaseTimeout = c.HeartbeatTimeout / 2
	c.SnapshotInterval = cmp.Or(o.Timing.SnapshotInterval, DefaultSnapshotInterval)
	c.SnapshotThreshold = cmp.Or(o.Timing.SnapshotEntries, DefaultSnapshotEntries)
	c.TrailingLogs = cmp.Or(o.Timing.TrailingEntries, DefaultTrailingEntries)
	c.MaxAppendEntries = entriesAtOnce
	c.BatchApplyCh = true
	// A server that was removed stays as a follower that is told nothing: whether
	// to end it is the agent's to say.
	c.ShutdownOnRemove = false
	// The store is on disk and read before, see boot.go.
	c.NoSnapshotRestoreOnStart = true
	c.NoLegacyTelemetry = true
	c.Logger = raftLogger{log: o.Logger.With("component", "raft")}
	return c
}
