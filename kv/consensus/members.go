package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// heardLately is how long a server that was not heard of still counts as
// reachable: a few heartbeats, and the votes of a round of elections.
const heardLately = 3 * time.Second

// changeTimeout bounds how long a change of the configuration waits for the one
// before it.
const changeTimeout = 5 * time.Second

// Server is one server of raft's configuration.
type Server struct {
	ID, Address string
	Voter       bool // otherwise a learner: it has the log and no vote
}

// Role is what part a node has in raft.
type Role string

const (
	RoleNone    Role = "edge"    // not in the configuration
	RoleLearner Role = "learner" // has the log and no vote
	RoleVoter   Role = "voter"
)

// Peer is one server of the configuration as an operator sees it.
type Peer struct {
	Node    string
	ID      string
	Address string
	Role    Role
	Leader  bool
	// Reachable says that this node has heard of it lately. It hears of all only if
	// it leads.
	Reachable bool
	// Lag is how many entries its log is behind the leader's. Only the leader
	// knows; elsewhere it is 0.
	Lag uint64
}

// Peers gives the servers of the newest configuration that this node knows, in the
// order of their ids.
func (r *Raft) Peers() []Peer {
	i := r.instance()
	if i == nil {
		return nil
	}
	_, leader := i.raft.LeaderWithID()
	var peers []Peer
	for _, server := range i.raft.GetConfiguration().Configuration().Servers {
		peers = append(peers, r.peer(i, server, leader))
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

func (r *Raft) peer(i *instance, server raft.Server, leader raft.ServerID) Peer {
	p := Peer{
		Node: NodeOf(string(server.ID)), ID: string(server.ID), Address: string(server.Address),
		Role: roleOf(server), Leader: server.ID == leader,
	}
	if p.ID == r.server() {
		p.Reachable = true
		return p
	}
	known := r.transport.peers.get(server.ID)
	p.Reachable = time.Since(known.heard) <= heardLately
	if string(leader) == r.server() {
		if last := i.raft.LastIndex(); last > known.last {
			p.Lag = last - known.last
		}
	}
	return p
}

// Role is this node's part in the newest configuration that it knows.
func (r *Raft) Role() Role {
	i := r.instance()
	if i == nil {
		return RoleNone
	}
	self := raft.ServerID(r.server())
	for _, server := range i.raft.GetConfiguration().Configuration().Servers {
		if server.ID == self {
			return roleOf(server)
		}
	}
	return RoleNone
}

func roleOf(server raft.Server) Role {
	if server.Suffrage == raft.Voter {
		return RoleVoter
	}
	return RoleLearner
}

// InRaft reports whether this node is in the newest configuration that it knows.
// While it is, commits come to its store from raft only. That holds while raft is
// started anew, and when it has been shut down: a store that took others' commits
// meanwhile would be ahead of the log, and the node would have to rejoin. It does not
// where raft can't run, as on a log that can't be read.
func (r *Raft) InRaft() bool {
	r.mu.Lock()
	stands, was := r.current == nil && r.problem == nil, r.was
	r.mu.Unlock()
	if stands {
		return was
	}
	return r.Role() != RoleNone
}

// HasAll reports whether this node leads and its store has all that was committed
// before the call: while a write is under way, others may have it sooner.
func (r *Raft) HasAll() bool {
	if r.writing.Load() {
		return false
	}
	i := r.instance()
	if i == nil {
		return false
	}
	_, settled := i.isSettled()
	return settled
}

// Leader is where the leader is, as far as this node knows, and whether it is this
// node. changed is closed when that may be another.
func (r *Raft) Leader() (to Leader, here bool, changed <-chan struct{}) {
	to, here, changed = r.leader()
	if r.instance() == nil || r.watch.hangs() { // then it is a guess
		return Leader{}, false, changed
	}
	return to, here, changed
}

// voters gives the ids of all voters, and of those that were not heard of lately.
func (r *Raft) voters() (all, unreachable []string) {
	for _, peer := range r.Peers() {
		if peer.Role != RoleVoter {
			continue
		}
		all = append(all, peer.ID)
		if !peer.Reachable {
			unreachable = append(unreachable, peer.ID)
		}
	}
	return all, unreachable
}

func voterIDs(servers []raft.Server) []string {
	var ids []string
	for _, server := range servers {
		if server.Suffrage == raft.Voter {
			ids = append(ids, string(server.ID))
		}
	}
	return ids
}

func toConfiguration(servers []Server) raft.Configuration {
	var c raft.Configuration
	for _, server := range servers {
		suffrage := raft.Nonvoter
		if server.Voter {
			suffrage = raft.Voter
		}
		c.Servers = append(c.Servers, raft.Server{Suffrage: suffrage, ID: raft.ServerID(server.ID), Address: raft.ServerAddress(server.Address)})
	}
	return c
}

func fromConfiguration(c raft.Configuration) []Server {
	var servers []Server
	for _, server := range c.Servers {
		servers = append(servers, Server{ID: string(server.ID), Address: string(server.Address), Voter: server.Suffrage == raft.Voter})
	}
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	return servers
}

// Configuration gives the servers of the configuration that was committed last, as
// far as this node knows, and its index, for Change.
func (r *Raft) Configuration() (servers []Server, index uint64) {
	i := r.instance()
	if i == nil {
		return nil, 0
	}
	c, index := i.configuration()
	return fromConfiguration(c), index
}

// configuration is the newer of the one that was applied and that of the newest
// snapshot, which may have come from another.
func (i *instance) configuration() (raft.Configuration, uint64) {
	c, index := i.machine.configuration()
	metas, err := i.store.snapshots.List()
	if err == nil && len(metas) > 0 && metas[0].ConfigurationIndex > index {
		return metas[0].Configuration, metas[0].ConfigurationIndex
	}
	return c, index
}

// ChangeKind says what a Change does to a server.
type ChangeKind string

const (
	// AddLearner adds a server that is not there, without a vote.
	AddLearner ChangeKind = "add learner"
	// Promote gives a learner a vote.
	Promote ChangeKind = "promote"
	// Demote takes a voter's vote.
	Demote ChangeKind = "demote"
	// Remove takes a server out.
	Remove ChangeKind = "remove"
	// Move gives a server another address.
	Move ChangeKind = "move"
	// HandOver makes a server the leader, and does not change the configuration.
	HandOver ChangeKind = "hand over"
)

// Change is one step from one configuration to the next.
type Change struct {
	Kind    ChangeKind
	Server  string
	Address string // of AddLearner and Move
}

func (c Change) String() string { return string(c.Kind) + " " + c.Server }

// Change changes the configuration by one step, if this node leads. previous is
// the index of the configuration that the step was meant for: if another came
// since it is refused. It returns when the change is committed.
//
// Errors: a *NotLeaderError; ErrNotMember; what raft refuses it with. An error after
// the change was begun leaves open whether it takes place: Configuration tells.
func (r *Raft) Change(ctx context.Context, c Change, previous uint64) error {
	if c.Kind == HandOver {
		return r.TransferLeadership(ctx, c.Server)
	}
	i := r.instance()
	if i == nil {
		return r.notLeader()
	}
	if _, err := i.settleBy(ctx); err != nil {
		return cmp.Or(ctx.Err(), r.notLeader())
	}
	configuration, _ := i.configuration()
	future, err := i.change(c, fromConfiguration(configuration), previous)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	done := make(chan error, 1)
	go func() { done <- i.await(future)[0] }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, raft.ErrNotLeader) {
		return r.notLeader()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

// change begins a change that makes sense for the servers as they are.
func (i *instance) change(c Change, servers []Server, previous uint64) (raft.Future, error) {
	id, address := raft.ServerID(c.Server), raft.ServerAddress(c.Address)
	at := slices.IndexFunc(servers, func(s Server) bool { return s.ID == c.Server })
	if c.Kind == AddLearner {
		if at >= 0 {
			return nil, errors.New("it is in the configuration already")
		}
		return i.raft.AddNonvoter(id, address, previous, changeTimeout), nil
	}
	if at < 0 {
		return nil, ErrNotMember
	}
	switch server := servers[at]; {
	case c.Kind == Promote && !server.Voter:
		return i.raft.AddVoter(id, raft.ServerAddress(server.Address), previous, changeTimeout), nil
	case c.Kind == Demote && server.Voter:
		return i.raft.DemoteVoter(id, previous, changeTimeout), nil
	case c.Kind == Remove:
		return i.raft.RemoveServer(id, previous, changeTimeout), nil
	case c.Kind == Move && server.Voter:
		return i.raft.AddVoter(id, address, previous, changeTimeout), nil
	case c.Kind == Move:
		return i.raft.AddNonvoter(id, address, previous, changeTimeout), nil
	}
	return nil, fmt.Errorf("a server with vote %t can't be changed so", servers[at].Voter)
}
