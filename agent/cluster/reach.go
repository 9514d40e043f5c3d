package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/kv/gossip"
)

// probeTimeout bounds one probe.
const probeTimeout = 3 * time.Second

// probeTarget is a node to be probed by another.
type probeTarget struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Raft    bool   `json:"raft"`
}

// Reachability: see api.Cluster.
func (n *Node) Reachability(ctx context.Context) ([]api.Reach, error) {
	m, err := n.in()
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	var live []gossip.Member
	for _, member := range m.gossip.Members() {
		if alive(member) {
			live = append(live, member)
		}
	}
	found := make([][]api.Reach, len(live))
	var asked sync.WaitGroup
	for i, from := range live {
		asked.Go(func() { found[i] = m.askToProbe(ctx, from, live) })
	}
	asked.Wait()
	return slices.Concat(found...), nil
}

// takesPart says whether a member has a place in raft.
func takesPart(m gossip.Member) bool { return m.Role != gossip.Edge }

// askToProbe has one node probe all others.
func (m *member) askToProbe(ctx context.Context, from gossip.Member, live []gossip.Member) []api.Reach {
	var targets []probeTarget
	for _, to := range live {
		if to.ID != from.ID {
			targets = append(targets, probeTarget{string(to.ID), to.Peer, takesPart(to) && takesPart(from)})
		}
	}
	reaches, err := m.probeFrom(ctx, from, targets)
	if err == nil {
		return m.named(reaches, from)
	}
	reaches = nil
	for _, to := range targets {
		reaches = append(reaches, api.Reach{From: from.Name, To: m.nameOf(to.Node), Problem: from.Name + " did not answer: " + err.Error()})
	}
	return reaches
}

func (m *member) probeFrom(ctx context.Context, from gossip.Member, targets []probeTarget) (reaches []api.Reach, err error) {
	if string(from.ID) == m.n.o.ID {
		return m.probe(ctx, targets)
	}
	err = m.calls.post(ctx, from.Peer, pathProbe, targets, &reaches)
	return reaches, err
}

// named puts names in place of ids.
func (m *member) named(reaches []api.Reach, from gossip.Member) []api.Reach {
	for i := range reaches {
		reaches[i].From, reaches[i].To = from.Name, m.nameOf(reaches[i].To)
	}
	return reaches
}

// probesAtOnce bounds the probes under way: a cluster may have a thousand nodes.
const probesAtOnce = 32

// probe probes others from here; From and To are ids.
func (m *member) probe(ctx context.Context, targets []probeTarget) ([]api.Reach, error) {
	known := map[string]string{}
	for _, member := range m.gossip.Members() {
		known[string(member.ID)] = member.Peer
	}
	reaches := make([]api.Reach, len(targets))
	places := make(chan struct{}, probesAtOnce)
	var probes sync.WaitGroup
	for i, to := range targets {
		reaches[i] = api.Reach{From: m.n.o.ID, To: to.Node}
		if known[to.Node] != to.Address {
			// To dial whatever another node names would make this one its scanner of ports.
			reaches[i].Problem = fmt.Sprintf("%s does not know it at %s", m.n.o.Name, to.Address)
			continue
		}
		probes.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			reaches[i].UDP = probed(func() error { _, err := m.gossip.Ping(gossip.NodeID(to.Node)); return err })
			reaches[i].TCP = probed(func() error { return m.probeStream(ctx, identity.ProtocolPeer, to) })
			if to.Raft {
				reaches[i].Raft = probed(func() error { return m.probeStream(ctx, identity.ProtocolRaft, to) })
			}
		})
	}
	probes.Wait()
	return reaches, nil
}

func probed(try func() error) *api.Probe {
	began := time.Now()
	if err := try(); err != nil {
		return &api.Probe{Problem: err.Error()}
	}
	return &api.Probe{OK: true, Us: time.Since(began).Microseconds()}
}

// probeStream connects, and proves who is at both ends.
func (m *member) probeStream(ctx context.Context, protocol string, to probeTarget) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := m.mux.DialNode(ctx, protocol, to.Address, to.Node)
	if err != nil {
		return err
	}
	return conn.Close()
}
