package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"grapevine/kv"
	"grapevine/kv/gossip"
)

const (
	// pathOwner asks a node what it knows of another as an owner: ownerQuestion to
	// ownerNews.
	pathOwner = "/node/owner"

	// meetTime is how long a node that starts waits to meet others before it announces
	// anything, since one of them may know a higher incarnation of it.
	meetTime = 3 * time.Second
	// ownerPatience bounds one such question.
	ownerPatience = 2 * time.Second
	// reclaimTime is how long what the node had announced before it restarted stays,
	// if nobody announces it again.
	reclaimTime = 15 * time.Second
	// retryTime is the pause after the disk could not keep an incarnation, and the least
	// time between two looks for doubles.
	retryTime = time.Second
)

// FencedError is why a node ends that has found another process with its identity.
type FencedError struct{ Node, Address string }

func (e *FencedError) Error() string {
	return fmt.Sprintf("fenced: another agent with this node's id %s runs at %s, so this one stops; "+
		"a copy of a data directory is not a second node: start it with an empty --data-dir and --join", e.Node, e.Address)
}

type ownerQuestion struct {
	Owner kv.OwnerID `json:"owner"`
}

// ownerNews is what a node says of itself and of the owner that it was asked about.
type ownerNews struct {
	Node  string       `json:"node"`
	Boot  string       `json:"boot"`
	Mark  kv.OwnerMark `json:"mark"`  // of the node itself; incarnation 0: it announces nothing yet
	Known uint64       `json:"known"` // the highest incarnation of the owner that it has heard of
	// Living are the addresses of the processes that it takes for the owner's.
	Living []string `json:"living,omitempty"`
}

// announcer gives this node's own keys their incarnation, and sees that nobody else
// speaks as this node.
type announcer struct {
	m   *member
	own *kv.Own
}

func newAnnouncer(m *member) (*announcer, error) {
	own, err := m.n.o.Store.Own(kv.OwnerID(m.n.o.ID))
	return &announcer{m: m, own: own}, err
}

// news answers another node.
func (a *announcer) news(_ context.Context, q ownerQuestion) (ownerNews, error) {
	news := ownerNews{Node: a.m.n.o.ID, Boot: a.m.boot, Mark: a.own.Mark()}
	for _, status := range a.m.n.o.Store.Owners() {
		if status.Owner == q.Owner {
			news.Known = status.Mark.Incarnation
		}
	}
	for _, member := range a.m.gossip.Living(gossip.NodeID(q.Owner)) {
		news.Living = append(news.Living, member.Peer)
	}
	return news, nil
}

// run announces until ctx is over. An error means that the node must not go on.
func (a *announcer) run(ctx context.Context) error {
	a.meet(ctx)
	highest, living := a.askOthers(ctx)
	if err := a.fence(ctx, living...); err != nil {
		return err
	}
	a.begin(ctx, highest)
	reclaim := time.NewTimer(reclaimTime)
	defer reclaim.Stop()
	for ctx.Err() == nil {
		disputed, dispute := a.own.Disputed()
		members := a.m.gossip.Changed()
		if err := a.fence(ctx); err != nil {
			return err
		}
		if disputed.Incarnation > 0 {
			a.m.n.o.Logger.Warn("others know this node by a later start than its disk does", "incarnation", disputed.Incarnation)
			a.begin(ctx, disputed.Incarnation)
			continue
		}
		select {
		case <-dispute:
		case <-members:
			sleep(ctx, retryTime)
		case <-reclaim.C:
			a.dropUnclaimed()
		case <-ctx.Done():
		}
	}
	return nil
}

// meet waits for another node, or until it is likely that there is none.
func (a *announcer) meet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	for {
		changed := a.m.gossip.Changed()
		if len(a.m.others()) > 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// askedAtStart is how many nodes are asked what they know of this one: what one has, all have, and a thousand that
// restart at once must not dial a million times.
const askedAtStart = 16

// askOthers asks some other nodes for the highest incarnation that they know of this one,
// and where they see it: a process that has just begun knows few members itself.
func (a *announcer) askOthers(ctx context.Context) (highest uint64, living []string) {
	var mu sync.Mutex
	some := peers(a.m.others())
	rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	a.askEach(ctx, some[:min(len(some), askedAtStart)], func(_ string, news ownerNews) {
		mu.Lock()
		defer mu.Unlock()
		highest, living = max(highest, news.Known), append(living, news.Living...)
	})
	return highest, living
}

func peers(members []gossip.Member) (addresses []string) {
	for _, member := range members {
		addresses = append(addresses, member.Peer)
	}
	return addresses
}

// askEach hands over what each address answers, from goroutines that have ended when it returns.
func (a *announcer) askEach(ctx context.Context, addresses []string, hear func(string, ownerNews)) {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	var group sync.WaitGroup
	for _, address := range addresses {
		group.Go(func() {
			var news ownerNews
			if a.m.calls.post(ctx, address, pathOwner, ownerQuestion{kv.OwnerID(a.m.n.o.ID)}, &news) == nil {
				hear(address, news)
			}
		})
	}
	group.Wait()
}

// fence looks whether another process that lives has this node's id and comes before this
// one. That a former boot of this node is still in the list of members means nothing: it
// does not answer. living are addresses beside those that this node knows.
func (a *announcer) fence(ctx context.Context, living ...string) error {
	var mu sync.Mutex
	var fenced error
	doubles := append(peers(a.m.gossip.Doubles()), living...)
	slices.Sort(doubles)
	doubles = slices.DeleteFunc(slices.Compact(doubles), func(address string) bool { return address == a.m.n.advertise.Address.String() })
	mine := a.own.Mark()
	a.askEach(ctx, doubles, func(address string, news ownerNews) {
		if news.Node != a.m.n.o.ID || news.Boot == a.m.boot || !before(news, mine, a.m.boot) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fenced = &FencedError{Node: a.m.n.o.ID, Address: address}
	})
	return fenced
}

// before decides between two processes with one id, so that both come to the same: the one
// of the higher incarnation goes on. One that has not announced anything yet has none.
func before(other ownerNews, mine kv.OwnerMark, boot string) bool {
	return cmp.Or(cmp.Compare(other.Mark.Incarnation, mine.Incarnation), cmp.Compare(other.Boot, boot)) > 0
}

// begin takes an incarnation above one that others know. It tries until the disk keeps it: one that
// is not on disk might be taken twice.
func (a *announcer) begin(ctx context.Context, above uint64) {
	told := false
	for {
		incarnation, err := a.own.Begin(above)
		if err == nil {
			a.m.n.o.Logger.Info("ephemeral keys are announced", "incarnation", incarnation)
			return
		}
		if !told {
			told = true
			a.m.n.o.Logger.Error("ephemeral keys are not announced", "err", err)
		}
		if !sleep(ctx, retryTime) {
			return
		}
	}
}

func (a *announcer) dropUnclaimed() {
	if pending := a.own.Pending(); len(pending) > 0 {
		a.m.n.o.Logger.Info("withdrawn what nobody has announced again since the restart", "keys", len(pending), "within", reclaimTime.String())
		_ = a.own.DropPending() // withdrawing needs nothing that could fail
	}
}

// retire tells the others what becomes of this node's keys: they hold them for a restart,
// or drop them with a node that leaves.
func (a *announcer) retire() {
	if a.m.left.Load() {
		_ = a.own.WithdrawAll() // as above
		return
	}
	_ = a.own.Hold()
}

// NodeFacts is the value of gateway/nodes/{id}: what changes slowly of a node.
type NodeFacts struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Build     string            `json:"build,omitempty"`
	Region    string            `json:"region,omitempty"`
	Role      string            `json:"role"`
	Address   string            `json:"address"`             // by which other nodes reach it
	Addresses map[string]string `json:"addresses,omitempty"` // of its listeners, by name
}

// nodePrefix is where the facts of nodes stand.
const nodePrefix = "gateway/nodes/"

// tellFacts announces what this node is, if that has changed.
func (a *announcer) tellFacts() {
	o := a.m.n.o
	value, err := json.Marshal(NodeFacts{
		Name: o.Name, Version: o.Version, Build: o.Build, Region: o.Region, Role: a.m.role().String(),
		Address: a.m.n.advertise.Address.String(), Addresses: o.Addresses,
	})
	if err == nil {
		err = a.own.Put(kv.Key(nodePrefix+o.ID), value)
	}
	if err != nil {
		o.Logger.Error("the node's facts are not announced", "err", err)
	}
}
