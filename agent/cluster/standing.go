package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"grapevine/agent/api"
	"grapevine/kv"
	"grapevine/kv/consensus"
	"grapevine/kv/gossip"
)

// Standing: see api.Cluster.
func (n *Node) Standing() api.Standing {
	m, err := n.in()
	if err != nil {
		return api.Standing{Stale: true, Alarms: []string{err.Error()}}
	}
	voters, unreachable := m.voters()
	return api.Standing{
		Cluster: m.id.Cluster().ID().String(), Leader: m.nameOf(m.lead.news().Node),
		Voters: len(voters), Reachable: len(voters) - len(unreachable), Stale: m.lead.stale(), Alarms: m.alarms(),
	}
}

// certificateAlarm is how long before a certificate's end that is an alarm.
const certificateAlarm = 30 * 24 * time.Hour

func (m *member) alarms() []string {
	var alarms []string
	if m.n.denied(m.n.o.ID) {
		alarms = append(alarms, "this node was revoked: no other one talks to it, and what it serves gets old; it can come back only as a new node, with another data directory")
	}
	for _, a := range m.contradictions() {
		alarms = append(alarms, fmt.Sprintf("%s: node %s is at revision %s, this one at %s (%d times since %s); agent alarms list",
			a.Kind, m.nameOf(string(a.Node)), a.Theirs.Rev, a.Ours.Rev, a.Count, a.First.UTC().Format(time.RFC3339)))
	}
	if blocked := udpAlarm(m.gossip.Members()); blocked != "" {
		alarms = append(alarms, blocked)
	}
	if waits := m.ring.alarm(); waits != "" {
		alarms = append(alarms, waits)
	}
	if m.raft != nil {
		if err := m.raft.Problem(); err != nil {
			alarms = append(alarms, fmt.Sprintf("this node takes no part in raft: %v", err))
		}
	}
	if left := time.Until(m.id.Expires()); !m.id.Insecure() && left < certificateAlarm {
		alarms = append(alarms, fmt.Sprintf("this node's certificate ends in %s and could not be renewed", left.Round(time.Minute)))
	}
	return alarms
}

// namedInAlarm is how many nodes an alarm names.
const namedInAlarm = 5

// udpAlarm names the members that are reached over TCP alone, empty if there is none.
func udpAlarm(members []gossip.Member) string {
	var names []string
	for _, member := range members {
		if member.UDPBlocked {
			names = append(names, member.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if extra := len(names) - namedInAlarm; extra > 0 {
		names, more = names[:namedInAlarm], fmt.Sprintf(" and %d more", extra)
	}
	return "UDP is blocked to " + strings.Join(names, ", ") + more +
		", which this node reaches over TCP alone; open the port of --gossip for UDP too, both ways; agent reachability"
}

// voters are the ids of the nodes that vote, and of those of them that are not heard
// of.
func (m *member) voters() (all, unreachable []string) {
	if m.inRaft() {
		return m.votersOfRaft()
	}
	for _, member := range m.gossip.Members() {
		if member.Role != gossip.Voter || member.Status == gossip.Left {
			continue
		}
		all = append(all, string(member.ID))
		if !alive(member) {
			unreachable = append(unreachable, string(member.ID))
		}
	}
	return all, unreachable
}

func (m *member) votersOfRaft() (all, unreachable []string) {
	heard := map[string]bool{m.n.o.ID: true}
	for _, other := range m.others() {
		heard[string(other.ID)] = true
	}
	for _, peer := range m.raft.Peers() {
		if peer.Role != consensus.RoleVoter {
			continue
		}
		all = append(all, peer.Node)
		if !peer.Reachable && !heard[peer.Node] {
			unreachable = append(unreachable, peer.Node)
		}
	}
	return all, unreachable
}

// Members: see api.Cluster.
func (n *Node) Members() []api.Member {
	m, err := n.in()
	if err != nil {
		served := n.serves()
		return []api.Member{{
			Node: n.o.Name, ID: n.o.ID, Address: n.advertise.Address.String(), Status: api.StatusAlive, Role: gossip.Edge.String(),
			Version: n.o.Version, Applied: served.rev.String(), Region: n.o.Region, Self: true,
		}}
	}
	return m.list()
}

func (m *member) list() []api.Member {
	applied, leader := m.gossip.Applied(), m.lead.news().Node
	newest := m.n.o.Store.View().Rev()
	for _, a := range applied {
		if a.Rev.Epoch == newest.Epoch && a.Rev.Rev > newest.Rev {
			newest = a.Rev
		}
	}
	var list []api.Member
	for _, member := range m.gossip.Members() {
		at := applied[member.ID].Rev
		row := api.Member{
			Node: member.Name, ID: string(member.ID), Address: member.Peer, Status: member.Status.String(), Role: member.Role.String(),
			Version: member.Version, Applied: at.String(), Region: member.Region,
			Leader: string(member.ID) == leader && alive(member), Self: string(member.ID) == m.n.o.ID,
			Demoted: m.isDemoted(string(member.ID)), NoGateway: member.NoGateway,
			UDPBlocked: member.UDPBlocked,
		}
		if at.Epoch == newest.Epoch && at.Rev < newest.Rev {
			row.Lag, row.LagMs = newest.Rev-at.Rev, m.behindSince(at)
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b api.Member) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
	return list
}

// behindSince is for how many milliseconds there has been a revision after rev, by
// the clock of who wrote that; 0 if that is not known.
func (m *member) behindSince(rev kv.Rev) int64 {
	next, err := m.n.o.Store.History("", rev, 1)
	if err != nil || len(next) == 0 {
		return 0
	}
	return max(time.Since(next[0].At).Milliseconds(), 1)
}

// nameOf is the name of a node, its id where that is not known.
func (m *member) nameOf(node string) string {
	for _, member := range m.gossip.Members() {
		if string(member.ID) == node {
			return member.Name
		}
	}
	return node
}

// names are those of servers or nodes.
func (m *member) names(ids []string) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = m.nameOf(consensus.NodeOf(id))
	}
	return names
}

func (m *member) nameOfAddress(address string) string {
	for _, member := range m.gossip.Members() {
		if member.Peer == address {
			return member.Name
		}
	}
	return address
}

// Counts is how often things happened in gossip, since the node entered its cluster.
func (n *Node) Counts() gossip.Counts {
	if m := n.member.Load(); m != nil {
		return m.gossip.Counts()
	}
	return gossip.Counts{}
}
