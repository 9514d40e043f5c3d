//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/agent/identity"
	"grapevine/gateway"
	"grapevine/kv"
	"grapevine/kv/consensus"
	"grapevine/kv/gossip"
)

// patience bounds the wait for what has to come.
const patience = 2 * time.Minute

// crowded is the pace of what looks for dead nodes. As many nodes on one host get a
// hundredth of it each, and at the usual pace the others would take them for dead.
const crowded = 5 * time.Second

// shareOfGarbage lets the heaps of as many nodes, which are one here, be collected as
// seldom as those of nodes apart: at the usual pace each allocation of one node has
// to help to look through the memory of all.
const shareOfGarbage = 800

// atOnce is how many nodes join at the same time.
const atOnce = 10

// node is an agent without its listeners for clients.
type node struct {
	store   *kv.Store
	gateway *gateway.Gateway
	cluster *cluster.Node
	stop    context.CancelFunc
	tasks   sync.WaitGroup

	mu  sync.Mutex // guards what follows
	rev kv.Rev     // of the live table
	at  time.Time  // when it went live
}

// swapped is when the node came to serve a revision, if it does.
func (n *node) swapped(rev kv.Rev) (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at, n.rev.Compare(rev) >= 0
}

func startBenchNode(o options, i int, join *cluster.Join) (n *node, err error) {
	n = &node{}
	dir := ""
	var store kv.Options
	if o.disk {
		dir = filepath.Join(o.dir, fmt.Sprint("node-", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		store.Path = filepath.Join(dir, "kv.db")
	}
	if n.store, err = kv.Open(store); err != nil {
		return nil, err
	}
	var node *cluster.Node
	n.gateway = gateway.New(gateway.Options{Source: n.store, Keeper: n.store, OnSwap: func(t *gateway.Table) {
		n.mu.Lock()
		n.rev, n.at = t.Rev(), time.Now()
		n.mu.Unlock()
		if node != nil {
			node.Served(t.Rev(), t.Hash())
		}
	}})
	if err := n.gateway.Load(); err != nil {
		return nil, err
	}
	port, err := loopbackPort()
	if err != nil {
		return nil, err
	}
	node, err = cluster.New(cluster.Options{
		ID: fmt.Sprintf("01h%023d", i), Name: fmt.Sprint("node-", i), Version: "bench", Store: n.store, Check: n.gateway.Check, Gateway: n.gateway,
		Dir: dir, Port: port, Join: join, Logger: o.logger.With("node", i),
		Gossip: gossip.Timings{Probe: crowded}, Timing: consensus.Timing{Heartbeat: crowded},
	})
	if err != nil {
		return nil, err
	}
	n.cluster = node
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	n.tasks.Go(func() { _ = n.gateway.Run(ctx) }) // it ends with ctx only
	n.tasks.Go(func() {
		if err := node.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "node-%d: %v\n", i, err)
		}
	})
	return n, nil
}

func loopbackPort() (port cluster.Port, err error) {
	// A number that is free for TCP may be taken for UDP.
	for range 100 {
		if port.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return port, err
		}
		if port.Packets, err = net.ListenPacket("udp", port.Listener.Addr().String()); err == nil {
			port.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}
			return port, nil
		}
		port.Listener.Close()
	}
	return port, err
}

func (n *node) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody needs to hear of it
	_ = n.cluster.Close(ctx)
	n.stop()
	n.tasks.Wait()
	n.gateway.Close()
	_ = n.store.Close()
}

// startNodes starts a cluster, and returns when all nodes know each other.
func startNodes(ctx context.Context, o options) (nodes []*node, err error) {
	first, err := startBenchNode(o, 1, nil)
	if err != nil {
		return nil, err
	}
	nodes = append(nodes, first)
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	secret, _, err := first.cluster.CreateToken(asking, api.TokenWish{Role: "voter"})
	if err != nil {
		return nodes, err
	}
	token, err := identity.ParseToken(secret)
	if err != nil {
		return nodes, err
	}
	for i := 2; i <= o.nodes; i++ {
		n, err := startBenchNode(o, i, &cluster.Join{Token: token})
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
		if len(nodes)%atOnce == 0 {
			err := await(ctx, fmt.Sprintf("%d members", len(nodes)), func() bool { return alive(first) == len(nodes) })
			if err != nil {
				return nodes, err
			}
		}
	}
	voters := 1
	if o.nodes >= 3 {
		voters = 3
	}
	if o.nodes >= 7 {
		voters = 5
	}
	err = await(ctx, fmt.Sprintf("%d members and %d voters", o.nodes, voters), func() bool {
		for _, n := range nodes {
			if s := n.cluster.Standing(); s.Voters != voters || s.Leader == "" || alive(n) != o.nodes || facts(n) != o.nodes {
				return false
			}
		}
		return true
	})
	if err != nil {
		err = fmt.Errorf("%w: %s", err, tally(nodes))
	}
	return nodes, err
}

// facts counts the nodes that have told this one what they are, which each does when
// it has settled.
func facts(n *node) (count int) {
	for range n.store.View().Under("gateway/nodes/") {
		count++
	}
	return count
}

// tally counts nodes by what they see.
func tally(nodes []*node) string {
	counts := map[string]int{}
	for _, n := range nodes {
		s := n.cluster.Standing()
		counts[fmt.Sprintf("%d members, %d voters, leader %q %v", alive(n), s.Voters, s.Leader, s.Alarms)]++
	}
	return fmt.Sprint(counts)
}

func alive(n *node) (count int) {
	for _, m := range n.cluster.Members() {
		if m.Status == api.StatusAlive || m.Status == api.StatusSuspect {
			count++
		}
	}
	return count
}

func await(ctx context.Context, what string, holds func() bool) error {
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline:
			return fmt.Errorf("%s: not within %v", what, patience)
		}
	}
	return nil
}

func measureNodes(ctx context.Context, o options, out io.Writer) (err error) {
	began := time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(shareOfGarbage))
	nodes, err := startNodes(ctx, o)
	defer func() {
		var closing sync.WaitGroup
		for _, n := range nodes {
			closing.Go(n.close)
		}
		closing.Wait()
	}()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d nodes in one process, disk %t: all know each other after %v; load average %s\n", o.nodes, o.disk, time.Since(began).Round(time.Millisecond), loadAverage())
	ping, err := newPingPong(o.payload)
	if err != nil {
		return err
	}
	defer ping.close()
	stop, err := profile(o.profile)
	if err != nil {
		return err
	}
	defer stop()
	random := rand.New(rand.NewPCG(o.seed, 0))
	var commit, all, half figures
	measured, used := time.Now(), cpuTime()
	for i := range o.changes {
		// By the leader: of another node's write the time to the leader would count twice.
		took, swaps, err := change(ctx, leaderOf(nodes), nodes, o.route(random, i))
		if err != nil {
			return err
		}
		commit, all, half = append(commit, took), append(all, swaps.at(1)), append(half, swaps.at(.5))
		if err := ping.play(); err != nil {
			return err
		}
		if !sleep(ctx, o.pause) {
			return ctx.Err()
		}
	}
	fmt.Fprintf(out, "  %v of CPU in %v\n", (cpuTime() - used).Round(time.Millisecond), time.Since(measured).Round(time.Millisecond))
	commit.print(out, "a write until its acknowledgement")
	half.print(out, "from there until half of the nodes serve it")
	all.print(out, "from there until all nodes serve it")
	ping.took.print(out, "TCP ping-pong of the payload")
	return nil
}

func leaderOf(nodes []*node) *node {
	name := nodes[0].cluster.Standing().Leader
	for _, n := range nodes {
		for _, m := range n.cluster.Members() {
			if m.Self && m.Node == name {
				return n
			}
		}
	}
	return nodes[0]
}

// change writes a route. swaps are the times from the acknowledgement to the swap of
// each node, 0 where that came first.
func change(ctx context.Context, by *node, nodes []*node, route string) (took time.Duration, swaps figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	result, err := by.cluster.Propose(ctx, kv.Txn{Then: []kv.Op{kv.Put("gateway/routes/bench", []byte(route))}, By: "bench", At: began})
	if err != nil {
		return 0, nil, err
	}
	acknowledged := time.Now()
	for _, n := range nodes {
		if err := n.gateway.Wait(ctx, result.Rev); err != nil {
			return 0, nil, fmt.Errorf("a node does not serve revision %s: %w", result.Rev, err)
		}
		at, ok := n.swapped(result.Rev)
		for !ok { // the table is live a moment before it is told
			if !sleep(ctx, time.Millisecond) {
				return 0, nil, ctx.Err()
			}
			at, ok = n.swapped(result.Rev)
		}
		swaps = append(swaps, max(0, at.Sub(acknowledged)))
	}
	return acknowledged.Sub(began), swaps, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
