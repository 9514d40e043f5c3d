package cluster

import (
	"context"
	"time"

	"grapevine/kv/consensus"
	"grapevine/kv/gossip"
)

// candidates is what the leader knows of the nodes that may vote. It is for the
// goroutine of reconcile.
type candidates struct {
	m    *member
	seen map[string]sighting
}

// sighting is when a node was last seen to come or to go, and how it is called in
// raft.
type sighting struct {
	alive  bool
	since  time.Time
	server string // as the node said; empty: an edge
	asked  bool   // the node has said it in this life
}

// reconcile keeps the voters that the cluster should have, while this node leads.
func (m *member) reconcile(ctx context.Context) {
	c := &candidates{m: m, seen: map[string]sighting{}}
	_ = m.raft.Reconcile(ctx, func() []consensus.Member { return c.members(ctx) }) // it ends with ctx
	m.gossip.Refresh()
}

// members are the nodes that may vote, as far as they are known: of the others
// nothing is known, and nothing is done with them.
func (c *candidates) members(ctx context.Context) []consensus.Member {
	inRaft, silent := map[string]string{}, map[string]bool{} // by node
	for _, peer := range c.m.raft.Peers() {
		inRaft[peer.Node] = peer.ID
		silent[peer.Node] = !peer.Reachable
	}
	var members []consensus.Member
	known := map[string]bool{}
	for _, other := range c.m.gossip.Members() {
		node := string(other.ID)
		known[node] = true
		s := c.look(ctx, other, silent[node])
		server, votes := s.server, s.server != ""
		if !s.asked { // it is dead, or does not answer: it is what it was
			server, votes = inRaft[node], inRaft[node] != ""
		}
		if !votes && inRaft[node] == "" {
			continue // an edge
		}
		members = append(members, consensus.Member{
			Node: node, Server: server, Address: other.Peer, Region: other.Region,
			Votes: votes, Demoted: c.m.isDemoted(node), Alive: alive(other), Since: time.Since(s.since), Left: other.Status == gossip.Left,
		})
	}
	for node, server := range inRaft {
		if !known[node] { // nobody has met it since this node started
			s := c.note(node, false)
			members = append(members, consensus.Member{Node: node, Server: server, Votes: true, Since: time.Since(s.since)})
		}
	}
	return members
}

// look notes whether a node lives, and asks one that came how it is called; also one
// that is silent in raft: it may have gone and come with another name between two looks.
func (c *candidates) look(ctx context.Context, other gossip.Member, silent bool) sighting {
	s := c.note(string(other.ID), alive(other))
	if !s.alive || s.asked && !silent {
		return s
	}
	news, err := c.ask(ctx, other)
	if err == nil && news.isHere(c.m) {
		s.server, s.asked = news.Server, true
		c.seen[string(other.ID)] = s
	}
	return s
}

func (c *candidates) note(node string, alive bool) sighting {
	s, known := c.seen[node]
	if !known || s.alive != alive {
		s = sighting{alive: alive, since: time.Now()}
		c.seen[node] = s
	}
	return s
}

// askSelf bounds the question of how a node is called.
const askSelf = time.Second

func (c *candidates) ask(ctx context.Context, other gossip.Member) (news selfNews, err error) {
	if string(other.ID) == c.m.n.o.ID {
		return c.m.self(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askSelf)
	defer cancel()
	err = c.m.calls.get(ctx, other.Peer, pathSelf, &news)
	return news, err
}
