package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/identity"
	"grapevine/agent/mux"
	"grapevine/kv"
)

// Node is this node in its cluster, or on its way into one.
type Node struct {
	o         Options
	advertise mux.Advertised
	member    atomic.Pointer[member] // nil outside
	entered   chan struct{}          // closed when there is a member
	cancel    context.CancelFunc
	ctx       context.Context // over when the Node is closed

	// mu guards what follows.
	mu sync.Mutex
	// outside is why the node is in no cluster now.
	outside error
	served  served

	// adopts is who the node is, while it has to take its cluster's state before it
	// enters; nil when it has not. It is for New and Run.
	adopts *identity.Identity
}

// served is what the node serves.
type served struct {
	rev  kv.Rev
	hash string
}

var _ api.Cluster = (*Node)(nil)

// errJoining is what a node says that waits to be let in.
var errJoining = &api.RefusedError{Reason: "this node has not joined its cluster yet; its log says whom it asks, and what they say"}

// New makes the node. A member, and a node that founds a cluster, is one when New
// returns: nothing of it waits for others. What wants to join does so in Run.
func New(o Options) (_ *Node, err error) {
	n := &Node{o: o, entered: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			n.cancel()
			err = errors.Join(err, o.Port.close())
		}
	}()
	if n.advertise, err = n.findAddress(); err != nil {
		return nil, err
	}
	id, err := identity.Open(n.identity())
	switch {
	case errors.Is(err, identity.ErrNoMember) && o.Join != nil:
		if rev := o.Store.View().Rev(); rev.Rev > 0 && !o.Adopt {
			return nil, fmt.Errorf("this node holds revision %s, and its identity is not there, so that nobody knows of which cluster that is: "+
				"put the identity back, start it with another --data-dir, or with --adopt to give up what it holds", rev)
		}
		n.outside = errJoining
		return n, nil
	case errors.Is(err, identity.ErrNoMember) && o.Gateway == nil:
		return nil, errors.New("a node without a gateway can't found a cluster: give it --join")
	case errors.Is(err, identity.ErrNoMember):
		return n, n.orServe(n.found())
	case err != nil:
		return nil, err
	}
	return n, n.orServe(n.resume(id))
}

// orServe lets a node whose raft can't start serve what it holds: its disk may fail,
// and a node that does not start serves nobody.
func (n *Node) orServe(err error) error {
	var broken *raftError
	if !errors.As(err, &broken) {
		return err
	}
	n.o.Logger.Error("this node takes no part in its cluster", "err", broken.err)
	n.outside = fmt.Errorf("%w: raft's log can't be used: %w; once the disk is well, start the agent again", kv.ErrReadOnly, broken.err)
	return nil
}

// raftError is why raft can't start.
type raftError struct{ err error }

func (e *raftError) Error() string { return e.err.Error() }

// resume enters the cluster of which the node is a member, or prepares to join
// another.
func (n *Node) resume(id *identity.Identity) error {
	if a, adopts := n.adoption(); adopts && a.cluster == id.Cluster().ID().String() {
		n.outside, n.adopts = errAdopting, id
		return nil
	}
	if left, has := n.o.Store.Local(localLeft); has && string(left) == id.Cluster().ID().String() && n.o.Join == nil {
		n.outside = &api.RefusedError{Reason: fmt.Sprintf("this node has left cluster %s; start it with --join to return", left)}
		return nil
	}
	if n.o.Join == nil {
		return n.enter(id, nil)
	}
	if n.o.Join.Token.Cluster == id.Cluster().ID() {
		if err := n.o.Store.DeleteLocal(localLeft); err != nil {
			return err
		}
		return n.enter(id, n.o.Join.seeds())
	}
	if err := n.mayGiveUp(id); err != nil {
		return err
	}
	n.outside = errJoining
	return nil
}

// mayGiveUp tells whether what the node holds of its cluster may go.
func (n *Node) mayGiveUp(id *identity.Identity) error {
	if n.o.Adopt || n.o.Store.View().Rev().Rev == 0 {
		return nil
	}
	return fmt.Errorf("the token is for cluster %s, and this node holds revision %s of cluster %s: "+
		"start it without --join, with another --data-dir, or with --adopt to give up what it holds",
		n.o.Join.Token.Cluster, n.o.Store.View().Rev(), id.Cluster().ID())
}

// findAddress is the address by which others reach this node.
func (n *Node) findAddress() (mux.Advertised, error) {
	listen, err := netip.ParseAddrPort(n.o.Port.Listener.Addr().String())
	if err != nil {
		return mux.Advertised{}, fmt.Errorf("gossip listener %q: %w", n.o.Port.Listener.Addr(), err)
	}
	var seeds []string
	if n.o.Join != nil {
		seeds = n.o.Join.seeds()
	}
	return mux.Reachable{}.Find(listen, n.o.Advertise, seeds)
}

func (j *Join) seeds() []string {
	if len(j.Seeds) > 0 {
		return j.Seeds
	}
	return j.Token.Seeds
}

func (n *Node) identity() identity.Options {
	return identity.Options{Path: n.file("identity"), Node: n.o.ID, Insecure: n.o.Insecure, Denied: n.denied}
}

// file is a path in the node's folder, empty in memory.
func (n *Node) file(name string) string {
	if n.o.Dir == "" {
		return ""
	}
	return filepath.Join(n.o.Dir, name)
}

// Advertised is the address by which the others reach this node, and how it was
// found.
func (n *Node) Advertised() mux.Advertised { return n.advertise }

// Run does what the node has to do beside answering, until Close. It returns when
// that is over, or an error when the node can't be in its cluster.
func (n *Node) Run() error {
	var err error
	switch {
	case n.adopts != nil:
		err = n.adoptAndEnter(n.adopts)
	case n.member.Load() == nil && n.o.Join != nil:
		err = n.join()
	}
	if n.ctx.Err() != nil && n.member.Load() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if m := n.member.Load(); m != nil {
		return m.run()
	}
	<-n.ctx.Done()
	return nil
}

// adoptAndEnter goes on with an adoption that an earlier start has not finished.
func (n *Node) adoptAndEnter(id *identity.Identity) error {
	a, _ := n.adoption()
	if n.o.Join != nil && n.o.Join.Token.Cluster == id.Cluster().ID() {
		a.seeds = append(a.seeds, n.o.Join.seeds()...)
	}
	if err := n.adopt(id, a.seeds); err != nil {
		return err
	}
	return n.enter(id, a.seeds)
}

// Close ends the node's part in its cluster, which it remains a member of. A leader
// hands over first, for as long as ctx lasts, and the others are told.
func (n *Node) Close(ctx context.Context) error {
	defer n.cancel()
	if m := n.member.Load(); m != nil {
		return m.close(ctx)
	}
	return n.o.Port.close()
}

// Served says what the node serves now: it is told to the others.
func (n *Node) Served(rev kv.Rev, hash string) {
	n.mu.Lock()
	n.served = served{rev, hash}
	n.mu.Unlock()
	if m := n.member.Load(); m != nil {
		m.gossip.Report(rev, hash, nil)
	}
}

func (n *Node) serves() served {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.served
}

// in is the node's part in its cluster, or why there is none.
func (n *Node) in() (*member, error) {
	if m := n.member.Load(); m != nil {
		return m, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outside != nil {
		return nil, n.outside
	}
	return nil, errJoining
}

// deniedPrefix is where the ids of revoked nodes stand in the store.
const deniedPrefix = "cluster/denied/"

func (n *Node) denied(node string) bool {
	_, there := n.o.Store.View().Get(kv.Key(deniedPrefix + node))
	return there
}

// goodbye is how long a node that stops tells the others.
const goodbye = 500 * time.Millisecond
