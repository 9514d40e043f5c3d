package cluster

import (
	"context"
	"slices"
	"time"

	"grapevine/agent/api"
	"grapevine/kv"
	"grapevine/kv/gossip"
)

// awaitQuestion asks the leader which nodes serve a revision.
type awaitQuestion struct {
	Epoch uint32    `json:"epoch"`
	Rev   uint64    `json:"rev"`
	Share api.Share `json:"share"`
	// Patience is how long the one who asks waits; 0 is as long as the call lasts.
	Patience time.Duration `json:"patience"`
}

// Await: see api.Cluster. The leader is asked, since all nodes tell it at once what
// they serve; without one this node waits for what it hears.
func (n *Node) Await(ctx context.Context, rev kv.Rev, share api.Share) api.Receipt {
	m, err := n.in()
	if err != nil {
		return api.Receipt{Of: 1, Missing: []string{n.o.Name}}
	}
	began := time.Now()
	question := awaitQuestion{Epoch: rev.Epoch, Rev: rev.Rev, Share: share}
	receipt, err := m.askReceipt(ctx, question)
	if err != nil {
		receipt, _ = m.awaitHere(ctx, question)
		receipt.Took = time.Since(began)
	}
	return receipt
}

// receiptMargin is how long before this node's patience ends the leader tells what
// it knows, so that its answer comes in time.
const receiptMargin = 100 * time.Millisecond

func (m *member) askReceipt(ctx context.Context, q awaitQuestion) (api.Receipt, error) {
	if m.lead.leads() {
		return m.awaitHere(ctx, q)
	}
	var receipt api.Receipt
	to := m.lead.news()
	if to.Address == "" {
		return receipt, &errNotLeader{}
	}
	q.Patience = callPatience
	if deadline, bounded := ctx.Deadline(); bounded {
		q.Patience = max(time.Until(deadline)-receiptMargin, time.Millisecond)
	}
	err := m.calls.post(ctx, to.Address, pathAwait, q, &receipt)
	return receipt, err
}

// awaitHere waits for what this node hears.
func (m *member) awaitHere(ctx context.Context, q awaitQuestion) (api.Receipt, error) {
	if q.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.Patience)
		defer cancel()
	}
	began := time.Now()
	rev := kv.Rev{Epoch: q.Epoch, Rev: q.Rev}
	seen := map[gossip.NodeID]bool{}
	var receipt api.Receipt
	for {
		members, applied := m.gossip.Changed(), m.gossip.AppliedChanged()
		if m.count(&receipt, rev, seen, began); receipt.Nodes >= q.Share.Of(receipt.Of) {
			return receipt, nil
		}
		select {
		case <-members:
		case <-applied:
		case <-ctx.Done():
			receipt.Took = time.Since(began)
			return receipt, nil
		}
	}
}

// count brings a receipt up to date. seen are those counted before.
func (m *member) count(r *api.Receipt, rev kv.Rev, seen map[gossip.NodeID]bool, began time.Time) {
	applied := m.gossip.Applied()
	r.Nodes, r.Of, r.Missing = 0, 0, nil
	for _, member := range m.gossip.Members() {
		if !serves(member) {
			continue
		}
		r.Of++
		if at := applied[member.ID].Rev; at.Compare(rev) < 0 {
			r.Missing = append(r.Missing, member.Name)
			continue
		}
		r.Nodes++
		if !seen[member.ID] {
			seen[member.ID] = true
			r.Slowest, r.Took = member.Name, time.Since(began)
		}
	}
	slices.Sort(r.Missing)
}
