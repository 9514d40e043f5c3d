package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grapevine/agent/announcing"
	"grapevine/kv"
	"grapevine/kv/gossip"
)

// Each gateway can be asked how far it is with what another node announces. The answer comes when it is that far, or when
// the one who asks has no more patience.

const (
	pathApplied = "/node/applied" // ownedQuestion to ownedNews: does the gateway serve it
	pathDrained = "/node/drained" // ownedQuestion to ownedNews: is it done with an instance
)

// ownedQuestion is about what a node did up to a mark.
type ownedQuestion struct {
	Owner    kv.OwnerID   `json:"owner"`
	Mark     kv.OwnerMark `json:"mark"`
	Instance kv.Key       `json:"instance,omitempty"` // of pathDrained
}

// ownedNews says whether the gateway is so far, and why not yet.
type ownedNews struct {
	Done bool   `json:"done"`
	Why  string `json:"why,omitempty"`
}

// answerMargin is how long before the patience of the one who asks ends it is told why it waits.
const answerMargin = 200 * time.Millisecond

var _ announcing.Gateways = (*Node)(nil)

// serves tells whether a member is one for which others wait.
func serves(m gossip.Member) bool { return alive(m) && !m.NoGateway }

// Gateways: see announcing.Gateways.
func (n *Node) Gateways() (nodes []announcing.Node, changed <-chan struct{}) {
	m := n.member.Load()
	if m == nil {
		if n.o.Gateway != nil {
			nodes = []announcing.Node{{ID: n.o.ID, Name: n.o.Name}}
		}
		return nodes, n.entered
	}
	changed = m.gossip.Changed()
	for _, member := range m.gossip.Members() {
		if serves(member) {
			nodes = append(nodes, announcing.Node{ID: string(member.ID), Name: member.Name})
		}
	}
	return nodes, changed
}

// Applied: see announcing.Gateways.
func (n *Node) Applied(ctx context.Context, node string, mark kv.OwnerMark) error {
	return n.askGateway(ctx, node, pathApplied, ownedQuestion{Owner: kv.OwnerID(n.o.ID), Mark: mark})
}

// Drained: see announcing.Gateways.
func (n *Node) Drained(ctx context.Context, node string, instance kv.Key, mark kv.OwnerMark) error {
	return n.askGateway(ctx, node, pathDrained, ownedQuestion{Owner: kv.OwnerID(n.o.ID), Mark: mark, Instance: instance})
}

// askGateway asks one gateway, which may be this node's own.
func (n *Node) askGateway(ctx context.Context, node, path string, q ownedQuestion) error {
	if node == n.o.ID && n.o.Gateway != nil {
		return q.ask(ctx, n.o.Gateway, path)
	}
	m, err := n.in()
	if err != nil {
		return err
	}
	for _, member := range m.gossip.Members() {
		if string(member.ID) != node || !alive(member) {
			continue
		}
		var news ownedNews
		switch err := m.calls.post(ctx, member.Peer, path, q, &news); {
		case err != nil:
			return fmt.Errorf("node %s can't be asked: %w", member.Name, err)
		case !news.Done:
			return errors.New(news.Why)
		}
		return nil
	}
	return fmt.Errorf("node %s is not there", node)
}

// ask asks this node's own gateway.
func (q ownedQuestion) ask(ctx context.Context, g Gateway, path string) error {
	if path == pathDrained {
		return g.Drained(ctx, q.Instance, q.Owner, q.Mark)
	}
	return g.WaitOwned(ctx, q.Owner, q.Mark)
}

func (m *member) appliedHere(ctx context.Context, q ownedQuestion) (ownedNews, error) {
	return m.askedGateway(ctx, pathApplied, q)
}

func (m *member) drainedHere(ctx context.Context, q ownedQuestion) (ownedNews, error) {
	return m.askedGateway(ctx, pathDrained, q)
}

// askedGateway answers another node.
func (m *member) askedGateway(ctx context.Context, path string, q ownedQuestion) (ownedNews, error) {
	if m.n.o.Gateway == nil {
		return ownedNews{Done: true}, nil // it sends nobody anything
	}
	if deadline, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-answerMargin))
		defer cancel()
	}
	if _, known := m.n.o.Store.OwnerMark(q.Owner); !known && path == pathApplied {
		return ownedNews{Why: "it has not heard of the node yet"}, nil
	}
	err := q.ask(ctx, m.n.o.Gateway, path)
	switch {
	case err == nil:
		return ownedNews{Done: true}, nil
	case errors.Is(err, context.DeadlineExceeded) && path == pathDrained:
		return ownedNews{Why: "it still has requests to the instance under way, or has not heard of the draining"}, nil
	case errors.Is(err, context.DeadlineExceeded):
		return ownedNews{Why: "it does not serve that yet"}, nil
	}
	return ownedNews{}, err
}
