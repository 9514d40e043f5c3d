package gossip

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"grapevine/kv"
	"grapevine/kv/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long tells whether the long forms of the tests are wanted.
func long() bool { return os.Getenv("GRAPEVINE_LONG") != "" }

// The ports of a test node: packets and memberlist's streams, and spreading. A
// real node has one for all, and its Dial knows from the wire which protocol to ask for.
const (
	gossipPort = 7946
	spreadPort = 7947
)

// historyRevs is how far back the stores of tests remember.
const historyRevs = 600

// voterKey signs heads in tests. Its seed is fixed, so that golden files are.
var voterKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func verify(head kv.Head) error {
	if !ed25519.Verify(voterKey.Public().(ed25519.PublicKey), head.SigningBytes(), head.Signature[:]) {
		return errors.New("not signed by a voter")
	}
	return nil
}

// addressOf is the IP address at the other end.
func addressOf(c net.Conn) string { return c.RemoteAddr().(*net.TCPAddr).IP.String() }

// logBook keeps the lines of a log.
type logBook struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func recordLog(c *cluster) *logBook {
	b := &logBook{}
	c.log = slog.New(slog.NewTextHandler(b, nil))
	return b
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(line))
	return len(line), nil
}

// count is how many lines hold all of the parts.
func (b *logBook) count(parts ...string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := 0
	for _, line := range b.lines {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			count++
		}
	}
	return count
}

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// cluster is nodes on one network in fake time. The first is the leader: it writes
// into its own store.
type cluster struct {
	name  string
	net   *memnet.Network
	key   []byte
	nodes []*node
	leads atomic.Pointer[node]
	log   *slog.Logger
	// change changes what a node is opened with.
	change func(*node, *Options)
}

type node struct {
	cluster *cluster
	index   int
	name    NodeID
	ip      string
	store   *kv.Store // outlives a restart, as a disk does
	boots   int
	peer    *Peer // nil while it is down
	role    Role
	inRaft  atomic.Bool
	quorum  atomic.Bool
	leads   atomic.Bool
}

func newCluster(name string, net *memnet.Network) *cluster {
	return &cluster{
		name: name, net: net, key: []byte(strings.Repeat("k", KeyBytes)),
		log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// inBubble runs f in fake time with a calm network, and closes what is open at its end.
func inBubble(t *testing.T, f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster("one", memnet.New(1))
		c.net.SetDelay(200*time.Microsecond, 800*time.Microsecond)
		defer c.close()
		f(t, c)
	})
}

func (c *cluster) close() {
	for _, n := range c.nodes {
		n.stop()
		n.store.Close()
	}
	<-time.After(time.Minute) // memberlist ends its last probes
}

// add makes a node that is not started.
func (c *cluster) add(t tb) *node {
	t.Helper()
	store, err := kv.Open(kv.Options{HistoryRevs: historyRevs})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	n := &node{cluster: c, index: len(c.nodes), store: store, role: Edge}
	n.name = NodeID(fmt.Sprintf("%snode%02d", c.name, n.index))
	n.ip = fmt.Sprintf("10.0.%d.%d", n.index/200, n.index%200+1)
	if n.index == 0 {
		n.role = Voter
		n.leads.Store(true)
		c.leads.Store(n)
	}
	c.nodes = append(c.nodes, n)
	return n
}

// start makes a cluster of n nodes that know each other.
func (c *cluster) start(t tb, n int) {
	t.Helper()
	for range n {
		c.add(t).start(t)
	}
	for _, n := range c.nodes[1:] {
		n.join(t, c.leader())
	}
	c.wantMembers(t, n, 30*time.Second)
}

func (c *cluster) leader() *node { return c.leads.Load() }

// named is the node of an id.
func (c *cluster) named(id NodeID) *node {
	return c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n.id() == id })]
}

func (n *node) id() NodeID      { return n.name }
func (n *node) address() string { return fmt.Sprintf("%s:%d", n.ip, gossipPort) }

func (n *node) options(t tb) Options {
	t.Helper()
	host := n.cluster.net.Host(n.ip)
	packets, err := host.ListenPacket(gossipPort)
	if err != nil {
		t.Fatalf("%v", err)
	}
	streams, err := host.Listen(gossipPort)
	if err != nil {
		t.Fatalf("%v", err)
	}
	spread, err := host.Listen(spreadPort)
	if err != nil {
		t.Fatalf("%v", err)
	}
	n.boots++
	o := Options{
		Cluster:    n.cluster.name,
		Boot:       fmt.Sprint(n.boots),
		Meta:       Meta{ID: n.id(), Name: fmt.Sprintf("name-%02d", n.index), Role: n.role, Version: "1.0", Region: "north"},
		Advertise:  netip.MustParseAddrPort(n.address()),
		Packets:    packets,
		Membership: Wire{Listener: streams, Dial: host.Dial},
		Spread:     Wire{Listener: spread, Dial: spreadDial(host)},
		Streams:    []Stream{Operators(n.store, verify)},
		Leader:     func() NodeID { return n.cluster.leader().id() },
		InRaft:     n.inRaft.Load,
		OwnQuorum:  n.quorum.Load,
		Leads:      n.leads.Load,
		Keeper:     n.store,
		Logger:     n.cluster.log.With("node", string(n.id())),
	}
	if n.cluster.key != nil {
		o.Keys = [][]byte{n.cluster.key}
	}
	if n.cluster.change != nil {
		n.cluster.change(n, &o)
	}
	return o
}

func (n *node) start(t tb) {
	t.Helper()
	var err error
	if n.peer, err = Open(n.options(t)); err != nil {
		t.Fatalf("open %s: %v", n.id(), err)
	}
}

// join contacts others, and waits until one answers.
func (n *node) join(t tb, others ...*node) {
	t.Helper()
	var seeds []string
	for _, other := range others {
		seeds = append(seeds, other.address())
	}
	if err := n.peer.Join(context.Background(), seeds...); err != nil {
		t.Fatalf("join of %s: %v", n.id(), err)
	}
}

// spreadDial goes to the port of spreading at the address of a member.
func spreadDial(host *memnet.Host) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		return host.Dial(ctx, netip.AddrPortFrom(to.Addr(), spreadPort).String())
	}
}

// stop ends the process; its connections are reset, as by the system.
func (n *node) stop() {
	if n.peer != nil {
		n.cluster.net.Host(n.ip).Crash()
		n.peer.Close()
		n.peer = nil
	}
}

// write commits a signed transaction to the node's own store.
func (n *node) write(t tb, ops ...kv.Op) kv.Commit {
	t.Helper()
	commit := n.resolve(t, ops...)
	if err := n.store.Merge(commit); err != nil {
		t.Fatalf("merge: %v", err)
	}
	return commit
}

func (n *node) resolve(t tb, ops ...kv.Op) kv.Commit {
	t.Helper()
	view := n.store.View()
	commit, _, err := view.Resolve(kv.Txn{By: "test", Then: ops})
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	return signed(commit, view.Head().EpochID)
}

func signed(commit kv.Commit, epochID [16]byte) kv.Commit {
	copy(commit.Signature[:], ed25519.Sign(voterKey, commit.Head(epochID).SigningBytes()))
	return commit
}

func signBytes(b []byte) (signature [64]byte) {
	copy(signature[:], ed25519.Sign(voterKey, b))
	return signature
}

// eventually waits in fake time until ok, and tells how long that took.
func eventually(t tb, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; {
		took := time.Since(began)
		switch {
		case ok():
			return took
		case took > within:
			t.Fatalf("not within %v: %s", within, what)
		}
		<-time.After(min(max(took/20, time.Millisecond), 100*time.Millisecond))
	}
}

// never makes sure that something does not happen for a while.
func never(t tb, during time.Duration, what string, happened func() bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < during; <-time.After(during / 50) {
		if happened() {
			t.Fatalf("after %v: %s", time.Since(began), what)
		}
	}
}

// up are the nodes that run.
func (c *cluster) up() (up []*node) {
	for _, n := range c.nodes {
		if n.peer != nil {
			up = append(up, n)
		}
	}
	return up
}

// wantMembers waits until every running node sees that many living members.
func (c *cluster) wantMembers(t tb, count int, within time.Duration) time.Duration {
	t.Helper()
	return eventually(t, within, fmt.Sprintf("all see %d living members", count), func() bool {
		for _, n := range c.up() {
			if n.living() != count {
				return false
			}
		}
		return true
	})
}

func (n *node) living() int {
	count := 0
	for _, m := range n.peer.Members() {
		if m.Status == Alive || m.Status == Suspect {
			count++
		}
	}
	return count
}

// wantSame waits until every running node has what the leader has.
func (c *cluster) wantSame(t tb, within time.Duration) time.Duration {
	t.Helper()
	behind := ""
	began := time.Now()
	for {
		if behind = c.behind(); behind == "" {
			return time.Since(began)
		}
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, behind)
		}
		<-time.After(min(max(time.Since(began)/20, time.Millisecond), 100*time.Millisecond))
	}
}

// behind names a running node that lacks something, empty if none does.
func (c *cluster) behind() string {
	want := c.leader().store.View().Head()
	for _, n := range c.up() {
		if got := n.store.View().Head(); got.Hash != want.Hash && !(isBlank(got) && isBlank(want)) {
			return fmt.Sprintf("%s is at %s, the leader at %s", n.id(), got.Rev, want.Rev)
		}
	}
	return ""
}

func TestThreeNodesHaveWhatTheLeaderWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		c.start(t, 3)
		c.leader().write(t, kv.Put("gateway/routes/shop", []byte("one")))
		t.Logf("first: %v", c.wantSame(t, 5*time.Second))
		c.leader().write(t, kv.Put("gateway/routes/shop", []byte("two")))
		t.Logf("second: %v", c.wantSame(t, 5*time.Second))
	})
}
