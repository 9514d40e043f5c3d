package consensus_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"grapevine/kv"
	"grapevine/kv/consensus"
	"grapevine/kv/memnet"
)

const (
	raftPort = 7000
	callPort = 7001
)

// cluster is nodes on a network in memory, within a bubble of fake time.
type cluster struct {
	t     *testing.T
	net   *memnet.Network
	nodes []*node
	// dir is where nodes keep their files; "" keeps them in memory, over restarts.
	dir string
	// change adapts the options of a node before it starts.
	change func(n *node, o *consensus.Options)
	// forget makes nodes forget which requests they have done.
	forget bool
}

// node is one node, up while raft is not nil.
type node struct {
	c      *cluster
	name   string
	ip     string
	host   *memnet.Host
	server string // its id in raft
	home   *consensus.Home
	store  *kv.Store
	raft   *consensus.Raft
	client *consensus.Client
	calls  *http.Server
}

func newCluster(t *testing.T, seed uint64, size int) *cluster {
	c := &cluster{t: t, net: memnet.New(seed)}
	c.net.SetDelay(200*time.Microsecond, 2*time.Millisecond)
	for range size {
		c.add()
	}
	return c
}

// add makes a node that is not started.
func (c *cluster) add() *node {
	k := len(c.nodes) + 1
	n := &node{c: c, name: fmt.Sprintf("n%d", k), ip: fmt.Sprintf("10.0.0.%d", k)}
	n.host, n.server = c.net.Host(n.ip), n.name
	c.nodes = append(c.nodes, n)
	return n
}

// begin starts all nodes and bootstraps the first with all as voters.
func (c *cluster) begin() {
	c.t.Helper()
	var servers []consensus.Server
	for _, n := range c.nodes {
		n.start()
		servers = append(servers, n.asServer(true))
	}
	if err := c.nodes[0].raft.Bootstrap(servers...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		n.kill()
		if n.store != nil {
			n.store.Close()
			n.store = nil
		}
	}
}

func (n *node) asServer(voter bool) consensus.Server {
	return consensus.Server{ID: n.server, Address: fmt.Sprintf("%s:%d", n.ip, raftPort), Voter: voter}
}

func (n *node) path() string { return filepath.Join(n.c.dir, n.name) }

// options are those of the node as it starts now.
func (n *node) options() consensus.Options {
	t := n.c.t
	listener, err := n.host.Listen(raftPort)
	if err != nil {
		t.Fatal(err)
	}
	n.client = consensus.NewClient(n.dialCalls, nil)
	o := consensus.Options{
		Node: n.name, Server: n.server, Address: fmt.Sprintf("%s:%d", n.ip, raftPort),
		Store: n.store, Listener: listener, Dial: n.host.Dial, Remote: n.client, Logger: logger(n.name),
	}
	if n.c.dir != "" {
		o.Dir = filepath.Join(n.path(), "raft")
	}
	if n.c.change != nil {
		n.c.change(n, &o)
	}
	return o
}

// logger writes raft's log when GRAPEVINE_LOG is set.
func logger(name string) *slog.Logger {
	if os.Getenv("GRAPEVINE_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", name)
}

// start starts the node on what it had when it was stopped.
func (n *node) start() {
	n.c.t.Helper()
	if err := n.tryStart(); err != nil {
		n.c.t.Fatalf("node %s: %v", n.name, err)
	}
}

func (n *node) tryStart() error {
	if err := n.openStore(); err != nil {
		return err
	}
	var err error
	if n.c.dir != "" {
		n.raft, err = consensus.Open(n.options())
	} else {
		if n.home == nil {
			n.home = consensus.NewMemoryHome()
		}
		n.raft, err = consensus.OpenOn(n.options(), n.home)
	}
	if err != nil {
		n.raft = nil
		n.host.Crash()
		return err
	}
	if n.c.forget {
		n.raft.ForgetRequests()
	}
	n.serve()
	return nil
}

func (n *node) openStore() (err error) {
	if n.store != nil {
		return nil
	}
	o := kv.Options{}
	if n.c.dir != "" {
		if err := os.MkdirAll(n.path(), 0o700); err != nil {
			return err
		}
		o.Path = filepath.Join(n.path(), "kv.db")
	}
	n.store, err = kv.Open(o)
	return err
}

func (n *node) serve() {
	listener, err := n.host.Listen(callPort)
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.calls = &http.Server{Handler: n.raft.Handler(nil)}
	go n.calls.Serve(listener)
}

// dialCalls reaches another node's calls by its address in raft.
func (n *node) dialCalls(ctx context.Context, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return n.host.Dial(ctx, fmt.Sprintf("%s:%d", host, callPort))
}

// kill ends the node without a word to the others.
func (n *node) kill() {
	if n.raft == nil {
		return
	}
	n.host.Crash()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	n.end(ended)
}

// end shuts the node down.
func (n *node) end(ctx context.Context) {
	if err := n.raft.Shutdown(ctx); err != nil {
		n.c.t.Errorf("node %s: %v", n.name, err)
	}
	n.calls.Close()
	n.client.Close()
	n.host.Crash()
	n.raft = nil
	if n.c.dir != "" {
		n.store.Close()
		n.store = nil
	}
}

// leader waits for a node that leads and that its peers in others follow.
func (c *cluster) leader(others ...*node) *node {
	c.t.Helper()
	if len(others) == 0 {
		others = c.nodes
	}
	var found *node
	c.eventually("a leader", func() bool {
		found = nil
		for _, n := range others {
			if n.raft == nil {
				continue
			}
			if _, here, _ := n.raft.Leader(); here {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// within bounds what a test waits for, in fake time.
const within = 30 * time.Second

func (c *cluster) eventually(what string, holds func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: not within %v", what, within)
		}
		<-time.After(time.Millisecond)
	}
}

// put writes one key through a node.
func (n *node) put(key kv.Key, value string) (kv.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return n.raft.Propose(ctx, kv.Txn{Then: []kv.Op{kv.Put(key, []byte(value))}})
}

func (n *node) mustPut(key kv.Key, value string) kv.Result {
	n.c.t.Helper()
	result, err := n.put(key, value)
	if err != nil {
		n.c.t.Fatalf("put through %s: %v", n.name, err)
	}
	return result
}

// agree waits until the stores of all nodes that are up stand at one head.
func (c *cluster) agree() {
	c.t.Helper()
	c.eventually("one head", func() bool {
		var hash kv.Hash
		for _, n := range c.nodes {
			if n.raft == nil {
				continue
			}
			now := n.store.View().Head().Hash
			if hash != (kv.Hash{}) && hash != now {
				return false
			}
			hash = now
		}
		return true
	})
}

// ips are the addresses of nodes, for partitions.
func ips(nodes ...*node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.ip)
	}
	return all
}

// others are all nodes but some.
func (c *cluster) others(but ...*node) []*node {
	var rest []*node
	for _, n := range c.nodes {
		keep := true
		for _, b := range but {
			keep = keep && n != b
		}
		if keep {
			rest = append(rest, n)
		}
	}
	return rest
}
