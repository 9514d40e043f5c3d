package agent

import (
	"grapevine/gateway"
	"grapevine/kv"
)

// peers are the other nodes as the gateway knows them. The node's part in its cluster comes after the gateway: until
// then there is nobody else.
type peers struct {
	a   *Agent
	own *kv.Own
}

// peers are nil for a node that is in no cluster.
func (a *Agent) peers() (gateway.Peers, error) {
	if a.settings.gossip.value == "" {
		return nil, nil
	}
	own, err := a.store.Own(kv.OwnerID(a.id))
	if err != nil {
		return nil, err
	}
	return &peers{a, own}, nil
}

// Gateways: see gateway.Peers.
func (p *peers) Gateways() (self string, living []string, changed <-chan struct{}) {
	if p.a.cluster == nil {
		return p.a.id, []string{p.a.id}, nil
	}
	nodes, changed := p.a.cluster.Gateways()
	for _, node := range nodes {
		living = append(living, node.ID)
	}
	return p.a.id, living, changed
}

// Put: see gateway.Peers.
func (p *peers) Put(key kv.Key, value []byte) error { return p.own.Put(key, value) }

// Withdraw: see gateway.Peers.
func (p *peers) Withdraw(keys ...kv.Key) error { return p.own.Withdraw(keys...) }
