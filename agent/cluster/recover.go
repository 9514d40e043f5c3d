package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"grapevine/agent/api"
	"grapevine/kv"
	"grapevine/kv/consensus"
	"grapevine/kv/gossip"
)

// headNews is how far a node is.
type headNews struct {
	Epoch uint32 `json:"epoch"`
	Rev   uint64 `json:"rev"`
	ID    string `json:"id"`   // of the epoch, in hex
	Hash  string `json:"hash"` // in hex
	// Votes says that the node may vote, and so can recover the cluster itself.
	Votes bool `json:"votes"`
	// Leader is whom it follows, by its name, empty for nobody.
	Leader string `json:"leader"`
}

func (h headNews) rev() kv.Rev { return kv.Rev{Epoch: h.Epoch, Rev: h.Rev} }

func (m *member) head() headNews {
	head := m.n.o.Store.View().Head()
	news := headNews{
		Epoch: head.Rev.Epoch, Rev: head.Rev.Rev, ID: hex.EncodeToString(head.EpochID[:]), Hash: hex.EncodeToString(head.Hash[:]),
		Votes: m.raft != nil,
	}
	if m.lead.follows() {
		news.Leader = m.nameOf(m.lead.news().Node)
	}
	return news
}

// RecoveryPlan: see api.Cluster.
func (n *Node) RecoveryPlan(ctx context.Context) (api.Recovery, error) {
	m, err := n.in()
	if err != nil {
		return api.Recovery{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return m.planRecovery(ctx)
}

// planRecovery asks all nodes that live how far they are, and refuses what would fork
// a cluster that lives or lose what another node has.
func (m *member) planRecovery(ctx context.Context) (api.Recovery, error) {
	if m.raft == nil {
		return api.Recovery{}, &api.RefusedError{Reason: "this node is an edge for life and holds no key of the cluster; run it on a node that may vote"}
	}
	own := m.head()
	if own.Leader != "" {
		return api.Recovery{}, &api.RefusedError{Reason: fmt.Sprintf("node %q leads: nothing is to be recovered", own.Leader)}
	}
	voters, unreachable := m.voters()
	plan := api.Recovery{
		Node: m.n.o.Name, Rev: own.rev().String(), Epoch: own.Epoch + 1,
		Voters: m.names(voters), Unreachable: m.names(unreachable), Nodes: m.askHeads(ctx),
	}
	if len(voters) > 1 && len(voters)-len(unreachable) > len(voters)/2 {
		return api.Recovery{}, &api.RefusedError{Reason: fmt.Sprintf("%d of %d voters can be reached, which is a quorum: they elect a leader by themselves",
			len(voters)-len(unreachable), len(voters))}
	}
	return plan, m.judgeRecovery(own, &plan)
}

// askHeads asks the others, all at once, and gives their answers by name.
func (m *member) askHeads(ctx context.Context) []api.RecoveryNode {
	ctx, cancel := context.WithTimeout(ctx, askHeadsFor)
	defer cancel()
	others := m.others()
	nodes := make([]api.RecoveryNode, len(others))
	var asked sync.WaitGroup
	for i, other := range others {
		asked.Go(func() { nodes[i] = m.askHead(ctx, other) })
	}
	asked.Wait()
	slices.SortFunc(nodes, func(a, b api.RecoveryNode) int { return strings.Compare(a.Node, b.Node) })
	return nodes
}

// askHeadsFor bounds how long nodes have to say how far they are.
const askHeadsFor = 3 * time.Second

func (m *member) askHead(ctx context.Context, other gossip.Member) api.RecoveryNode {
	node := api.RecoveryNode{Node: other.Name}
	var news headNews
	if err := m.calls.get(ctx, other.Peer, pathHead, &news); err != nil {
		node.Problem = err.Error()
		return node
	}
	node.Rev, node.Leader, node.MayVote = news.rev().String(), news.Leader, news.Votes
	node.EpochID, node.Hash = news.ID, news.Hash
	return node
}

// judgeRecovery refuses a recovery that others speak against, and notes who is ahead.
func (m *member) judgeRecovery(own headNews, plan *api.Recovery) error {
	furthest := own.rev()
	for _, node := range plan.Nodes {
		rev, err := kv.ParseRev(node.Rev, 0)
		if node.Problem != "" || err != nil || rev.Rev == 0 {
			continue
		}
		switch refused := func(form string, args ...any) error { return &api.RefusedError{Reason: fmt.Sprintf(form, args...)} }; {
		case node.Leader != "":
			return refused("node %q follows leader %q: the cluster lives, and this node does not reach it", node.Node, node.Leader)
		case rev.Epoch > own.Epoch:
			return refused("node %q is in epoch %d already: the cluster has been recovered, and this node is to follow", node.Node, rev.Epoch)
		case rev.Epoch == own.Epoch && node.EpochID != own.ID, rev == own.rev() && node.Hash != own.Hash:
			return refused("node %q has another history at revision %s; take it out first (agent leave), or run this there", node.Node, node.Rev)
		case rev.Compare(own.rev()) > 0 && node.MayVote:
			return refused("node %q may vote and is at revision %s, this node at %s: run it there", node.Node, node.Rev, own.rev())
		}
		if rev.Compare(furthest) > 0 {
			furthest, plan.From, plan.Rev = rev, node.Node, node.Rev
		}
	}
	return nil
}

// Recover: see api.Cluster.
func (n *Node) Recover(ctx context.Context) (api.Recovery, error) {
	m, err := n.in()
	if err != nil {
		return api.Recovery{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if !m.renaming.TryLock() {
		return api.Recovery{}, &api.RefusedError{Reason: "a recovery is under way on this node"}
	}
	defer m.renaming.Unlock()
	plan, err := m.planRecovery(ctx)
	if err != nil {
		return plan, err
	}
	target, err := kv.ParseRev(plan.Rev, 0)
	if err != nil {
		return plan, err
	}
	m.n.o.Logger.Warn("the cluster is recovered with this node as its only voter", "epoch", plan.Epoch, "rev", plan.Rev, "lost", plan.Unreachable)
	recovery := consensus.Recovery{CatchUp: func() error { return m.catchUp(ctx, plan.From, target) }}
	rand.Read(recovery.EpochID[:]) // never fails: it would end the process
	var renamed func() error
	recovery.Server, renamed = m.nextName()
	recovery.Renamed = func() error {
		// A crash from here on leaves a node that founds when it starts.
		return errors.Join(renamed(), n.o.Store.SetLocal(localFounding, []byte("yes")))
	}
	if err := m.raft.Recover(recovery); err != nil {
		return plan, fmt.Errorf("recovering: %w", err)
	}
	if err := n.o.Store.DeleteLocal(localFounding); err != nil {
		return plan, err
	}
	return plan, m.awaitOwnLead(ctx)
}

// catchUp waits until this node, which is out of raft meanwhile and takes what it is
// sent, has what another one has.
func (m *member) catchUp(ctx context.Context, from string, target kv.Rev) error {
	for {
		changed := m.n.o.Store.Changed()
		have := m.n.o.Store.View().Rev()
		if have.Compare(target) >= 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &api.RefusedError{Reason: fmt.Sprintf("node %q has revision %s, and this one did not come beyond %s in time; nothing was changed. "+
				"To do without what it has, stop it first", from, target, have)}
		}
	}
}

// awaitOwnLead waits until this node leads.
func (m *member) awaitOwnLead(ctx context.Context) error {
	for !m.lead.leads() {
		_, _, changed := m.raft.Leader()
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // it leads a moment after raft says so
		case <-ctx.Done():
			return m.noLeader(ctx.Err())
		}
	}
	m.gossip.Refresh()
	return nil
}

// nextName is the node's next id in raft, and what notes that it has that now.
func (m *member) nextName() (server string, note func() error) {
	count, _ := m.n.servers()
	count = max(count+1, int(time.Now().Unix()))
	return fmt.Sprintf("%s.%d", m.n.o.ID, count), func() error {
		return m.n.o.Store.SetLocal(localServer, []byte(strconv.Itoa(count)))
	}
}

// giveWayAfter is how long a voter that is left behind hears of no leader of its own
// before it follows those who went on: two elections.
const giveWayAfter = 5 * time.Second

// giveWay ends this node's part in a cluster that was recovered without it, once a
// node of the next epoch is heard of and no quorum of its own answers. One that has a
// quorum goes on, and raises an alarm: an operator decides.
func (m *member) giveWay(ctx context.Context) {
	var since time.Time
	for sleep(ctx, roleEvery) {
		if !m.inRaft() || m.lead.answers() || !m.isLeftBehind() {
			since = time.Time{}
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < giveWayAfter || !m.renaming.TryLock() {
			continue
		}
		server, note := m.nextName()
		if err := m.raft.GiveWay(server, note); err != nil {
			m.n.o.Logger.Error("this node could not give way to the next epoch", "err", err)
		} else {
			m.n.o.Logger.Warn("the cluster was recovered without this node, which follows it from now on", "server", server)
		}
		m.renaming.Unlock()
		m.gossip.Refresh()
		since = time.Time{}
	}
}

func (m *member) isLeftBehind() bool {
	return slices.ContainsFunc(m.gossip.Alarms(), func(a gossip.Alarm) bool {
		return a.Kind == gossip.EpochAhead && time.Since(a.Last) < giveWayAfter
	})
}
