package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/kv"
	"grapevine/kv/gossip"
)

const (
	// ringStep is how often the leader looks how far a rotation is.
	ringStep = 500 * time.Millisecond
	// ringAlarm is how long a phase may wait for a node before that is an alarm.
	ringAlarm = time.Minute
	// askRingNews bounds the question of one node.
	askRingNews = 2 * time.Second
)

// lead goes on with a rotation while this node leads, until ctx ends.
func (r *ring) lead(ctx context.Context) {
	for sleep(ctx, ringStep) {
		if !r.m.lead.leads() {
			r.wait(nil)
			continue
		}
		if err := r.step(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("the rotation of the gossip key does not go on", "err", err)
			sleep(ctx, ringEvery)
		}
	}
}

// step writes the next phase if this one is true everywhere.
func (r *ring) step(ctx context.Context) error {
	ring, entry, err := r.stored()
	if err != nil || ring.Phase == identity.RingDone && !ring.Again {
		r.wait(nil)
		return err
	}
	next := ring.Advance()
	if ring.Phase == identity.RingDone {
		if next, err = r.m.id.Authority().Rotate(ring); err != nil {
			return err
		}
	} else {
		waiting := slices.DeleteFunc(r.census(ctx, ring), func(n api.KeyringNode) bool { return n.Ready })
		if r.wait(waiting); len(waiting) > 0 {
			return nil
		}
	}
	_, err = r.write(ctx, next, entry, nil, "agent "+r.m.n.o.Name, fmt.Sprintf("gossip key: generation %d, %s", next.Generation, next.Phase))
	return err
}

// wait notes whom the phase waits for.
func (r *ring) wait(nodes []api.KeyringNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(nodes) == 0 || len(r.waiting) == 0 {
		r.since = time.Now()
	}
	r.waiting = nodes
}

// alarm says that a rotation waits for long, empty if none does.
func (r *ring) alarm() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 || time.Since(r.since) < ringAlarm {
		return ""
	}
	var names []string
	for _, n := range r.waiting {
		names = append(names, n.Node)
	}
	return fmt.Sprintf("the rotation of the gossip key waits for %s, and the last key is taken until then; agent keyring list tells why", strings.Join(names, ", "))
}

// census asks all living nodes for their keys.
func (r *ring) census(ctx context.Context, ring identity.Ring) []api.KeyringNode {
	var live []gossip.Member
	for _, member := range r.m.gossip.Members() {
		if alive(member) {
			live = append(live, member)
		}
	}
	nodes := make([]api.KeyringNode, len(live))
	places := make(chan struct{}, probesAtOnce)
	var asked sync.WaitGroup
	for i, member := range live {
		asked.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			news, err := r.newsOf(ctx, member)
			nodes[i] = api.KeyringNode{Node: member.Name, Uses: news.Uses, Has: news.Has, Ready: err == nil && ready(ring, news)}
			if err != nil {
				nodes[i].Problem = err.Error()
			}
		})
	}
	asked.Wait()
	slices.SortFunc(nodes, func(a, b api.KeyringNode) int { return cmp.Compare(a.Node, b.Node) })
	return nodes
}

func (r *ring) newsOf(ctx context.Context, of gossip.Member) (news ringNews, err error) {
	if string(of.ID) == r.m.n.o.ID {
		return r.news(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askRingNews)
	defer cancel()
	err = r.m.calls.get(ctx, of.Peer, pathRing, &news)
	return news, err
}

// ready tells whether a phase is true on a node: it has what is to be read, and uses
// what is to be used.
func ready(ring identity.Ring, news ringNews) bool {
	if news.Uses != ring.Keys[0].ID {
		return false
	}
	switch ring.Phase {
	case identity.RingAdd:
		return slices.Contains(news.Has, ring.Keys[1].ID)
	case identity.RingDone:
		return len(news.Has) == 1
	}
	return true
}

// write writes a ring in the place of the one that entry holds, and with it others.
// written is false if somebody was faster.
func (r *ring) write(ctx context.Context, next identity.Ring, entry kv.Entry, with []kv.Op, by, message string) (written bool, err error) {
	value, err := r.m.id.Authority().EncodeRing(next)
	if err != nil {
		return false, err
	}
	compare := kv.Compare{Key: identity.RingKey, Target: kv.TargetAbsent}
	if entry.Key != "" {
		compare = kv.Compare{Key: identity.RingKey, Target: kv.TargetModRev, Rev: entry.ModRev}
	}
	result, err := r.m.n.Propose(ctx, kv.Txn{
		Compare: []kv.Compare{compare}, Then: append(with, kv.Put(identity.RingKey, value)), By: by, At: time.Now(), Message: message,
	})
	return result.Succeeded, err
}

// rotate begins a rotation, in one transaction with other operations, and gives the
// generation with which it will be over.
func (r *ring) rotate(ctx context.Context, with []kv.Op, message string) (generation uint64, err error) {
	for {
		if err := r.m.n.Read(ctx); err != nil {
			return 0, err
		}
		ring, entry, err := r.stored()
		if err != nil {
			return 0, err
		}
		next, err := r.m.id.Authority().Rotate(ring)
		if err != nil {
			return 0, err
		}
		written, err := r.write(ctx, next, entry, slices.Clone(with), api.Author(ctx), message)
		switch {
		case err != nil:
			return 0, err
		case written && next.Again:
			return next.Generation + 1, nil
		case written:
			return next.Generation, nil
		}
	}
}

// over returns when a generation is the only one, or ctx ends.
func (r *ring) over(ctx context.Context, generation uint64) {
	for {
		changed := r.m.n.o.Store.Changed()
		ring, _, err := r.stored()
		if err != nil || ring.Generation > generation || ring.Generation == generation && ring.Phase == identity.RingDone {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// censusTime is kept back from the patience of who waits for a rotation, to tell how
// far it is.
const censusTime = askRingNews + 500*time.Millisecond

// RotateKeys: see api.Cluster.
func (n *Node) RotateKeys(ctx context.Context) (api.Keyring, error) {
	m, err := n.in()
	if err != nil {
		return api.Keyring{}, err
	}
	if err := m.mayGovern(); err != nil {
		return api.Keyring{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	generation, err := m.ring.rotate(ctx, nil, "gossip key rotated")
	if err != nil {
		return api.Keyring{}, err
	}
	wait := ctx
	if deadline, bounded := ctx.Deadline(); bounded {
		var release context.CancelFunc
		wait, release = context.WithDeadline(ctx, deadline.Add(-min(censusTime, time.Until(deadline)/2)))
		defer release()
	}
	m.ring.over(wait, generation)
	for {
		keyring, err := n.Keyring(ctx)
		// The last phase is told to be over by the leader; that nodes forget the last key takes a moment.
		if err != nil || !slices.ContainsFunc(keyring.Nodes, func(n api.KeyringNode) bool { return !n.Ready }) || !sleep(wait, ringStep/10) {
			return keyring, err
		}
	}
}

// Keyring: see api.Cluster.
func (n *Node) Keyring(ctx context.Context) (api.Keyring, error) {
	m, err := n.in()
	if err != nil {
		return api.Keyring{}, err
	}
	ring, _, err := m.ring.stored()
	if err != nil {
		return api.Keyring{}, err
	}
	shown := api.Keyring{Generation: ring.Generation, Phase: string(ring.Phase), Again: ring.Again, Nodes: m.ring.census(ctx, ring)}
	for _, e := range ring.Keys {
		shown.Keys = append(shown.Keys, e.ID)
	}
	return shown, nil
}
