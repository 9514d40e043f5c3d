package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// paused is how long a process is stopped: long enough that the others take its node for dead.
const paused = 10 * time.Second

// pause stops the process as it is; resume lets it go on.
func (n *clusterNode) pause()  { n.signal(syscall.SIGSTOP) }
func (n *clusterNode) resume() { n.signal(syscall.SIGCONT) }

func (n *clusterNode) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		n.t.Fatalf("%s: %v: %v", n.name, s, err)
	}
}

// nodeID is the id of the node.
func (n *clusterNode) nodeID() string {
	n.t.Helper()
	var s struct{ ID string }
	if err := json.Unmarshal([]byte(n.must("GET", "/v1/status", "")), &s); err != nil || s.ID == "" {
		n.t.Fatalf("%s: node id %q, %v", n.name, s.ID, err)
	}
	return s.ID
}

// owned is what a node says of an ephemeral key; there is false if it shows none.
func (n *clusterNode) owned(key string) (orphaned, there bool) {
	n.t.Helper()
	code, body, err := n.api("GET", "/v1/kv/"+key+"?detail=1", "")
	var e struct{ Owner *struct{ Orphaned bool } }
	switch {
	case err == nil && code == http.StatusNotFound:
		return false, false
	case err != nil || code != http.StatusOK || json.Unmarshal([]byte(body), &e) != nil || e.Owner == nil:
		n.t.Errorf("%s: %s: %d %s %v", n.name, key, code, body, err)
		return false, true
	}
	return e.Owner.Orphaned, true
}

// Pitfall 20: an agent that is stopped for ten seconds, as by a debugger or a full host, loses
// nothing that it owns: the others show it the whole time, serve every request, and take it
// for well again once the agent goes on.
func TestPitfall20AStoppedAgentLosesNothing(t *testing.T) {
	t.Parallel() // it waits for the others to notice
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") }))
	defer backend.Close()
	nodes := startCluster(t, 3)
	nodes[0].must("PUT", "/v1/kv/gateway/routes/shop?wait=all", fmt.Sprintf(`{"path":"/shop/{**rest}","backends":[%q]}`, backend.URL))
	stopped := without(nodes, awaitLeader(t, nodes))[0]
	survivors := without(nodes, stopped)
	key := "gateway/nodes/" + stopped.nodeID()
	each := func(what string, holds func(*clusterNode) bool) {
		t.Helper()
		for _, n := range survivors {
			n.await(what, func(clusterStatus) bool { return holds(n) })
		}
	}
	each("what the node owns", func(n *clusterNode) bool { _, there := n.owned(key); return there })

	ctx, stop := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	var sent atomic.Int64
	tasks.Go(func() { sent.Add(request(ctx, t, survivors)) })
	stopped.pause()
	sawOrphaned := false
	for over := time.After(paused); over != nil; {
		select {
		case <-over:
			over = nil
		case <-time.After(50 * time.Millisecond):
		}
		for _, n := range survivors {
			orphaned, there := n.owned(key)
			if !there {
				t.Fatalf("%s: %s is gone", n.name, key)
			}
			sawOrphaned = sawOrphaned || orphaned
		}
	}
	if !sawOrphaned {
		t.Errorf("nobody noticed in %v that the agent stands still", paused)
	}
	stopped.resume()
	each("the node is back, with what it owns", func(n *clusterNode) bool {
		orphaned, there := n.owned(key)
		return there && !orphaned && n.clusterStatus().Alive == 3
	})
	stop()
	tasks.Wait()
	t.Logf("%d requests were served meanwhile", sent.Load())
}

// Pitfall 28: the gossip key is replaced under load while a node stands still. It is with the
// others again once it goes on, and can be reached with the new key.
func TestPitfall28RotationWithAStoppedAgent(t *testing.T) {
	t.Parallel()
	if !long {
		t.Skip("waits for a stopped agent's death and return; GRAPEVINE_LONG=1 runs it")
	}
	nodes := startCluster(t, 3)
	stopped := without(nodes, awaitLeader(t, nodes))[0]
	others := without(nodes, stopped)
	w := &clusterWriter{acknowledged: map[string]string{}}
	ctx, stop := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	tasks.Go(func() { w.run(ctx, t, others[0]) })
	w.await(t, 20, clusterPatience)

	stopped.pause()
	rotated := make(chan string, 1)
	tasks.Go(func() {
		code, body, err := others[1].api("POST", "/v1/keyring/rotate", "")
		if err != nil || code != http.StatusOK {
			rotated <- fmt.Sprintf("%d %s %v", code, body, err)
		}
		close(rotated)
	})
	<-time.After(paused)
	stopped.resume()
	if problem := <-rotated; problem != "" {
		t.Errorf("rotate: %s", problem)
	}
	for _, n := range nodes {
		n.await("all members", func(s clusterStatus) bool { return s.Alive == 3 && s.Voters == 3 && s.Leader != "" })
	}
	stopped.await("one key everywhere", func(clusterStatus) bool { return stopped.oneKey(1) })
	w.await(t, w.count()+20, clusterPatience)
	stop()
	tasks.Wait()
	for _, n := range nodes {
		w.check(t, n)
	}
}

// oneKey tells whether the three nodes have the key of a generation, and no other.
func (n *clusterNode) oneKey(generation int) bool {
	n.t.Helper()
	code, body, err := n.api("GET", "/v1/keyring", "")
	var k struct {
		Generation int
		Keys       []string
		Nodes      []struct{ Has []string }
	}
	if err != nil || code != http.StatusOK || json.Unmarshal([]byte(body), &k) != nil {
		return false
	}
	for _, node := range k.Nodes {
		if len(node.Has) != 1 || len(k.Keys) != 1 || node.Has[0] != k.Keys[0] {
			return false
		}
	}
	return k.Generation == generation && len(k.Nodes) == 3
}
