// Package agenttest starts real nodes for tests, several of them in a line.
//
//	nodes := agenttest.Start(t, 3)
//	nodes[0].Set("gateway/routes/shop", `{"path":"/shop/{**rest}","backends":["http://127.0.0.1:9001"]}`, "all")
//	nodes[2].Get("/shop/")
package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"grapevine/agent"
)

// Patience bounds what is waited for; it passes only when something is wrong.
const Patience = 60 * time.Second

// Node is an agent of a test's cluster, on loopback.
type Node struct {
	*agent.Agent
	Config agent.Config

	t    testing.TB
	log  *logFile
	stop context.CancelFunc
	done chan error
}

// Start starts a cluster of n nodes, called node-1 and so on, and returns when all
// of them know each other. They stop with the test.
func Start(t testing.TB, n int) []*Node {
	t.Helper()
	nodes := []*Node{Run(t, Config(t, 1))}
	if n > 1 {
		token := nodes[0].Token("voter")
		for i := 2; i <= n; i++ {
			config := Config(t, i)
			config.Join = []string{token}
			nodes = append(nodes, Run(t, config))
		}
	}
	for _, node := range nodes {
		node.Await("all members", func() bool { return node.Alive() == n })
	}
	return nodes
}

// Config is that of the i-th node: free ports on loopback and a data directory of
// the test's.
func Config(t testing.TB, i int) agent.Config {
	return agent.Config{
		DataDir: filepath.Join(t.TempDir(), "data"), Node: fmt.Sprintf("node-%d", i),
		HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", Gossip: "127.0.0.1:0", Version: "0.0.1", Build: "test",
		Drain: time.Second,
	}
}

// Run runs an agent until the test ends, or Stop.
func Run(t testing.TB, config agent.Config) *Node {
	t.Helper()
	n := &Node{Config: config, t: t, log: newLogFile(t, config.Node), done: make(chan error, 1)}
	n.Agent = agent.New(config, n.log)
	if err := n.Open(); err != nil {
		t.Fatalf("%s: %v", config.Node, err)
	}
	// The next start of this node has the same addresses.
	n.Config.HTTP, n.Config.Admin, n.Config.Gossip = n.Addresses()["http"], n.Addresses()["admin"], n.Addresses()["gossip"]
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	go func() { n.done <- n.Agent.Run(ctx) }()
	t.Cleanup(n.Stop)
	return n
}

// Stop stops the agent as SIGTERM does, and waits for its end. Stopping twice does
// nothing.
func (n *Node) Stop() {
	n.t.Helper()
	n.stop()
	if err, first := <-n.done; first && err != nil {
		n.t.Errorf("%s: %v", n.Config.Node, err)
	}
	select {
	case <-n.done:
	default:
		close(n.done)
	}
}

// Again starts a node that was stopped.
func (n *Node) Again() *Node { return Run(n.t, n.Config) }

// Await waits for something to become true.
func (n *Node) Await(what string, holds func() bool) {
	n.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(Patience)
	for !holds() {
		select {
		case <-ticker.C:
		case <-timeout:
			n.t.Fatalf("%s: %s: not within %v; the log ends with\n%s", n.Config.Node, what, Patience, n.log.end())
		}
	}
}

// Call asks the node's API and decodes the answer into out, unless that is nil. It
// returns the status.
func (n *Node) Call(method, path string, body, out any) (int, error) {
	var data io.Reader
	if text, isText := body.(string); isText {
		data = strings.NewReader(text)
	} else if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		data = bytes.NewReader(encoded)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+n.Addresses()["admin"]+path, data)
	if err != nil {
		return 0, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return 0, err
	case response.StatusCode >= 300:
		return response.StatusCode, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, bytes.TrimSpace(answer))
	case out != nil:
		err = json.Unmarshal(answer, out)
	}
	return response.StatusCode, err
}

// MustCall is Call for what has to succeed.
func (n *Node) MustCall(method, path string, body, out any) {
	n.t.Helper()
	if _, err := n.Call(method, path, body, out); err != nil {
		n.t.Fatalf("%s: %v", n.Config.Node, err)
	}
}

// Set writes a key and waits for a share of the nodes, as --wait takes it.
func (n *Node) Set(key, value, wait string) {
	n.t.Helper()
	n.MustCall(http.MethodPut, "/v1/kv/"+key+"?wait="+wait, value, nil)
}

// Get asks the node's proxy, and returns status and body.
func (n *Node) Get(path string) (int, string) {
	response, err := http.Get("http://" + n.Addresses()["http"] + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// Token makes a join token for a role.
func (n *Node) Token(role string) string {
	n.t.Helper()
	var made struct {
		Token string `json:"token"`
	}
	n.MustCall(http.MethodPost, "/v1/tokens", map[string]any{"role": role}, &made)
	return made.Token
}

// Member is a row of the list of members.
type Member struct {
	Node, ID, Status, Role, Applied string
	Leader                          bool
}

// Members is the list of members as this node has it.
func (n *Node) Members() []Member {
	var list struct{ Members []Member }
	if _, err := n.Call(http.MethodGet, "/v1/members", nil, &list); err != nil {
		n.t.Log(err)
	}
	return list.Members
}

// Alive counts the members that live.
func (n *Node) Alive() (alive int) {
	for _, m := range n.Members() {
		if m.Status == "alive" || m.Status == "suspect" {
			alive++
		}
	}
	return alive
}

// Voters counts the members that vote.
func (n *Node) Voters() (voters int) {
	for _, m := range n.Members() {
		if m.Role == "voter" {
			voters++
		}
	}
	return voters
}

// Leader is the name of who leads, empty for nobody.
func (n *Node) Leader() string {
	for _, m := range n.Members() {
		if m.Leader {
			return m.Node
		}
	}
	return ""
}

// logFile keeps what an agent writes, and shows it when its test has failed and
// AGENTTEST_LOG is set.
type logFile struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func newLogFile(t testing.TB, name string) *logFile {
	l := &logFile{}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv("AGENTTEST_LOG") != "" {
			t.Logf("the log of %s:\n%s", name, l.end())
		}
	})
	return l
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// end is the last of the log.
func (l *logFile) end() string {
	const most = 20_000
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	return text[max(0, len(text)-most):]
}
