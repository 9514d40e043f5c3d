package cluster

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"time"

	"grapevine/kv/consensus"
	"grapevine/kv/gossip"
)

const (
	// askEvery is how often a node without a part in raft asks a voter who leads.
	askEvery = 5 * time.Second
	// staleAfter is how long a node hears of no leader before it says that what it
	// serves may be old.
	staleAfter = 5 * time.Second
)

// leadership is what the node knows of who leads.
type leadership struct {
	m *member

	mu sync.Mutex // guards what follows
	// heard is what a voter said last, on a node that has no part in raft.
	heard leaderNews
	moved chan struct{} // closed when heard changes
	// chased is when a voter was last asked for a request that waits.
	chased time.Time
	since  time.Time // when a leader was last known
	own    time.Time // when a leader in this node's epoch was heard of last, without raft
	// mine says that this node leads and has applied all that was committed before.
	mine bool
}

// leaderNews is who leads, as one node tells another. Address is empty when nobody
// is known.
type leaderNews struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Term    uint64 `json:"term"`
	// Epoch is the id of the epoch of the node that says so, in hex.
	Epoch string `json:"epoch"`
}

func newLeadership(m *member) *leadership {
	return &leadership{m: m, moved: make(chan struct{}), since: time.Now()}
}

// changed is raft's word that this node begins or ceases to lead.
func (l *leadership) changed(leads bool) {
	l.mu.Lock()
	l.mine = leads
	l.mu.Unlock()
	if g := l.m.met.Load(); g != nil {
		g.Refresh()
	}
}

func (l *leadership) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mine
}

// hasAll tells that this node leads, and that nobody can have what it has not: no
// write is under way.
func (l *leadership) hasAll() bool { return l.leads() && l.m.raft.HasAll() }

// news is who leads.
func (l *leadership) news() leaderNews {
	if l.m.inRaft() {
		to, here, _ := l.m.raft.Leader()
		node := l.m.n.o.ID
		if !here {
			node = l.m.leaderNode()
		}
		return leaderNews{node, to.Address, to.Term, l.m.epoch()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

// leaderNode is the node that raft's configuration says leads.
func (m *member) leaderNode() string {
	for _, peer := range m.raft.Peers() {
		if peer.Leader {
			return peer.Node
		}
	}
	return ""
}

func (l *leadership) node() gossip.NodeID { return gossip.NodeID(l.news().Node) }

// answers tells whether there is a leader, so that the quorum that made it answers.
func (l *leadership) answers() bool { return l.news().Address != "" }

// follows tells whether there is a leader in the epoch of this node's store.
func (l *leadership) follows() bool {
	news := l.news()
	return news.Address != "" && news.Epoch == l.m.epoch()
}

// ownFor is how long a node without a part in raft takes the quorum of its epoch for
// one that answers, after it last did: the voters are asked at random, and those that
// were put back into another epoch may be among them.
const ownFor = 3 * askEvery

// ownQuorum tells whether the quorum that this node follows answers, in its epoch.
func (l *leadership) ownQuorum() bool {
	if l.follows() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.own.IsZero() && time.Since(l.own) < ownFor && !l.m.inRaft()
}

// epoch is the id of the epoch of this node's store, in hex.
func (m *member) epoch() string {
	id := m.n.o.Store.View().Head().EpochID
	return hex.EncodeToString(id[:])
}

// known is for writes of a node that has no part in raft. Where nobody is known any
// voter will do: it names the leader.
func (l *leadership) known() (to consensus.Leader, changed <-chan struct{}) {
	l.mu.Lock()
	heard, moved := l.heard, l.moved
	l.mu.Unlock()
	if heard.Address == "" {
		if voter, ok := l.m.anyVoter(); ok {
			return consensus.Leader{Address: voter.Peer}, moved
		}
	}
	return consensus.Leader{Address: heard.Address, Term: heard.Term}, moved
}

// anyVoter is a voter that lives, at random.
func (m *member) anyVoter() (gossip.Member, bool) { return m.anyVoterBut("") }

func (m *member) anyVoterBut(node string) (gossip.Member, bool) {
	var voters []gossip.Member
	for _, member := range m.others() {
		if member.Role == gossip.Voter && string(member.ID) != node {
			voters = append(voters, member)
		}
	}
	if len(voters) == 0 {
		return gossip.Member{}, false
	}
	return voters[rand.IntN(len(voters))], true
}

// others are the members that live, without this node.
func (m *member) others() []gossip.Member {
	var others []gossip.Member
	for _, member := range m.gossip.Members() {
		if alive(member) && string(member.ID) != m.n.o.ID {
			others = append(others, member)
		}
	}
	return others
}

// follow asks who leads, as long as raft does not say so, and notes since when
// nobody does.
func (l *leadership) follow(ctx context.Context) {
	for {
		members := l.m.gossip.Changed()
		if !l.m.inRaft() {
			l.ask(ctx)
		}
		l.note()
		wait := time.NewTimer(askEvery/2 + rand.N(askEvery))
		select {
		case <-wait.C:
		case <-members:
			wait.Stop()
			if !sleep(ctx, time.Second) { // many may come at once
				return
			}
		case <-ctx.Done():
			wait.Stop()
			return
		}
	}
}

func (l *leadership) ask(ctx context.Context) {
	voter, ok := l.m.anyVoter()
	if !ok {
		l.hear(leaderNews{})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	news, _ := l.askOne(ctx, voter) // who does not answer knows of nobody
	l.hear(news)
}

func (l *leadership) askOne(ctx context.Context, voter gossip.Member) (news leaderNews, err error) {
	err = l.m.calls.get(ctx, voter.Peer, pathLeader, &news)
	return news, err
}

func (l *leadership) hear(news leaderNews) {
	epoch := l.m.epoch()
	l.mu.Lock()
	defer l.mu.Unlock()
	if news.Address != "" && news.Epoch == epoch {
		l.own = time.Now()
	}
	if news != l.heard {
		l.heard = news
		close(l.moved)
		l.moved = make(chan struct{})
	}
}

// chaseEvery is how often a node without a part in raft asks who leads while a
// request of its is under way: a leader that is cut off answers nothing, and the
// voters have another one within seconds.
const chaseEvery = 500 * time.Millisecond

// chase asks the voters besides the leader until ctx, of a request, is over. Many
// requests ask together no more often than one.
func (l *leadership) chase(ctx context.Context) {
	for sleep(ctx, chaseEvery) {
		if l.m.inRaft() || !l.mayChase() {
			continue
		}
		voter, ok := l.m.anyVoterBut(l.news().Node)
		if !ok {
			continue
		}
		one, cancel := context.WithTimeout(ctx, 2*chaseEvery)
		if news, err := l.askOne(one, voter); err == nil {
			l.hear(news)
		}
		cancel()
	}
}

func (l *leadership) mayChase() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.chased) < chaseEvery/2 {
		return false
	}
	l.chased = time.Now()
	return true
}

func (l *leadership) note() {
	if l.answers() {
		l.mu.Lock()
		l.since = time.Now()
		l.mu.Unlock()
	}
}

// stale tells whether the node has heard of no leader for a while.
func (l *leadership) stale() bool {
	if l.answers() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.since) > staleAfter
}
