package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/kv"
)

// The keys of gossip are replaced in phases, see identity.Ring. The ring stands in the
// store, where the leader writes each phase once the one before is true on all living
// nodes. Every node does what its ring says (keep); the leader looks at all and goes on
// (lead, see ring_lead.go). No key is ever in the store.

// localRing is the local value that holds the newest ring that the node knows: it may
// have been told it by another node before its store had it.
const localRing = "cluster/keyring"

const (
	// ringEvery is how often a node looks whether others can't hear it any more, and
	// whether what failed can be done now; jittered.
	ringEvery = 5 * time.Second
	// ringRetry is the pause after a key could not be had, at first and at most.
	ringRetry, mostRingRetry = 100 * time.Millisecond, 3 * time.Second
	// ringSeldom is how much more seldom a node asks those who are missing that has more
	// others to talk to: they are as good as certainly dead. Few may have been away together.
	ringSeldom = 6
	// ringAsks is how many of the missing are asked at once.
	ringAsks = 3
)

// ring is what the node knows of the gossip keys.
type ring struct {
	m   *member
	log *slog.Logger

	// mu guards what follows.
	mu      sync.Mutex
	uses    string // the id of the key that the node encrypts with
	has     []string
	waiting []api.KeyringNode // on the leader: whom the phase waits for
	since   time.Time         // and since when
}

// ringNews is which keys a node has.
type ringNews struct {
	Generation uint64             `json:"generation"`
	Phase      identity.RingPhase `json:"phase"`
	Uses       string             `json:"uses"`
	Has        []string           `json:"has"`
}

// ringGift is a ring, as it is stored, and those of its keys that the giver has.
type ringGift struct {
	Ring []byte   `json:"ring,omitempty"`
	Keys [][]byte `json:"keys,omitempty"`
}

func newRing(m *member) *ring {
	r := &ring{m: m, log: m.n.o.Logger}
	r.note(m.id.GossipKeys())
	return r
}

func (r *ring) note(keys [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.has = nil
	for _, key := range keys {
		r.has = append(r.has, identity.GossipKeyID(key))
	}
	r.uses = r.has[0]
}

// stored is the ring in this node's store, with the entry that holds it.
func (r *ring) stored() (identity.Ring, kv.Entry, error) {
	entry, there := r.m.n.o.Store.View().Get(identity.RingKey)
	if !there {
		return r.m.id.Ring(), kv.Entry{}, nil
	}
	ring, err := r.m.id.Cluster().DecodeRing(entry.Value)
	return ring, entry, err
}

// newest is the ring that this node goes by.
func (r *ring) newest() (identity.Ring, error) {
	ring, _, err := r.stored()
	if value, there := r.m.n.o.Store.Local(localRing); there {
		// One of another cluster, before it was left, is none.
		if told, toldErr := r.m.id.Cluster().DecodeRing(value); toldErr == nil && (err != nil || told.Compare(ring) > 0) {
			return told, nil
		}
	}
	return ring, err
}

// forget drops the ring that the node was told once its store has it: what the store
// says later counts alone, also when an older state was put in its place.
func (r *ring) forget() error {
	_, there := r.m.n.o.Store.Local(localRing)
	stored, _, err := r.stored()
	if !there || err != nil {
		return nil
	}
	if newest, err := r.newest(); err != nil || newest.Compare(stored) > 0 {
		return nil
	}
	return r.m.n.o.Store.DeleteLocal(localRing)
}

// keep does what the ring says, whenever it changes, until ctx ends.
func (r *ring) keep(ctx context.Context) {
	pause := ringRetry
	for {
		changed := r.m.n.o.Store.Changed()
		wait := ringEvery/2 + rand.N(ringEvery)
		if err := errors.Join(r.apply(ctx, nil), r.forget()); err != nil {
			r.log.Warn("the gossip keys are not those that they should be", "err", err)
			wait, pause = pause/2+rand.N(pause), min(2*pause, mostRingRetry)
		} else {
			pause = ringRetry
		}
		if !r.await(ctx, changed, wait) {
			return
		}
	}
}

// await returns when there may be something to do: the ring in the store is another
// one, or the time is over, and somebody who is missing may have been asked.
func (r *ring) await(ctx context.Context, changed <-chan struct{}, wait time.Duration) bool {
	_, before, _ := r.stored()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			r.askMissing(ctx)
			return ctx.Err() == nil
		case <-changed:
			changed = r.m.n.o.Store.Changed()
			if _, now, _ := r.stored(); now.ModRev != before.ModRev {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// apply brings the keys in line with the newest ring. given are keys that others gave.
func (r *ring) apply(ctx context.Context, given [][]byte) error {
	ring, err := r.newest()
	if err != nil {
		return err
	}
	keys, missing, err := r.m.id.RingKeys(ring, given)
	if err == nil && len(missing) > 0 {
		if given, err = r.ask(ctx, ring); err == nil {
			keys, missing, err = r.m.id.RingKeys(ring, given)
		}
	}
	switch {
	case err != nil:
		return err
	case len(keys) == 0:
		return fmt.Errorf("gossip keys %q: nobody gave them", missing)
	}
	if err := r.set(keys, ring); err != nil {
		return err
	}
	if len(missing) > 0 && missing[0] == ring.Keys[0].ID {
		return fmt.Errorf("gossip key %s: nobody gave it", missing[0])
	}
	return nil
}

// set has the node use other keys: on disk first, so that it has after a crash what
// the others were told that it has.
func (r *ring) set(keys [][]byte, ring identity.Ring) error {
	if same(keys, r.m.id.GossipKeys()) && r.hasSet(keys) {
		return nil
	}
	if err := r.m.id.SetGossipKeys(keys); err != nil {
		return err
	}
	if err := r.m.gossip.SetKeys(keys...); err != nil {
		return err
	}
	r.note(keys)
	r.log.Info("gossip keys changed", "generation", ring.Generation, "phase", string(ring.Phase), "uses", identity.GossipKeyID(keys[0]))
	return nil
}

func same(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if string(a[i]) != string(b[i]) {
			return false
		}
	}
	return true
}

// hasSet tells whether gossip has these keys, too: an attempt may have failed between.
func (r *ring) hasSet(keys [][]byte) bool {
	news := r.news()
	if len(news.Has) != len(keys) {
		return false
	}
	for i, key := range keys {
		if news.Has[i] != identity.GossipKeyID(key) {
			return false
		}
	}
	return true
}

func (r *ring) news() ringNews {
	ring, err := r.newest()
	if err != nil {
		ring = identity.Ring{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return ringNews{ring.Generation, ring.Phase, r.uses, r.has}
}

// ask has others give the keys of a ring that this node's store names.
func (r *ring) ask(ctx context.Context, ring identity.Ring) ([][]byte, error) {
	voter, ok := r.m.anyVoter()
	if !ok {
		return nil, errors.New("no voter is alive who could give the gossip keys")
	}
	gift, err := r.askOne(ctx, voter.Peer)
	if err != nil {
		return nil, fmt.Errorf("voter %s: %w", voter.Name, err)
	}
	return r.named(gift.Keys, ring), nil
}

const askRing = 5 * time.Second

func (r *ring) askOne(ctx context.Context, address string) (gift ringGift, err error) {
	ctx, cancel := context.WithTimeout(ctx, askRing)
	defer cancel()
	err = r.m.calls.get(ctx, address, pathKeys, &gift)
	return gift, err
}

// named are those of some keys that a ring names: whoever gave them may have made up
// others.
func (r *ring) named(keys [][]byte, ring identity.Ring) (named [][]byte) {
	for _, key := range keys {
		if ring.Names(identity.GossipKeyID(key)) {
			named = append(named, key)
		}
	}
	return named
}

// askMissing asks a few of those where nobody lives, as gossip has it, for the keys:
// they may be alive and have others by now, since this node was away, or asleep, while
// they were replaced. A ring is signed, so that it does not matter who is asked. Some are
// asked at once, since others who were away know no more, or are at another address.
func (r *ring) askMissing(ctx context.Context) {
	missing := r.m.gossip.Missing()
	if len(missing) == 0 || len(r.m.others()) > len(missing) && rand.N(ringSeldom) > 0 {
		return
	}
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	for gift := range r.askAll(ctx, missing[:min(len(missing), ringAsks)]) {
		if err := r.take(ctx, gift); err != nil {
			r.log.Warn("gossip keys that another node gave are not taken", "err", err)
		}
	}
}

// askAll gives what nodes at some addresses answer. One that is gone, or knows no more
// than how the cluster began, gives nothing.
func (r *ring) askAll(ctx context.Context, addresses []string) <-chan ringGift {
	gifts := make(chan ringGift, len(addresses))
	var asking sync.WaitGroup
	for _, address := range addresses {
		asking.Go(func() {
			if gift, err := r.askOne(ctx, address); err == nil && len(gift.Ring) > 0 {
				gifts <- gift
			}
		})
	}
	asking.Wait()
	close(gifts)
	return gifts
}

// take goes over to a newer ring that another node gave, or takes the keys of the same:
// the store may have named them while no voter was known to live.
func (r *ring) take(ctx context.Context, gift ringGift) error {
	theirs, err := r.m.id.Cluster().DecodeRing(gift.Ring)
	if err != nil {
		return err
	}
	given := r.named(gift.Keys, theirs)
	ours, err := r.newest()
	switch {
	case err == nil && theirs.Compare(ours) < 0:
		return nil
	case err == nil && theirs.Compare(ours) == 0:
		return r.apply(ctx, given)
	}
	if _, missing, err := r.m.id.RingKeys(theirs, given); err != nil || len(missing) > 0 {
		return errors.Join(err, fmt.Errorf("gossip keys %q are missing", missing))
	}
	if err := r.m.n.o.Store.SetLocal(localRing, gift.Ring); err != nil {
		return err
	}
	return r.apply(ctx, given)
}

// give answers another node that lacks keys. Keys are given by what the store says: it
// names those who were shut out when the keys were replaced before it names the keys.
func (r *ring) give(ctx context.Context, _ struct{}) (gift ringGift, err error) {
	if peer, known := identity.PeerFrom(ctx); known && r.m.n.denied(peer.Node) {
		return gift, fmt.Errorf("node %s was revoked", peer.Node)
	}
	ring, entry, err := r.stored()
	if err != nil || entry.Key == "" {
		return gift, err
	}
	return ringGift{Ring: entry.Value, Keys: r.named(r.m.id.GossipKeys(), ring)}, nil
}
