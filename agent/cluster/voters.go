package cluster

import (
	"context"
	"errors"
	"fmt"

	"grapevine/agent/api"
	"grapevine/kv/consensus"
)

// selfNews is how a node is called in raft.
type selfNews struct {
	Server string `json:"server"` // empty on an edge
	// Epoch is the id of the epoch that it is in, in hex; empty for a node that has
	// nothing yet. One that is left behind in another goes by another name soon.
	Epoch string `json:"epoch"`
}

// isHere reports whether what a node says of itself holds in this node's epoch.
func (s selfNews) isHere(m *member) bool {
	return s.Server == "" || s.Epoch == "" || s.Epoch == m.epoch()
}

func (m *member) self() selfNews {
	if m.raft == nil {
		return selfNews{}
	}
	_, server := m.n.servers()
	if m.n.o.Store.View().Rev().Rev == 0 {
		return selfNews{Server: server}
	}
	return selfNews{server, m.epoch()}
}

// Peers: see api.Cluster.
func (n *Node) Peers(ctx context.Context) ([]api.Peer, error) {
	m, err := n.in()
	if err != nil {
		return nil, err
	}
	if m.inRaft() {
		return m.peersHere()
	}
	voter, ok := m.anyVoter()
	if !ok {
		return nil, m.noLeader(nil)
	}
	var peers []api.Peer
	if err := m.calls.get(ctx, voter.Peer, pathPeers, &peers); err != nil {
		return nil, &api.UnreachableError{Node: voter.Name, Err: err}
	}
	return peers, nil
}

func (m *member) peersHere() ([]api.Peer, error) {
	if m.raft == nil {
		return nil, &api.RefusedError{Reason: "this node is an edge and knows no peers"}
	}
	var peers []api.Peer
	for _, p := range m.raft.Peers() {
		peers = append(peers, api.Peer{
			Node: m.nameOf(p.Node), ID: p.Node, Address: p.Address, Role: string(p.Role), Leader: p.Leader, Demoted: m.isDemoted(p.Node),
		})
	}
	return peers, nil
}

// voterVerb is what is to be done to a voter, or a node that may be one.
type voterVerb string

const (
	verbHandOver voterVerb = "hand over" // to the node, or to whom it fits if there is none
	verbPromote  voterVerb = "promote"
	verbDemote   voterVerb = "demote"
	verbRemove   voterVerb = "remove"
)

type voterChange struct {
	Verb voterVerb `json:"verb"`
	Node string    `json:"node"` // its id
}

// voterNews is what came of a change.
type voterNews struct {
	Leader string `json:"leader"` // the name of who leads now
}

// TransferLeadership, Promote and Demote: see api.Cluster.
func (n *Node) TransferLeadership(ctx context.Context, node string) (leader string, err error) {
	return n.askForChange(ctx, verbHandOver, node)
}

func (n *Node) Promote(ctx context.Context, node string) error {
	_, err := n.askForChange(ctx, verbPromote, node)
	return err
}

func (n *Node) Demote(ctx context.Context, node string) error {
	_, err := n.askForChange(ctx, verbDemote, node)
	return err
}

func (n *Node) askForChange(ctx context.Context, verb voterVerb, node string) (leader string, err error) {
	m, err := n.in()
	if err != nil {
		return "", err
	}
	if err := m.mayGovern(); err != nil {
		return "", err
	}
	if node != "" {
		member, err := api.FindMember(m.list(), node)
		if err != nil {
			return "", err
		}
		node = member.ID
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	news, err := onLeader(ctx, m, pathVoters, voterChange{verb, node}, m.changeVoters)
	return news.Leader, err
}

// changeVoters does what is asked for, on the leader.
func (m *member) changeVoters(ctx context.Context, c voterChange) (voterNews, error) {
	var err error
	server, there := m.serverOf(c.Node)
	switch c.Verb {
	case verbHandOver:
		err = m.handOver(ctx, c.Node, server, there)
	case verbPromote:
		err = m.promote(ctx, c.Node, server, there)
	case verbDemote:
		err = m.demote(ctx, c.Node, server, there)
	case verbRemove:
		err = m.remove(ctx, c.Node, server, there)
	default:
		err = &api.RefusedError{Reason: fmt.Sprintf("%q is nothing that can be done to a voter", c.Verb)}
	}
	return voterNews{m.nameOf(m.leaderNode())}, m.toldOfChange(err)
}

// toldOfChange gives raft's errors as the API knows them.
func (m *member) toldOfChange(err error) error {
	var moved *consensus.NotLeaderError
	switch {
	case errors.As(err, &moved):
		return &errNotLeader{m.lead.news()}
	case errors.Is(err, consensus.ErrNotMember):
		return &api.RefusedError{Reason: "no other voter can be reached"}
	}
	return m.told(err)
}

// serverOf is a node's place in raft's configuration.
func (m *member) serverOf(node string) (consensus.Peer, bool) {
	for _, peer := range m.raft.Peers() {
		if peer.Node == node {
			return peer, true
		}
	}
	return consensus.Peer{}, false
}

func (m *member) voterCount() (n int) {
	for _, peer := range m.raft.Peers() {
		if peer.Role == consensus.RoleVoter {
			n++
		}
	}
	return n
}

func (m *member) handOver(ctx context.Context, node string, server consensus.Peer, there bool) error {
	switch {
	case node != "" && (!there || server.Role != consensus.RoleVoter):
		return &api.RefusedError{Reason: fmt.Sprintf("node %q is no voter, and only voters lead", m.nameOf(node))}
	case server.Leader:
		return nil
	case m.voterCount() < 2:
		return &api.RefusedError{Reason: "this node is the only voter; promote another first"}
	}
	if err := m.raft.TransferLeadership(ctx, server.ID); err != nil {
		return err
	}
	return m.awaitLeader(ctx)
}

// awaitLeader waits until the node knows of a leader that is not itself.
func (m *member) awaitLeader(ctx context.Context) error {
	for {
		to, here, changed := m.raft.Leader()
		if to.Address != "" && !here {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *member) promote(ctx context.Context, node string, server consensus.Peer, there bool) error {
	if err := m.setDemoted(ctx, node, false); err != nil {
		return err
	}
	if there && server.Role == consensus.RoleVoter {
		return nil
	}
	if !there {
		var err error
		if server, err = m.addLearner(ctx, node); err != nil {
			return err
		}
	}
	return m.change(ctx, consensus.Change{Kind: consensus.Promote, Server: server.ID})
}

// addLearner takes a node that may vote into raft.
func (m *member) addLearner(ctx context.Context, node string) (consensus.Peer, error) {
	for _, other := range m.others() {
		if string(other.ID) != node {
			continue
		}
		var news selfNews
		if err := m.calls.get(ctx, other.Peer, pathSelf, &news); err != nil {
			return consensus.Peer{}, &api.UnreachableError{Node: other.Name, Err: err}
		}
		if consensus.NodeOf(news.Server) != node {
			return consensus.Peer{}, &api.RefusedError{Reason: fmt.Sprintf("node %q is an edge for life: it joined by a token of role edge, or with --voter no", other.Name)}
		}
		if !news.isHere(m) {
			return consensus.Peer{}, &api.RefusedError{Reason: fmt.Sprintf("node %q is in another epoch still, and is to follow first", other.Name)}
		}
		err := m.change(ctx, consensus.Change{Kind: consensus.AddLearner, Server: news.Server, Address: other.Peer})
		return consensus.Peer{Node: node, ID: news.Server}, err
	}
	return consensus.Peer{}, &api.RefusedError{Reason: fmt.Sprintf("node %q does not answer", m.nameOf(node))}
}

func (m *member) demote(ctx context.Context, node string, server consensus.Peer, there bool) error {
	votes := there && server.Role == consensus.RoleVoter
	switch {
	case votes && m.voterCount() < 2:
		return &api.RefusedError{Reason: fmt.Sprintf("node %q is the only voter; promote another first", m.nameOf(node))}
	case votes && server.Leader:
		return &api.RefusedError{Reason: fmt.Sprintf("node %q leads; agent raft transfer-leadership first", m.nameOf(node))}
	}
	// First the word that it is to have no vote: else it would be given one again.
	if err := m.setDemoted(ctx, node, true); err != nil || !votes {
		return err
	}
	return m.change(ctx, consensus.Change{Kind: consensus.Demote, Server: server.ID})
}

func (m *member) remove(ctx context.Context, node string, server consensus.Peer, there bool) error {
	switch {
	case !there:
		return m.setDemoted(ctx, node, false)
	case server.Role == consensus.RoleVoter && m.voterCount() < 2:
		return &api.RefusedError{Reason: "it is the only voter: without it nothing could be written any more; promote another first"}
	case server.Leader:
		// It is asked again, where the next one leads.
		if err := m.handOver(ctx, "", consensus.Peer{}, false); err != nil {
			return err
		}
		return &errNotLeader{m.lead.news()}
	}
	if err := m.change(ctx, consensus.Change{Kind: consensus.Remove, Server: server.ID}); err != nil {
		return err
	}
	return m.setDemoted(ctx, node, false)
}

func (m *member) change(ctx context.Context, c consensus.Change) error {
	_, index := m.raft.Configuration()
	err := m.raft.Change(ctx, c, index)
	m.gossip.Refresh()
	return err
}
