package agenttest_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"grapevine/agent/agenttest"
	"grapevine/agent/announcing"
	"grapevine/gateway"
)

// All instances of all agents are known to all and served by every gateway, those of
// agents that die are used for a minute and not longer, and all are gone everywhere when
// their connections are.
//
// Agents are nodes of all three forms: voters and edges with a gateway, and edges on hosts
// of services, which have none. Most are of the last form, since a hundred gateways in
// one process would each compile what a hundred hosts have a processor each for.
func TestInstancesOfManyAgents(t *testing.T) {
	m := &manyAgents{gateways: 4, bare: 2, each: 20, die: 1}
	if os.Getenv("GRAPEVINE_LONG") != "" {
		m = &manyAgents{gateways: 6, bare: 94, each: 100, die: 5}
	}
	m.report(t, "%d instances of %d agents, %d of them with a gateway", m.all()*m.each, m.all(), m.gateways)
	simulate(t, 3, m.gateways-3, func(t *testing.T, s *agenttest.Simulation) {
		m.s = s
		m.growBare(t)
		m.report(t, "the cluster is there")
		m.announce(t)
		m.awaitKnown(t, m.all())
		m.awaitServed(t, m.all(), 0)
		m.awaitReceipts(t)
		m.kill(t)
		m.withdraw(t)
	})
}

// manyAgents is a cluster of agents, each with as many instances, one of each route.
type manyAgents struct {
	gateways, bare int // agents with a gateway, and without
	each           int // instances of an agent
	die            int // agents that are killed
	s              *agenttest.Simulation
	leases         [][]*announcing.Lease // by agent
	crash          []func()              // ends an agent's leases as its death does
}

func (m *manyAgents) all() int { return m.gateways + m.bare }

// report logs what has been seen, and what it cost this process so far.
func (m *manyAgents) report(t *testing.T, format string, args ...any) {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	cpu := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	t.Logf("%s (%.1f s of processor time so far)", fmt.Sprintf(format, args...), cpu.Seconds())
}

func (m *manyAgents) growBare(t *testing.T) {
	token := m.s.Nodes[0].Token("edge")
	for range m.bare {
		n := m.s.Add().Joins(token)
		n.NoGateway = true
		n.Start()
	}
	m.s.AwaitMembers(m.all())
}

// announce announces all instances at the same time, as after a power cut.
func (m *manyAgents) announce(t *testing.T) {
	m.leases, m.crash = make([][]*announcing.Lease, m.all()), make([]func(), m.all())
	var clients sync.WaitGroup
	for i, n := range m.s.Nodes {
		leases, end := leasesOf(t, n)
		m.crash[i] = sync.OnceFunc(end)
		t.Cleanup(m.crash[i])
		m.leases[i] = make([]*announcing.Lease, m.each)
		for j := range m.each {
			clients.Go(func() {
				m.leases[i][j] = leaseOf(t, leases, fmt.Sprint("shop-", j), fmt.Sprintf("i-%d-%d", i, j), fmt.Sprintf("10.9.%d.1:%d", i, 1000+j))
			})
		}
	}
	clients.Wait()
}

// shown counts the instances that a node shows.
func shown(n *agenttest.Simulated) (active, orphaned int) {
	for entry := range n.Store.View().Under("gateway/instances/") {
		if entry.Own.Orphaned {
			orphaned++
		} else {
			active++
		}
	}
	return active, orphaned
}

// awaitKnown waits until all nodes show the instances of so many agents, and none of
// others.
func (m *manyAgents) awaitKnown(t *testing.T, agents int) {
	t.Helper()
	// Each agent that lives has one more key, for what its node is; counting all is cheap.
	took := m.s.AwaitAll("all instances", 30*time.Second, func(n *agenttest.Simulated) bool {
		return n.Store.View().LenOwned() == agents*(m.each+1)
	})
	for _, n := range m.s.Nodes {
		if active, orphaned := shown(n); n.Up() && (active != agents*m.each || orphaned > 0) {
			t.Fatalf("%s shows %d instances, %d of them orphaned; want %d", n.Name, active+orphaned, orphaned, agents*m.each)
		}
	}
	m.report(t, "all instances of %d agents are known to all after %v", agents, took)
}

// awaitServed waits until every gateway sends requests to the instances of so many agents
// that live, and of so many whose death is known.
func (m *manyAgents) awaitServed(t *testing.T, living, dead int) {
	t.Helper()
	began := time.Now()
	for _, n := range m.s.Nodes[:m.gateways] {
		n.Await("all destinations", 30*time.Second, func() bool {
			serving, orphaned := 0, 0
			for _, i := range n.Gateway.Instances() {
				switch {
				case i.Serves && i.Orphaned:
					orphaned++
				case i.Serves:
					serving++
				}
			}
			return serving == living*m.each && orphaned == dead*m.each
		})
		m.checkRoutes(t, n, living+dead)
	}
	m.report(t, "all gateways serve those of %d agents and of %d dead ones after %v", living, dead, time.Since(began))
}

// checkRoutes wants one route for each instance of an agent, with one destination of each
// agent.
func (m *manyAgents) checkRoutes(t *testing.T, n *agenttest.Simulated, agents int) {
	t.Helper()
	table := n.Gateway.Table()
	if table.Len() != m.each {
		t.Fatalf("%s has %d routes; want %d", n.Name, table.Len(), m.each)
	}
	for j := range m.each {
		id := fmt.Sprint("shop-", j)
		explained, err := table.Explain(gateway.Question{URL: "/" + id + "/x"})
		if err != nil || explained.Route != id {
			t.Fatalf("%s: route %s: %+v, %v", n.Name, id, explained, err)
		}
		if c, found := table.Cluster(id); !found || len(c.Destinations) != agents {
			t.Fatalf("%s: cluster %s has %d destinations; want %d", n.Name, id, len(c.Destinations), agents)
		}
	}
}

// awaitReceipts wants each client to be told that all gateways serve its instance.
func (m *manyAgents) awaitReceipts(t *testing.T) {
	began := time.Now()
	for _, lease := range slices.Concat(m.leases...) {
		for {
			event, err := lease.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if a, is := event.(announcing.Applied); is && a.Nodes == m.gateways && a.Of == m.gateways {
				break
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%s: no receipt of %d gateways, but %+v", lease.Key(), m.gateways, event)
			}
		}
	}
	m.report(t, "all clients have the receipt of %d gateways after %v", m.gateways, time.Since(began))
}

// kill ends some agents as a power cut does: their instances are used on, as nobody else's, and
// not longer than decided.
func (m *manyAgents) kill(t *testing.T) {
	living := m.all() - m.die
	for i := living; i < m.all(); i++ {
		m.crash[i]()
		m.s.Nodes[i].Crash()
	}
	began := time.Now()
	m.s.AwaitAll("the orphans", 30*time.Second, func(n *agenttest.Simulated) bool { return n.Cluster.Owners().Orphaned == m.die })
	m.report(t, "%d agents were killed: their instances are orphans on all after %v", m.die, time.Since(began))
	m.awaitServed(t, living, m.die)
	m.s.AwaitAll("the end of the orphans", 70*time.Second, func(n *agenttest.Simulated) bool { return n.Cluster.Owners().Hidden == m.die })
	if took := time.Since(began); took < time.Minute {
		t.Errorf("the orphans were used for %v only", took)
	}
	m.report(t, "they are gone on all after %v", time.Since(began))
	m.awaitKnown(t, living)
	m.awaitServed(t, living, 0)
}

// withdraw ends the connections of all clients that are left.
func (m *manyAgents) withdraw(t *testing.T) {
	living := m.all() - m.die
	for _, lease := range slices.Concat(m.leases[:living]...) {
		lease.Close()
	}
	gone := func(n *agenttest.Simulated) bool { return n.Store.View().LenOwned() == living }
	took := m.s.AwaitAll("no instance", 30*time.Second, gone)
	m.report(t, "all are withdrawn, and gone everywhere after %v", took)
	for _, n := range m.s.Nodes[:m.gateways] {
		n.Await("no destination", time.Second, func() bool { return len(n.Gateway.Instances()) == 0 })
		if got := n.Gateway.Table().Len(); got != m.each {
			t.Errorf("%s has %d routes that answer 503; want %d", n.Name, got, m.each)
		}
	}
	m.s.Nodes[0].Await("no route", gateway.DefaultLinger+time.Second, func() bool {
		return !slices.ContainsFunc(m.s.Nodes[:m.gateways], func(n *agenttest.Simulated) bool { return n.Gateway.Table().Len() > 0 })
	})
	for _, n := range m.s.Nodes[:living] {
		if !gone(n) || n.Store.OwnerDigest() != m.s.Nodes[0].Store.OwnerDigest() {
			t.Errorf("%s has %d keys of nodes; want %d, and the same as the others", n.Name, n.Store.View().LenOwned(), living)
		}
	}
	m.report(t, "their routes are given up, and nothing has come back")
}
