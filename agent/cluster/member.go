package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/agent/identity"
	"grapevine/agent/mux"
	"grapevine/kv"
	"grapevine/kv/consensus"
	"grapevine/kv/gossip"
)

// member is what runs while the node is in a cluster.
type member struct {
	n      *Node
	ctx    context.Context // over when the member is closed
	cancel context.CancelFunc
	id     *identity.Identity
	keys   sync.Map // node id -> identity.PublicKey, of those who proved it
	seeds  []string
	mux    *mux.Mux
	raft   *consensus.Raft // nil on an edge
	edge   *consensus.Edge // the way of writes while raft has no part for this node
	gossip *gossip.Peer
	// met is gossip once it is there. It is for what raft calls, which begins before.
	met    atomic.Pointer[gossip.Peer]
	remote *consensus.Client
	door   *identity.Door
	calls  *calls
	lead   *leadership
	boot   string // which of the node's starts this is
	owners *owners
	// announcer is for the node's own keys.
	announcer *announcer
	ring      *ring

	servers  []*http.Server
	left     atomic.Bool // the node goes for good
	renaming sync.Mutex  // held while the node becomes another server in raft
	closing  sync.Once
	closed   error
	tasks    sync.WaitGroup
	runError chan error
}

// enter makes the node a member. seeds are addresses of others, as far as they are
// known.
func (n *Node) enter(id *identity.Identity, seeds []string) (err error) {
	if err := id.CheckAddress(n.advertise.Address.String()); err != nil {
		return err
	}
	if n.o.Gateway == nil && id.Role() == identity.Voter {
		return errors.New("this node may vote, and a voter judges writes by its gateway: start it with one, or as a new node, " +
			"with another --data-dir and --join, which makes it an edge")
	}
	m := &member{n: n, id: id, seeds: seeds, boot: rand.Text()[:12], runError: make(chan error, 1)}
	m.ctx, m.cancel = context.WithCancel(n.ctx)
	m.mux = mux.New(mux.Options{
		Listener: n.o.Port.Listener, Packets: n.o.Port.Packets, Dial: n.o.Port.Dial, Handshaker: id, Logger: n.o.Logger,
	})
	m.remote = consensus.NewClient(m.dialer(identity.ProtocolPeer), errorCodec{})
	m.calls = newCalls(m)
	m.lead = newLeadership(m)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close(canceled()))
		}
	}()
	if m.announcer, err = newAnnouncer(m); err != nil {
		return err
	}
	if id.Role() == identity.Voter {
		if m.raft, err = m.openRaft(); err != nil {
			return err
		}
	}
	m.edge = &consensus.Edge{Store: n.o.Store, Remote: m.remote, Leader: m.lead.known, Voters: m.voters}
	if m.gossip, err = gossip.Open(m.gossipOptions()); err != nil {
		return err
	}
	m.met.Store(m.gossip)
	m.owners = newOwners(m)
	m.announcer.tellFacts()
	m.gossip.Refresh() // raft may have had a leader before
	m.ring = newRing(m)
	m.serve()
	n.member.Store(m)
	close(n.entered)
	served := n.serves()
	m.gossip.Report(served.rev, served.hash, nil)
	return nil
}

// canceled is a context for who must not wait.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (m *member) dialer(protocol string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) { return m.mux.Dial(ctx, protocol, address) }
}

// openRaft starts raft. A node whose log is lost begins with an empty one, under
// another id, and is taken in by the others.
func (m *member) openRaft() (*consensus.Raft, error) {
	if m.n.lostStore() {
		if err := m.n.nextServer(); err != nil {
			return nil, err
		}
	}
	for {
		_, server := m.n.servers()
		raft, err := consensus.Open(m.raftOptions(server))
		if errors.Is(err, consensus.ErrRejoin) {
			m.n.o.Logger.Error("this node has to be taken into raft anew", "err", err)
			if err := m.n.nextServer(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, &raftError{err}
		}
		if err := m.n.bootstrap(raft, server); err != nil {
			return nil, &raftError{errors.Join(err, raft.Shutdown(canceled()))}
		}
		return raft, nil
	}
}

func (m *member) raftOptions(server string) consensus.Options {
	n := m.n
	return consensus.Options{
		Node: n.o.ID, Server: server, Address: n.advertise.Address.String(),
		Store: n.o.Store, Check: n.o.Check, Admit: m.admit, Permit: m.permit, Sign: m.id.Authority().Sign, Dir: n.file("raft"),
		Listener: m.mux.Listener(identity.ProtocolRaft), Dial: m.dialer(identity.ProtocolRaft),
		Resolve: m.addressOfServer, Remote: m.remote, OnLeadership: m.lead.changed,
		Logger: n.o.Logger, Timing: n.o.Timing,
	}
}

// addressOfServer is where the node of a server id is now, as gossip knows.
func (m *member) addressOfServer(server string) (string, bool) {
	met := m.met.Load()
	if met == nil {
		return "", false
	}
	for _, member := range met.Members() {
		if string(member.ID) == consensus.NodeOf(server) && alive(member) {
			return member.Peer, true
		}
	}
	return "", false
}

func alive(m gossip.Member) bool { return m.Status == gossip.Alive || m.Status == gossip.Suspect }

func (m *member) gossipOptions() gossip.Options {
	n := m.n
	return gossip.Options{
		Cluster: m.id.Cluster().ID().String(), Boot: m.boot, Meta: m.meta(),
		Advertise: n.advertise.Address, Keys: m.id.GossipKeys(), Packets: m.mux.Packets(),
		Membership: gossip.Wire{Listener: m.mux.Listener(identity.ProtocolMembers), Dial: m.dialer(identity.ProtocolMembers)},
		Spread:     gossip.Wire{Listener: m.mux.Listener(identity.ProtocolSpread), Dial: m.dialer(identity.ProtocolSpread)},
		Identify:   m.identify,
		Streams:    []gossip.Stream{gossip.Operators(n.o.Store, m.verify)},
		Planes:     []gossip.Plane{gossip.Own(n.o.Store)},
		Leader:     m.lead.node, Leads: m.lead.hasAll, InRaft: m.inRaft, OwnQuorum: m.lead.ownQuorum,
		Keeper: n.o.Store, Logger: n.o.Logger, Timings: n.o.Gossip,
	}
}

// verify checks a head's signature. What was written before there was a cluster has
// none.
func (m *member) verify(head kv.Head) error { return m.id.Verify(head) }

func (m *member) identify(conn net.Conn) (gossip.NodeID, bool, error) {
	peer, ok := identity.PeerOf(conn)
	if !ok {
		return "", false, errors.New("the other side has proved nothing")
	}
	m.keys.Store(peer.Node, peer.Key)
	return gossip.NodeID(peer.Node), peer.Role == identity.Voter, nil
}

// meta is what the node says of itself.
func (m *member) meta() gossip.Meta {
	return gossip.Meta{
		ID: gossip.NodeID(m.n.o.ID), Name: m.n.o.Name, Role: m.role(), Version: m.n.o.Version, Region: m.n.o.Region,
		Peer: m.n.advertise.Address.String(), NoGateway: m.n.o.Gateway == nil,
	}
}

// role is the node's part in raft now.
func (m *member) role() gossip.Role {
	if m.raft == nil {
		return gossip.Edge
	}
	switch m.raft.Role() {
	case consensus.RoleVoter:
		return gossip.Voter
	case consensus.RoleLearner:
		return gossip.Learner
	}
	return gossip.Edge
}

func (m *member) inRaft() bool { return m.raft != nil && m.raft.InRaft() }

// serve begins to answer the others.
func (m *member) serve() {
	m.door = m.newDoor()
	join := m.door.Server()
	peers := m.calls.server()
	m.servers = []*http.Server{join, peers}
	m.start(m.mux.Serve)
	m.start(serving(join, m.mux.Listener(identity.ProtocolJoin)))
	m.start(serving(peers, m.mux.Listener(identity.ProtocolPeer)))
}

// start runs a part of the member until close; what ends before takes the member
// with it.
func (m *member) start(part func() error) {
	m.tasks.Go(func() {
		if err := part(); err != nil {
			select {
			case m.runError <- err:
			default:
			}
		}
	})
}

func serving(server *http.Server, listener net.Listener) func() error {
	return func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
}

// run does what goes on beside answering, until the Node is closed.
func (m *member) run() error {
	ctx := m.ctx
	if len(m.seeds) > 0 { // peers that it knew before are asked anyway
		m.tasks.Go(func() { _ = m.gossip.Join(ctx, m.seeds...) }) // it tries until ctx is over
	}
	m.tasks.Go(func() { _ = m.id.KeepFresh(ctx, m.askToRenew, m.n.o.Logger) })
	m.tasks.Go(func() { m.lead.follow(ctx) })
	m.tasks.Go(func() { m.keepRole(ctx) })
	m.tasks.Go(func() { m.dropDenied(ctx) })
	m.tasks.Go(func() { m.owners.follow(ctx) })
	m.tasks.Go(func() { m.owners.ask(ctx) })
	m.tasks.Go(func() { m.owners.keep(ctx) })
	m.start(func() error { return m.announcer.run(ctx) })
	m.tasks.Go(func() { m.ring.keep(ctx) })
	if m.raft != nil {
		m.tasks.Go(func() { m.reconcile(ctx) })
		m.tasks.Go(func() { m.giveWay(ctx) })
		m.tasks.Go(func() { m.ring.lead(ctx) })
	}
	select {
	case err := <-m.runError:
		return err
	case <-ctx.Done():
		return nil
	}
}

// roleEvery is how often the node looks whether its part in raft has changed.
const roleEvery = time.Second

// keepRole tells the others of the node's part in raft.
func (m *member) keepRole(ctx context.Context) {
	told := m.meta().Role
	for sleep(ctx, roleEvery) {
		if meta := m.meta(); meta.Role != told {
			if m.gossip.SetMeta(meta) == nil {
				told = meta.Role
			}
			m.announcer.tellFacts()
			m.gossip.Refresh()
		}
	}
}

// dropDenied has nothing to do any more with nodes that were revoked.
func (m *member) dropDenied(ctx context.Context) {
	dropped := map[string]bool{}
	for {
		changed := m.n.o.Store.Changed()
		for entry := range m.n.o.Store.View().Under(deniedPrefix) {
			if node := string(entry.Key[len(deniedPrefix):]); !dropped[node] {
				dropped[node] = true
				m.gossip.Shun(gossip.NodeID(node))
				m.mux.Drop(node)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// close ends the member: raft first, which hands over, then gossip, which says
// goodbye, then the port.
func (m *member) close(ctx context.Context) error {
	m.closing.Do(func() {
		var errs []error
		if ctx.Err() == nil {
			m.announcer.retire()
		}
		if m.raft != nil {
			errs = append(errs, m.raft.Shutdown(ctx))
		}
		m.cancel()
		if m.gossip != nil {
			m.sayGoodbye(ctx)
			m.gossip.Close()
		}
		for _, server := range m.servers {
			errs = append(errs, server.Close())
		}
		m.remote.Close()
		m.calls.close()
		errs = append(errs, m.mux.Close())
		m.tasks.Wait()
		m.closed = errors.Join(errs...)
	})
	return m.closed
}

// sayGoodbye tells the others that the node goes. Who does not hear it finds out.
func (m *member) sayGoodbye(ctx context.Context) {
	switch {
	case ctx.Err() != nil:
	case m.left.Load():
		_ = m.gossip.Leave(goodbye)
	default:
		_ = m.gossip.Rest(goodbye)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
