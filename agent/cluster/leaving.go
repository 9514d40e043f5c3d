package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/kv"
	"grapevine/kv/gossip"
)

// Join: see api.Cluster.
func (n *Node) Join(ctx context.Context, addresses []string) error {
	m, err := n.in()
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := m.gossip.Join(ctx, addresses...); err != nil {
		return &api.UnreachableError{Node: strings.Join(addresses, ", "), Err: errors.New("none answered as a node of this cluster: " + strings.Join(strings.Fields(err.Error()), " "))}
	}
	return nil
}

// Leave: see api.Cluster.
func (n *Node) Leave(ctx context.Context) error {
	m, err := n.in()
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if len(m.others()) == 0 {
		return &api.RefusedError{Reason: "no other node of the cluster is alive; to end this one, stop its agent"}
	}
	if m.inRaft() {
		if _, err := onLeader(ctx, m, pathVoters, voterChange{verbRemove, n.o.ID}, m.changeVoters); err != nil {
			return err
		}
	}
	if err := n.o.Store.SetLocal(localLeft, []byte(m.id.Cluster().ID().String())); err != nil {
		return err
	}
	m.left.Store(true)
	if n.o.Stop != nil {
		n.o.Stop()
	}
	return nil
}

// ForceLeave: see api.Cluster.
func (n *Node) ForceLeave(ctx context.Context, node string, revoke bool) error {
	m, err := n.in()
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := m.mayGovern(); err != nil {
		return err
	}
	member, err := m.findGone(ctx, node, revoke)
	lives := member.Status == api.StatusAlive || member.Status == api.StatusSuspect
	switch {
	case err != nil:
		return err
	case member.Self:
		return &api.RefusedError{Reason: fmt.Sprintf("node %q is the one that was asked; agent leave takes it out", member.Node)}
	case lives && !revoke:
		return &api.RefusedError{Reason: fmt.Sprintf("node %q is %s; agent leave on that node takes it out, or --revoke shuts it out", member.Node, member.Status)}
	}
	if revoke {
		if err := m.revoke(ctx, member.ID); err != nil {
			return err
		}
	}
	if _, err := onLeader(ctx, m, pathVoters, voterChange{verbRemove, member.ID}, m.changeVoters); err != nil {
		return err
	}
	err = m.gossip.ForceLeave(gossip.NodeID(member.ID))
	if errors.Is(err, gossip.ErrMemberAlive) || errors.Is(err, gossip.ErrUnknownMember) {
		return nil
	}
	return err
}

// findGone finds a node that is to be taken out. One that nobody has heard of for
// long is known to raft, and for a revocation an id is enough.
func (m *member) findGone(ctx context.Context, node string, revoke bool) (api.Member, error) {
	member, err := api.FindMember(m.list(), node)
	var missing *api.NotFoundError
	if !errors.As(err, &missing) {
		return member, err
	}
	peers, peersErr := m.n.Peers(ctx)
	if peersErr != nil {
		return api.Member{}, peersErr
	}
	known := slices.ContainsFunc(peers, func(p api.Peer) bool { return p.ID == node })
	if known || revoke && identity.CheckNodeID(node) == nil {
		return api.Member{Node: node, ID: node, Status: api.StatusDead}, nil
	}
	return api.Member{}, err
}

// revoke has every node refuse another from now on, and begins to replace the gossip
// key, which that other knows: in one transaction, so that nobody who has the next key
// has not heard who must not get it.
func (m *member) revoke(ctx context.Context, node string) error {
	_, err := m.ring.rotate(ctx, []kv.Op{kv.Put(kv.Key(deniedPrefix+node), []byte(`{}`))}, "node "+node+" revoked by force-leave")
	return err
}
