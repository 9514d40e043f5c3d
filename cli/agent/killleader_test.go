package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	requestRate = 200 // a second, over both survivors
	// writesAgain is how long the death of a leader may stop writes.
	writesAgain = 5 * time.Second
	// clusterPatience bounds waits for elections and for nodes that start.
	clusterPatience = 90 * time.Second
)

// While leaders are killed and started again, no request to the others fails, no
// acknowledged write is lost, and writes go on by themselves.
func TestLeadersAreKilled(t *testing.T) {
	t.Parallel() // it waits for elections
	rounds := 2
	if long {
		rounds = 20
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") }))
	defer backend.Close()
	nodes := startCluster(t, 3)
	nodes[0].must("PUT", "/v1/kv/gateway/routes/shop?wait=all", fmt.Sprintf(`{"path":"/shop/{**rest}","backends":[%q]}`, backend.URL))

	w := &clusterWriter{acknowledged: map[string]string{}}
	var sent atomic.Int64
	for round := range rounds {
		leader := awaitLeader(t, nodes)
		survivors := without(nodes, leader)
		ctx, stop := context.WithCancel(t.Context())
		var tasks sync.WaitGroup
		tasks.Go(func() { sent.Add(request(ctx, t, survivors)) })
		tasks.Go(func() { w.run(ctx, t, survivors[round%len(survivors)]) })

		w.await(t, w.count()+20, clusterPatience)
		leader.kill()
		killed := time.Now()
		w.await(t, w.count()+1, clusterPatience)
		took := time.Since(killed)
		t.Logf("round %d: %s killed, the next write after %v", round, leader.name, took.Round(time.Millisecond))
		if took > writesAgain {
			t.Errorf("round %d: writes stopped for %v", round, took)
		}
		*leader = *startNode(t, leader.name, leader.dir, "--gossip", leader.gossip)
		w.await(t, w.count()+20, clusterPatience)
		stop()
		tasks.Wait()
		leader.await("three living voters", func(s clusterStatus) bool { return s.Alive == 3 && s.Voters == 3 && s.Leader != "" })
	}
	t.Logf("%d requests, %d writes acknowledged, the longest took %v", sent.Load(), w.count(), w.longest.Round(time.Millisecond))
	for _, n := range nodes {
		w.check(t, n)
	}
}

// clusterNode is a process of a cluster.
type clusterNode struct {
	*process
	name, dir, gossip string
}

func startNode(t *testing.T, name, dir string, flags ...string) *clusterNode {
	t.Helper()
	n := &clusterNode{process: startAgent(t, dir, append([]string{"--node", name}, flags...)...), name: name, dir: dir}
	var s struct{ Listeners struct{ Gossip string } }
	if err := json.Unmarshal([]byte(n.must("GET", "/v1/status", "")), &s); err != nil {
		t.Fatal(err)
	}
	n.gossip = s.Listeners.Gossip
	return n
}

// startCluster starts n nodes, and returns when all of them may be lost but a majority.
func startCluster(t *testing.T, n int) []*clusterNode {
	t.Helper()
	nodes := []*clusterNode{startNode(t, "node-1", t.TempDir(), "--gossip", "127.0.0.1:0")}
	var token struct{ Token string }
	if err := json.Unmarshal([]byte(nodes[0].must("POST", "/v1/tokens", `{"role":"voter"}`)), &token); err != nil {
		t.Fatal(err)
	}
	for i := 2; i <= n; i++ {
		nodes = append(nodes, startNode(t, fmt.Sprintf("node-%d", i), t.TempDir(), "--gossip", "127.0.0.1:0", "--join", token.Token))
	}
	for _, node := range nodes {
		node.await("all voters", func(s clusterStatus) bool { return s.Voters == n && s.Alive == n && s.Leader != "" })
	}
	return nodes
}

type clusterStatus struct {
	Leader        string
	Voters, Alive int
}

func (n *clusterNode) clusterStatus() (s clusterStatus) {
	if code, body, err := n.api("GET", "/v1/status", ""); err == nil && code == http.StatusOK {
		var status struct{ Cluster clusterStatus }
		if json.Unmarshal([]byte(body), &status) == nil {
			return status.Cluster
		}
	}
	return s
}

func (n *clusterNode) await(what string, holds func(clusterStatus) bool) {
	n.t.Helper()
	for deadline := time.After(clusterPatience); !holds(n.clusterStatus()); {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			n.t.Fatalf("%s: %s: not within %v, is %+v", n.name, what, clusterPatience, n.clusterStatus())
		}
	}
}

// awaitLeader waits until all nodes agree.
func awaitLeader(t *testing.T, nodes []*clusterNode) (leader *clusterNode) {
	t.Helper()
	for deadline := time.After(clusterPatience); ; {
		counts := map[string]int{}
		for _, n := range nodes {
			counts[n.clusterStatus().Leader]++
		}
		for _, n := range nodes {
			if counts[n.name] == len(nodes) {
				return n
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("no leader of all: %v", counts)
		}
	}
}

func without(nodes []*clusterNode, leader *clusterNode) (others []*clusterNode) {
	for _, n := range nodes {
		if n != leader {
			others = append(others, n)
		}
	}
	return others
}

// request asks the proxies of nodes in turns, on a new connection each, so that
// nothing is tried twice, and wants every answer.
func request(ctx context.Context, t *testing.T, nodes []*clusterNode) (sent int64) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(time.Second / requestRate)
	defer ticker.Stop()
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return sent
		}
		n := nodes[int(sent)%len(nodes)]
		sent++
		requests.Go(func() {
			response, err := client.Get("http://" + n.proxy + "/shop/a")
			if err != nil {
				t.Errorf("%s: %v", n.name, err)
				return
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusOK || string(body) != "served" {
				t.Errorf("%s: %s %q %v", n.name, response.Status, body, err)
			}
		})
	}
}

// clusterWriter writes a key after the other and keeps what was acknowledged.
type clusterWriter struct {
	tried int // by the one who runs

	mu           sync.Mutex // guards what follows
	acknowledged map[string]string
	longest      time.Duration
}

func (w *clusterWriter) run(ctx context.Context, t *testing.T, by *clusterNode) {
	for ctx.Err() == nil {
		w.tried++
		key, value := fmt.Sprintf("app/%d", w.tried), fmt.Sprint(w.tried)
		began := time.Now()
		code, body, err := by.api("PUT", "/v1/kv/"+key+"?wait=none&timeout=20s", value)
		switch {
		case err != nil:
			t.Errorf("%s: write %s: %v", by.name, key, err)
			return
		case code == http.StatusOK:
			w.mu.Lock()
			w.acknowledged[key], w.longest = value, max(w.longest, time.Since(began))
			w.mu.Unlock()
		case code != http.StatusServiceUnavailable:
			t.Errorf("%s: write %s: %d %s", by.name, key, code, body)
		default:
			t.Logf("%s: write %s after %v: %d %s", by.name, key, time.Since(began), code, body)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (w *clusterWriter) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acknowledged)
}

func (w *clusterWriter) await(t *testing.T, n int, patience time.Duration) {
	t.Helper()
	for deadline := time.After(patience); w.count() < n; {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("%d writes were acknowledged, want %d", w.count(), n)
		}
	}
}

// check wants every acknowledged write on a node.
func (w *clusterWriter) check(t *testing.T, n *clusterNode) {
	t.Helper()
	var listing struct {
		Entries []struct {
			Key   string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(n.must("GET", "/v1/kv?prefix=app/&consistency=linearizable", "")), &listing); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range listing.Entries {
		got[e.Key] = strings.TrimSpace(string(e.Value))
	}
	lost := 0
	for key, value := range w.acknowledged {
		if got[key] != value {
			lost++
			t.Errorf("%s: %s is %q, %q was acknowledged", n.name, key, got[key], value)
		}
	}
	if lost == 0 {
		t.Logf("%s has all %d acknowledged writes", n.name, len(w.acknowledged))
	}
}
