package main

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// wantedRate is how many requests a second the traffic asks for, by workers that each send one at a time.
const (
	wantedRate = 500
	workers    = 20
)

// traffic asks all nodes in turn, on connections that are kept, and tries nothing twice.
type traffic struct {
	t       *testing.T
	nodes   []*clusterNode
	stopped atomic.Int32   // the node that is asked no more; -1: none
	asking  []atomic.Int32 // how many are about to ask a node, or wait for its answer
	sent    atomic.Int64
	failed  atomic.Int64
	began   time.Time
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
}

func startTraffic(t *testing.T, nodes []*clusterNode) *traffic {
	tr := &traffic{t: t, nodes: nodes, asking: make([]atomic.Int32, len(nodes)), began: time.Now()}
	tr.stopped.Store(-1)
	var ctx context.Context
	ctx, tr.cancel = context.WithCancel(t.Context())
	for i := range workers {
		tr.tasks.Go(func() { tr.work(ctx, i) })
	}
	return tr
}

func (tr *traffic) work(ctx context.Context, first int) {
	conns := make([]net.Conn, len(tr.nodes))
	tick := time.NewTicker(workers * time.Second / wantedRate)
	defer tick.Stop()
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	for i := first; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		node := i % len(tr.nodes)
		tr.asking[node].Add(1)
		if int32(node) != tr.stopped.Load() {
			tr.askOnce(node, &conns[node])
		}
		tr.asking[node].Add(-1)
	}
}

func (tr *traffic) askOnce(node int, conn *net.Conn) {
	tr.sent.Add(1)
	if err := tr.ask(node, conn); err != nil {
		if tr.failed.Add(1) < 10 {
			tr.t.Errorf("%s: %v", tr.nodes[node].name, err)
		}
		*conn = nil
	}
}

// leave returns when nobody asks a node any more: a request could meet the end of an idle connection, which no server can
// help.
func (tr *traffic) leave(node int) {
	tr.stopped.Store(int32(node))
	eventually(tr.t, "nobody asks "+tr.nodes[node].name, func() bool { return tr.asking[node].Load() == 0 })
}

func (tr *traffic) ask(node int, conn *net.Conn) (err error) {
	if *conn == nil {
		if *conn, err = net.DialTimeout("tcp", tr.nodes[node].proxy, patience); err != nil {
			return err
		}
	}
	_, err = askOn(*conn, "/warehouse/x")
	return err
}

// end stops the traffic and says what it was.
func (tr *traffic) end() {
	took := time.Since(tr.began)
	tr.cancel()
	tr.tasks.Wait()
	tr.t.Logf("%d requests in %v, %.0f a second, %d failed", tr.sent.Load(), took.Round(time.Millisecond), float64(tr.sent.Load())/took.Seconds(), tr.failed.Load())
	if tr.failed.Load() > 0 {
		tr.t.Errorf("%d of %d requests failed", tr.failed.Load(), tr.sent.Load())
	}
}

// serving counts the instances that a node's gateway sends requests to.
func (n *clusterNode) serving() (count int) {
	var list struct {
		Instances []struct{ Serves, Draining bool }
	}
	if json.Unmarshal([]byte(n.must("GET", "/v1/instances", "")), &list) != nil {
		return -1
	}
	for _, i := range list.Instances {
		if i.Serves && !i.Draining {
			count++
		}
	}
	return count
}

func awaitServing(t *testing.T, nodes []*clusterNode, count int) {
	t.Helper()
	for _, n := range nodes {
		eventually(t, n.name+" has so many instances", func() bool { return n.serving() == count })
	}
}

// replace starts an instance for each that it stops, the oldest first, as deployments do.
func replace(t *testing.T, nodes []*clusterNode, fleet []*wrapped, times int) []*wrapped {
	t.Helper()
	for i := range times {
		next, _ := service(t, nodes[i%len(nodes)].process)
		awaitServing(t, nodes, len(fleet)+1)
		old := fleet[0]
		old.signal(syscall.SIGTERM)
		if code := old.code(); code != serviceExit {
			t.Fatalf("replacement %d: the old instance ended with %d", i, code)
		}
		fleet = append(fleet[1:], next)
		awaitServing(t, nodes, len(fleet))
	}
	return fleet
}

func startFleet(t *testing.T, nodes []*clusterNode, size int) (fleet []*wrapped) {
	t.Helper()
	for i := range size {
		w, _ := service(t, nodes[i%len(nodes)].process)
		fleet = append(fleet, w)
	}
	awaitServing(t, nodes, size)
	return fleet
}

// A service of three instances behind three nodes is replaced again and again: no request fails, and none has to be tried
// twice.
func TestRollingReplacements(t *testing.T) {
	times := 3
	if long {
		times = 50
	}
	nodes := startCluster(t, 3)
	fleet := startFleet(t, nodes, 3)
	tr := startTraffic(t, nodes)
	replace(t, nodes, fleet, times)
	tr.end()
	t.Logf("%d replacements", times)
	for _, n := range nodes {
		assertNoUpstreamFailures(t, n.process)
	}
}

// One gateway is stopped in the middle, once nobody asks it any more.
func TestRollingReplacementsWhileAGatewayStops(t *testing.T) {
	times := 2
	if long {
		times = 25
	}
	nodes := startCluster(t, 3)
	fleet := startFleet(t, nodes[:2], 3)
	tr := startTraffic(t, nodes)
	fleet = replace(t, nodes[:2], fleet, times)
	tr.leave(2)
	nodes[2].stop()
	replace(t, nodes[:2], fleet, times)
	tr.end()
	for _, n := range nodes[:2] {
		assertNoUpstreamFailures(t, n.process)
	}
}

// A service that is killed gets no new request on any node a second later.
func TestAKilledServiceIsGoneWithinASecond(t *testing.T) {
	nodes := startCluster(t, 3)
	fleet := startFleet(t, nodes, 3)
	fleet[0].signal(syscall.SIGKILL)
	<-time.After(time.Second)
	for _, n := range nodes {
		if got := n.serving(); got != 2 {
			t.Errorf("%s: a second later it has %d instances", n.name, got)
		}
	}
	tr := startTraffic(t, nodes)
	<-time.After(2 * time.Second)
	tr.end()
}

// An agent is killed while the service that it announced lives: the other gateways go on sending it requests, none fails,
// and the next start of the agent has the instance again.
func TestAKilledAgentTakesNoServiceWithIt(t *testing.T) {
	down := 3 * time.Second
	if long {
		down = 25 * time.Second // by then it is found dead, and its instance orphaned
	}
	nodes := startCluster(t, 3)
	startFleet(t, nodes, 3)
	rest, gone := nodes[:2], nodes[2]
	// What is announced is on disk within a second.
	<-time.After(1500 * time.Millisecond)
	tr := startTraffic(t, rest)
	gone.kill()
	for until := time.Now().Add(down); time.Now().Before(until); <-time.After(50 * time.Millisecond) {
		for _, n := range rest {
			if got := n.serving(); got != 3 {
				t.Fatalf("%s has %d instances while an agent is away", n.name, got)
			}
		}
	}
	back := startNode(t, gone.name, gone.dir, "--gossip", gone.gossip)
	eventually(t, "the instance's client is back", func() bool { return leasesOf(back.process) == 1 })
	awaitServing(t, append(rest, back), 3)
	tr.end()
	for _, n := range rest {
		assertNoUpstreamFailures(t, n.process)
	}
}
