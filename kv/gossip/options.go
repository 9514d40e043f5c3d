package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Timings when Options do not say.
const (
	DefaultHeads  = 200 * time.Millisecond
	DefaultRejoin = 30 * time.Second
	DefaultProbe  = time.Second
)

// Options describe a Peer. What is not said to be optional is required.
type Options struct {
	// Cluster is the cluster's id, of 1 to 64 bytes. Nodes of different clusters
	// never hear each other, even with the same keys and addresses.
	Cluster string
	// Boot is drawn anew at every start, of 1 to 32 bytes, so that a node which
	// returns is not mistaken for its former self.
	Boot string
	Meta Meta
	// Advertise is where the other nodes reach Packets and both listeners.
	Advertise netip.AddrPort
	// Keys encrypt packets and memberlist's streams, with the first; one or two, of
	// KeyBytes each. None means in the clear, which is for loopback only.
	Keys [][]byte

	// Packets and the listeners are closed with the Peer.
	Packets    net.PacketConn
	Membership Wire // of memberlist's streams
	Spread     Wire // of pushes and pulls
	// Identify tells who has proved to be at the other end of a connection of Spread,
	// and whether it may be a voter. Optional: without, nodes are believed, which is
	// for networks where only friends are.
	Identify func(net.Conn) (id NodeID, voter bool, err error)

	// Streams are what is spread: at most 4, each id once.
	Streams []Stream
	// Planes are spread beside the Streams: at most 4, with ids of their own. Optional.
	Planes []Plane
	// Leader is the node that orders the writes, empty if unknown. Refresh tells the
	// Peer that it changed. Leads reports that it is this one, and that its store has
	// all that was ever committed: a write that is under way may be elsewhere already.
	// Both are optional: nobody.
	Leader func() NodeID
	Leads  func() bool
	// InRaft reports that this node's entries come from raft alone: then it looks at
	// heads, and takes nothing. Optional: it takes.
	InRaft func() bool
	// OwnQuorum reports that the quorum this node follows answers, and still in the
	// epoch of this node's store. Then no higher epoch is taken. Optional: it does
	// not answer.
	OwnQuorum func() bool
	// Neighbours names those to push changes to. Optional: Trees.
	Neighbours Neighbours
	// Keeper remembers peers over a restart. Optional: nobody does.
	Keeper Keeper
	Logger *slog.Logger

	// Timings that are 0 have their defaults.
	Timings Timings

	// list makes what tells of members: memberlist, but for tests of a thousand nodes,
	// which it would cost more than everything else.
	list func(*Peer) (swim, error)
}

// swim is what a Peer needs of memberlist.
type swim interface {
	Join(addresses []string) (int, error)
	SendToAddress(to memberlist.Address, message []byte) error
	Ping(name string, address net.Addr) (time.Duration, error)
	UpdateNode(timeout time.Duration) error
	Leave(timeout time.Duration) error
	Shutdown() error
}

// newMemberlist is the swim of everybody but tests.
func newMemberlist(p *Peer) (swim, error) { return memberlist.Create(p.memberlistConfig()) }

// Timings are the pace of a Peer.
type Timings struct {
	Heads  time.Duration // between two heads, jittered by 20 %
	Rejoin time.Duration // between attempts to reach peers that are missing
	Probe  time.Duration // between two probes of memberlist
}

// Wire is a way to open and to take streams.
type Wire struct {
	Listener net.Listener
	Dial     func(ctx context.Context, address string) (net.Conn, error)
}

// Keeper keeps values of this node, durably. kv.Store is one.
type Keeper interface {
	Local(name string) ([]byte, bool)
	SetLocal(name string, value []byte) error
}

// maxCluster is what memberlist's label and a line in a log can take.
const maxCluster = 64

func (o *Options) check() error {
	return errors.Join(
		o.Meta.check(),
		checkWord("cluster id", o.Cluster, maxCluster),
		checkWord("boot", o.Boot, maxBootBytes),
		checkAdvertise(o.Advertise),
		o.checkStreams(),
		o.checkWires(),
	)
}

func checkWord(what, word string, max int) error {
	if word == "" {
		return fmt.Errorf("%s is empty", what)
	}
	return checkText(what, word, max)
}

func checkAdvertise(a netip.AddrPort) error {
	if !a.IsValid() || a.Addr().IsUnspecified() || a.Port() == 0 {
		return fmt.Errorf("advertised address %q: want an IP address that others can reach, and a port", a)
	}
	return nil
}

func (o *Options) checkStreams() error {
	if len(o.Streams) > maxStreams || len(o.Planes) > maxStreams {
		return fmt.Errorf("%d streams, %d planes: at most %d of each can be spread", len(o.Streams), len(o.Planes), maxStreams)
	}
	var ids []StreamID
	for _, s := range o.Streams {
		ids = append(ids, s.ID())
	}
	for _, p := range o.Planes {
		ids = append(ids, p.ID())
	}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return fmt.Errorf("stream %d is there twice", id)
		}
	}
	return nil
}

func (o *Options) checkWires() error {
	switch {
	case o.Packets == nil:
		return errors.New("there is no connection for packets")
	case o.Membership.Listener == nil || o.Membership.Dial == nil || o.Spread.Listener == nil || o.Spread.Dial == nil:
		return errors.New("a wire has no listener or can't dial")
	case o.Logger == nil:
		return errors.New("there is no logger")
	}
	return nil
}

// close closes what was given to be closed with the Peer, as far as it is there.
func (o *Options) close() {
	if o.Packets != nil {
		o.Packets.Close()
	}
	for _, wire := range []Wire{o.Membership, o.Spread} {
		if wire.Listener != nil {
			wire.Listener.Close()
		}
	}
}

// fill gives what is optional its default.
func (o *Options) fill() {
	no := func() bool { return false }
	o.Timings.Heads = cmp.Or(o.Timings.Heads, DefaultHeads)
	o.Timings.Rejoin = cmp.Or(o.Timings.Rejoin, DefaultRejoin)
	o.Timings.Probe = cmp.Or(o.Timings.Probe, DefaultProbe)
	if o.Leader == nil {
		o.Leader = func() NodeID { return "" }
	}
	if o.Leads == nil {
		o.Leads = no
	}
	if o.InRaft == nil {
		o.InRaft = no
	}
	if o.OwnQuorum == nil {
		o.OwnQuorum = no
	}
	if o.list == nil {
		o.list = newMemberlist
	}
	if o.Neighbours == nil {
		o.Neighbours = Trees
	}
}

// membersExchange is how often memberlist exchanges all members with somebody at random, and more rarely with
// more than 32 of them. Of a thousand that is 250 KB each way, more than all else that an idle node sends if it
// happens every 30 s as on memberlist's LAN. Heads tell within a second that two nodes differ in the
// members that they see, see compareMembers, so that this is for nothing but what they don't tell.
const membersExchange = 10 * time.Minute

// memberlistConfig is that of a LAN, as far as it is not said here.
func (p *Peer) memberlistConfig() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = fullName(p.o.Meta.ID, p.o.Boot)
	c.Label = p.o.Cluster
	c.Transport = p.transport
	c.BindPort = int(p.o.Advertise.Port())
	c.Keyring = p.keys.ring
	c.Delegate, c.Events, c.Alive, c.Ping = p, p.members, p.members, p
	c.Logger = newMemberlistLog(p.log, p.members)
	c.ProbeInterval = p.o.Timings.Probe
	c.ProbeTimeout = p.o.Timings.Probe / 2
	c.PushPullInterval = membersExchange
	// What is under way when a peer is gone must be over before the next rejoin.
	c.TCPTimeout = 5 * time.Second
	// Hashes and signatures do not shrink, and the attempt costs more than all else
	// that a head costs.
	c.EnableCompression = false
	// The name of a node that returns is another one, so that nothing is gained by
	// reclaiming the old one.
	c.DeadNodeReclaimTime = 0
	c.RequireNodeNames = false
	return c
}
