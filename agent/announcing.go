package agent

import (
	"context"
	"sync"

	"grapevine/agent/announcing"
	"grapevine/gateway"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// openLeases makes the leases of the instances that are announced here. The node's part in its cluster is there already, if it
// has one: it carries the drain handshake.
func (a *Agent) openLeases(file *spec.File) error {
	own, err := a.store.Own(kv.OwnerID(a.id))
	if err != nil {
		return err
	}
	o := announcing.Options{Node: kv.OwnerID(a.id), Region: a.settings.region, Own: own, Store: a.store, Logger: a.logger}
	if a.gateway != nil {
		o.Gateway = a.gateway
	}
	if a.cluster != nil {
		o.Gateways = a.cluster
	} else {
		o.Gateways = lone{a.id, a.settings.node, a.gateway}
	}
	a.leases = announcing.New(o)
	a.policy = announcePolicy{store: a.store, leases: a.leases, warn: a.logger.Warn}
	a.policy.setStatic(file)
	return nil
}

// lone are the gateways of a node that is in no cluster: its own.
type lone struct {
	id, name string
	gateway  *gateway.Gateway
}

// Gateways never changes.
func (l lone) Gateways() ([]announcing.Node, <-chan struct{}) {
	return []announcing.Node{{ID: l.id, Name: l.name}}, nil
}

// Applied asks the only one.
func (l lone) Applied(ctx context.Context, _ string, mark kv.OwnerMark) error {
	return l.gateway.WaitOwned(ctx, kv.OwnerID(l.id), mark)
}

// Drained asks the only one.
func (l lone) Drained(ctx context.Context, _ string, instance kv.Key, mark kv.OwnerMark) error {
	return l.gateway.Drained(ctx, instance, kv.OwnerID(l.id), mark)
}

// policyKey says who may announce what.
const policyKey = "gateway/config/announce"

// announcePolicy tells the leases what policyKey says, or where it is not there the static file. It reads the store itself, since
// there may be no gateway.
type announcePolicy struct {
	store  *kv.Store
	leases *announcing.Leases
	warn   func(string, ...any)

	mu     sync.Mutex // guards what is below
	static *spec.Announce
	begun  bool
	rev    kv.Rev // of the key when it was read; zero: it was not there
}

// follow tells the leases of changes until ctx ends.
func (p *announcePolicy) follow(ctx context.Context) error {
	for {
		changed := p.store.Changed()
		p.read()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// setStatic takes the file's section, which may be missing.
func (p *announcePolicy) setStatic(file *spec.File) {
	p.mu.Lock()
	p.static, _ = file.Config["announce"].Value.(*spec.Announce)
	p.begun = false
	p.mu.Unlock()
	p.read()
}

func (p *announcePolicy) read() {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry, there := p.store.View().Get(policyKey)
	if p.begun && entry.ModRev == p.rev {
		return
	}
	policy := p.static
	if there {
		decoded, err := spec.Decode(policyKey, entry.Value, spec.FormJSON)
		if policy, _ = decoded.Value.(*spec.Announce); err != nil || policy == nil {
			p.warn("who may announce can't be read, so nobody may any more that is not announced yet", "key", policyKey, "err", err)
			policy = &spec.Announce{Default: "deny"}
		}
	}
	p.begun, p.rev = true, entry.ModRev
	p.leases.SetPolicy(policy)
}
