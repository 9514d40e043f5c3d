package cluster

import (
	"context"

	"grapevine/kv"
)

// Propose, Trial and Read are the API's way to the leader.

// Propose makes a write, wherever the leader is. It tries for as long as ctx lasts.
func (n *Node) Propose(ctx context.Context, t kv.Txn) (kv.Result, error) {
	m, err := n.in()
	if err != nil {
		return kv.Result{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	go m.lead.chase(ctx)
	result, err := m.order().Propose(ctx, t)
	return result, m.told(err)
}

// Trial has the leader judge a write.
func (n *Node) Trial(ctx context.Context, t kv.Txn) (kv.Result, error) {
	m, err := n.in()
	if err != nil {
		return kv.Result{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	go m.lead.chase(ctx)
	result, err := m.order().Trial(ctx, t)
	return result, m.told(err)
}

// Read returns when this node's store has all that was committed before the call.
func (n *Node) Read(ctx context.Context) error {
	m, err := n.in()
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	go m.lead.chase(ctx)
	_, err = m.order().Read(ctx)
	return m.told(err)
}

// order is the way of writes: by raft while the node has a part in it, else by
// whoever leads.
func (m *member) order() interface {
	Propose(ctx context.Context, t kv.Txn) (kv.Result, error)
	Trial(ctx context.Context, t kv.Txn) (kv.Result, error)
	Read(ctx context.Context) (kv.View, error)
} {
	if m.inRaft() {
		return m.raft
	}
	return m.edge
}
