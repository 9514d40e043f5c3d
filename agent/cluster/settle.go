package cluster

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/gateway/spec"
	"grapevine/kv"
	"grapevine/kv/gossip"
)

// When two histories contradict each other nobody but an operator can tell which one is
// right. He may have the node give up its own and take the cluster's; or, before that,
// have what the node holds written to the cluster, as a new revision of the cluster's
// own history. So no history is ever replaced but that of one node.

const (
	pathSettle = "/node/settle" // settlement to api.Settled, of the leader
	pathYield  = "/node/yield"  // yieldOrder to yieldNews
)

// settlement is an operator's decision about a node that contradicts the leader.
type settlement struct {
	Node string   `json:"node"` // its id
	Keep api.Keep `json:"keep"`
	By   string   `json:"by"` // who decided
}

// yieldOrder has a node give up its history.
type yieldOrder struct {
	From string `json:"from"` // the address of who has the one to take
}

type yieldNews struct {
	// Restart says that the node's agent stops, and takes the state when it is started.
	Restart bool `json:"restart"`
}

// contradictions are the alarms about nodes that are there, or may come back.
func (m *member) contradictions() []gossip.Alarm {
	known := map[gossip.NodeID]bool{}
	for _, member := range m.gossip.Members() {
		known[member.ID] = member.Status != gossip.Left
	}
	return slices.DeleteFunc(m.gossip.Alarms(), func(a gossip.Alarm) bool { return !known[a.Node] })
}

// stopsWrites tells whether nothing may be written because of an alarm: whoever is
// right, each write would make it worse. What an edge says is an alarm only, and so is
// what a node said that is gone and has no vote.
func (m *member) stopsWrites(a gossip.Alarm) bool {
	if a.Role != gossip.Voter || a.Kind == gossip.Forged {
		return false
	}
	if _, votes := m.serverOf(string(a.Node)); votes {
		return true
	}
	return slices.ContainsFunc(m.others(), func(other gossip.Member) bool { return other.ID == a.Node })
}

// Alarms: see api.Cluster.
func (n *Node) Alarms() ([]api.Alarm, error) {
	m, err := n.in()
	if err != nil {
		return nil, err
	}
	var list []api.Alarm
	for _, a := range m.contradictions() {
		list = append(list, api.Alarm{
			Kind: a.Kind.String(), Node: m.nameOf(string(a.Node)), ID: string(a.Node), Role: a.Role.String(),
			Ours: a.Ours.Rev.String(), OurHash: fmt.Sprintf("%x", a.Ours.Hash[:8]),
			Theirs: a.Theirs.Rev.String(), TheirHash: fmt.Sprintf("%x", a.Theirs.Hash[:8]),
			First: a.First.UTC(), Last: a.Last.UTC(), Count: a.Count, StopsWrites: m.raft != nil && m.stopsWrites(a),
		})
	}
	return list, nil
}

// Difference: see api.Cluster.
func (n *Node) Difference(ctx context.Context, node string) (api.Difference, error) {
	m, err := n.in()
	if err != nil {
		return api.Difference{}, err
	}
	member, err := m.findLiving(node)
	if err != nil {
		return api.Difference{}, err
	}
	theirs, err := m.stateFrom(ctx, member, readState)
	if err != nil {
		return api.Difference{}, err
	}
	ours := n.o.Store.View()
	d := api.Difference{Node: member.Node, Ours: ours.Rev().String(), Theirs: theirs.Head().Rev.String(), Voter: member.Role != gossip.Edge.String()}
	for _, op := range importing(ours, theirs.View()) {
		change := api.KeyDifference{Key: string(op.Key), Is: api.OnlyThere}
		if _, here := ours.Get(op.Key); here {
			change.Is = api.Different
			if op.Kind == kv.OpDelete {
				change.Is = api.OnlyHere
			}
		}
		d.Keys = append(d.Keys, change)
	}
	return d, nil
}

func (m *member) findLiving(node string) (api.Member, error) {
	member, err := api.FindMember(m.list(), node)
	switch {
	case err != nil:
		return member, err
	case member.Self:
		return member, &api.RefusedError{Reason: fmt.Sprintf("node %q is the one that was asked; ask about it on another, as the leader", member.Node)}
	case member.Status != api.StatusAlive && member.Status != api.StatusSuspect:
		return member, &api.RefusedError{Reason: fmt.Sprintf("node %q is %s, and has to live to be asked what it holds", member.Node, member.Status)}
	}
	return member, nil
}

// stateFrom reads the whole store of another node, by takeState or readState.
func (m *member) stateFrom(ctx context.Context, of api.Member, read stateReader) (*kv.Snapshot, error) {
	conn, err := m.mux.DialNode(ctx, identity.ProtocolPeer, of.Address, of.ID)
	if err != nil {
		return nil, &api.UnreachableError{Node: of.Node, Err: err}
	}
	snapshot, err := read(ctx, conn, m.id.Verify)
	if err != nil {
		return nil, &api.RefusedError{Reason: fmt.Sprintf("what node %q holds can't be taken: %v", of.Node, err)}
	}
	return snapshot, nil
}

// importing is what makes one view's keys those of another. What nodes keep about
// themselves stays: tokens and revocations are not for a contradicting node to change.
func importing(ours, theirs kv.View) (ops []kv.Op) {
	skip := func(key kv.Key) bool { return kv.Under(ownPrefix, key) || spec.Ephemeral(string(key)) }
	for entry := range theirs.Under("") {
		if have, there := ours.Get(entry.Key); !skip(entry.Key) && (!there || !bytes.Equal(have.Value, entry.Value)) {
			ops = append(ops, kv.Put(entry.Key, entry.Value))
		}
	}
	for entry := range ours.Under("") {
		if _, there := theirs.Get(entry.Key); !there && !skip(entry.Key) {
			ops = append(ops, kv.Delete(entry.Key))
		}
	}
	return ops
}

// Settle: see api.Cluster.
func (n *Node) Settle(ctx context.Context, node string, keep api.Keep) (api.Settled, error) {
	m, err := n.in()
	if err != nil {
		return api.Settled{}, err
	}
	if err := m.mayGovern(); err != nil {
		return api.Settled{}, err
	}
	member, err := api.FindMember(m.list(), node)
	if err != nil {
		return api.Settled{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return onLeader(ctx, m, pathSettle, settlement{member.ID, keep, api.Author(ctx)}, m.settle)
}

// settle does what was decided, on the leader.
func (m *member) settle(ctx context.Context, s settlement) (settled api.Settled, err error) {
	member, err := m.findLiving(s.Node)
	if err != nil {
		return settled, err
	}
	if !slices.ContainsFunc(m.contradictions(), func(a gossip.Alarm) bool { return string(a.Node) == s.Node && a.Kind != gossip.Forged }) {
		return settled, &api.RefusedError{Reason: fmt.Sprintf("the leader has no alarm about node %q that could be settled; agent alarms list", member.Node)}
	}
	var ops []kv.Op
	if s.Keep == api.KeepNode {
		theirs, err := m.stateFrom(ctx, member, takeState)
		if err != nil {
			return settled, err
		}
		ops = importing(m.n.o.Store.View(), theirs.View())
	}
	if err := m.try(ops); err != nil {
		return settled, err
	}
	if server, there := m.serverOf(s.Node); there {
		if err := m.remove(ctx, s.Node, server, there); err != nil {
			return settled, m.toldOfChange(err)
		}
	}
	var news yieldNews
	if err := m.calls.post(ctx, member.Address, pathYield, yieldOrder{m.n.advertise.Address.String()}, &news); err != nil {
		return settled, fmt.Errorf("node %q was told to take the cluster's state, and did not: %w", member.Node, err)
	}
	m.n.o.Logger.Warn("a contradiction is settled", "with", member.Node, "keep", string(s.Keep), "keys", len(ops), "by", s.By)
	settled = api.Settled{Node: member.Node, Keep: s.Keep, Keys: len(ops), Restart: news.Restart}
	if len(ops) > 0 {
		settled.Rev, err = m.importKeys(ctx, member.Node, s.By, ops)
	}
	return settled, err
}

// try judges what is to be imported, before anything is given up for it. A trial by
// raft would be refused for the alarm.
func (m *member) try(ops []kv.Op) error {
	view := m.n.o.Store.View()
	commit, _, err := view.Resolve(kv.Txn{Then: ops})
	if err != nil || commit.Rev.IsZero() {
		return err
	}
	next, err := view.Apply(commit)
	if err != nil || m.n.o.Check == nil {
		return err
	}
	return m.n.o.Check(view, next)
}

// importKeys writes what a node held once nothing is in the way any more.
func (m *member) importKeys(ctx context.Context, node, by string, ops []kv.Op) (rev string, err error) {
	for {
		result, err := m.n.Propose(ctx, kv.Txn{Then: ops, By: by, At: time.Now(), Message: "what node " + node + " held, in place of what was there"})
		if err == nil {
			return result.Rev.String(), nil
		}
		if m.sound() == nil || !sleep(ctx, 100*time.Millisecond) {
			return "", &api.UnknownOutcomeError{Err: fmt.Errorf("node %q has given up its history, and what it held is not written yet: %w; "+
				"it is beside that node's store, as lkg-EPOCH-REV.snap", node, err)}
		}
	}
}

// yield gives up this node's history for that of the cluster, when a voter says so.
func (m *member) yield(ctx context.Context, o yieldOrder) (yieldNews, error) {
	n := m.n
	if m.lead.leads() {
		return yieldNews{}, &api.RefusedError{Reason: "this node leads"}
	}
	if m.raft != nil {
		// Its log may be wrong as well: it begins anew, under another name.
		a := adoption{m.id.Cluster().ID().String(), slices.Concat([]string{o.From}, m.seedAddresses())}
		if err := n.markAdoption(a); err != nil {
			return yieldNews{}, err
		}
		n.o.Logger.Warn("an operator has decided that this node takes the cluster's state in place of its own; it stops, and does so when it is started again")
		if n.o.Stop != nil {
			n.o.Stop()
		}
		return yieldNews{Restart: true}, nil
	}
	conn, err := m.mux.Dial(ctx, identity.ProtocolPeer, o.From)
	if err != nil {
		return yieldNews{}, &api.UnreachableError{Node: o.From, Err: err}
	}
	snapshot, err := takeState(ctx, conn, m.id.Verify)
	if err != nil {
		return yieldNews{}, err
	}
	if err := n.o.Store.Keep(); err != nil {
		return yieldNews{}, err
	}
	n.o.Logger.Warn("an operator has decided that this node takes the cluster's state", "had", n.o.Store.View().Rev().String(), "takes", snapshot.Head().Rev.String())
	return yieldNews{}, n.o.Store.Restore(snapshot)
}
