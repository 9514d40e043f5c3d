package agenttest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/agent/api"
	"grapevine/agent/cluster"
	"grapevine/agent/identity"
	"grapevine/kv/memnet"
)

// Simulation is a cluster over a network in memory, within a testing/synctest
// bubble. Of every node there is all but its listeners for clients and its API.
type Simulation struct {
	Network *memnet.Network
	Nodes   []*Simulated

	t      testing.TB
	subnet string
	dir    string
}

// Simulate starts a cluster of n nodes, called node-1 and so on, at 10.0.0.1 and so
// on, and returns when all of them know each other and their voters. They stop with
// the test.
func Simulate(t testing.TB, network *memnet.Network, n int) *Simulation {
	t.Helper()
	s := NewSimulation(t, network, "10.0.0")
	s.Grow(n, "voter")
	s.AwaitVoters(votersOf(n))
	return s
}

// votersOf is how many of n nodes that may vote do, see consensus.Decide.
func votersOf(n int) int {
	switch {
	case n < 3:
		return min(n, 1)
	case n < 7:
		return 3
	}
	return 5
}

// NewSimulation is a cluster without nodes yet, whose addresses begin with subnet,
// as "10.0.0".
func NewSimulation(t testing.TB, network *memnet.Network, subnet string) *Simulation {
	s := &Simulation{Network: network, t: t, subnet: subnet, dir: t.TempDir()}
	t.Cleanup(s.close)
	return s
}

// lastProbes is how long memberlist takes to end what was under way.
const lastProbes = time.Minute

func (s *Simulation) close() {
	for _, n := range s.Nodes {
		n.Crash()
	}
	<-time.After(lastProbes)
}

// Grow adds n nodes with a token for a role, and returns when all know each other.
// The first node of all founds the cluster, and all others join it at the same time.
func (s *Simulation) Grow(n int, role string) {
	s.t.Helper()
	if len(s.Nodes) == 0 {
		n--
		s.Add().Start()
		s.AwaitLeader(10 * time.Second)
	}
	if n > 0 {
		token := s.Nodes[0].Token(role)
		for range n {
			s.Add().Joins(token).Start()
		}
	}
	s.AwaitMembers(len(s.up()))
}

// AwaitMembers waits until every node that is up sees n nodes alive.
func (s *Simulation) AwaitMembers(n int) {
	s.t.Helper()
	s.AwaitAll(fmt.Sprintf("%d members", n), time.Minute, func(node *Simulated) bool { return node.Alive() == n })
}

// Add makes a node that is not started: alone it would found a cluster.
func (s *Simulation) Add() *Simulated {
	s.t.Helper()
	i := len(s.Nodes) + 1
	n := &Simulated{
		Name: fmt.Sprintf("node-%d", i), IP: fmt.Sprintf("%s.%d", s.subnet, i),
		ID: fmt.Sprintf("01h%012s%011d", strings.ReplaceAll(s.subnet, ".", ""), i), s: s,
	}
	n.dir = filepath.Join(s.dir, n.Name)
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	n.log = newLogFile(s.t, n.Name)
	s.Nodes = append(s.Nodes, n)
	return n
}

// AwaitVoters waits until there are n voters, and all nodes know.
func (s *Simulation) AwaitVoters(n int) {
	s.t.Helper()
	s.AwaitAll(fmt.Sprintf("%d voters", n), time.Minute, func(node *Simulated) bool { return node.Cluster.Standing().Voters == n })
}

// Leader is the node that leads, as the others see it too; nil if they don't agree.
func (s *Simulation) Leader() (leader *Simulated) {
	up := s.up()
	for i, n := range up {
		if i == 0 {
			leader = s.named(n.Leader())
		}
		if leader == nil || leader.Name != n.Leader() {
			return nil
		}
	}
	return leader
}

// named is the node of a name that is up.
func (s *Simulation) named(name string) *Simulated {
	for _, n := range s.up() {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// AwaitLeader waits until all nodes that are up agree on a leader among them.
func (s *Simulation) AwaitLeader(within time.Duration) *Simulated {
	s.t.Helper()
	var leader *Simulated
	s.up()[0].Await("one leader of all", within, func() bool {
		leader = s.Leader()
		return leader != nil
	})
	return leader
}

func (s *Simulation) up() (up []*Simulated) {
	for _, n := range s.Nodes {
		if n.Up() {
			up = append(up, n)
		}
	}
	return up
}

// AwaitAll waits for something to become true on all nodes that are up.
func (s *Simulation) AwaitAll(what string, within time.Duration, holds func(*Simulated) bool) (took time.Duration) {
	s.t.Helper()
	began := time.Now()
	for _, n := range s.up() {
		n.Await(what, within-time.Since(began), func() bool { return holds(n) })
	}
	return time.Since(began)
}

// AwaitEqual waits until the nodes that are up hold, and serve, the same.
func (s *Simulation) AwaitEqual(within time.Duration) (took time.Duration) {
	s.t.Helper()
	began := time.Now()
	s.up()[0].Await("equal tables", within, s.Equal, func() any { return s.states() })
	return time.Since(began)
}

// Equal tells whether the nodes that are up hold, and serve, the same.
func (s *Simulation) Equal() bool {
	up := s.up()
	for _, n := range up {
		if n.state() != up[0].state() || !n.serves() {
			return false
		}
	}
	return true
}

func (s *Simulation) states() (states []string) {
	for _, n := range s.up() {
		table := n.Gateway.Table()
		states = append(states, fmt.Sprintf("%s holds %s, serves %s %s", n.Name, n.Store.View().Rev(), table.Rev(), table.Hash()))
	}
	return states
}

// Partition cuts some nodes off from all others of the network.
func (s *Simulation) Partition(nodes ...*Simulated) {
	var these, others []string
	for _, n := range s.Nodes {
		if slices.Contains(nodes, n) {
			these = append(these, n.IP)
		} else {
			others = append(others, n.IP)
		}
	}
	s.Network.Partition(these, others)
}

// tokenFor makes a join token on a node.
func tokenFor(n *cluster.Node, role string) (identity.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	secret, _, err := n.CreateToken(ctx, api.TokenWish{Role: role})
	if err != nil {
		return identity.Token{}, err
	}
	return identity.ParseToken(secret)
}

// ended is a context for who must not wait.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
