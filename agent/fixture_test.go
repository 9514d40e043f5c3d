package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/agent"
)

// TestMain looks for goroutines that are left. Those that wait for an answer of raft are left by raft, which ends without
// giving one.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*deferError).Error"))
}

// patience bounds waits for things that happen at once when all is well.
const patience = 20 * time.Second

// node is a running agent.
type node struct {
	*agent.Agent
	t    *testing.T
	log  *log
	stop context.CancelFunc
	done chan error // what Run returned
}

// config is a node on free ports with a data directory of its own.
func config(t *testing.T) agent.Config {
	t.Helper()
	return agent.Config{
		DataDir: filepath.Join(t.TempDir(), "data"), Node: "test",
		HTTP: "127.0.0.1:0", Admin: "127.0.0.1:0", Gossip: "127.0.0.1:0", Version: "0.0.1", Build: "abc",
	}
}

// start runs an agent until the test ends.
func start(t *testing.T, config agent.Config) *node {
	t.Helper()
	n := &node{t: t, log: newLog(), done: make(chan error, 1)}
	n.Agent = agent.New(config, n.log)
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	go func() { n.done <- n.Run(ctx) }()
	t.Cleanup(func() {
		n.stop()
		n.Force()
		<-n.done
		close(n.done)
	})
	return n
}

// stopped stops the node and returns what Run returned.
func (n *node) stopped() error {
	n.t.Helper()
	n.stop()
	return n.wait()
}

// wait returns what Run returned.
func (n *node) wait() error {
	n.t.Helper()
	select {
	case err := <-n.done:
		n.done <- err // for the cleanup
		return err
	case <-time.After(patience):
		n.t.Fatalf("the agent did not stop; its log:\n%s", n.log)
		return nil
	}
}

// fails opens an agent that must not start, and returns why it doesn't.
func fails(t *testing.T, config agent.Config, code int) string {
	t.Helper()
	a := agent.New(config, newLog())
	err := a.Open()
	if err == nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		t.Fatalf("the agent started; it stopped with %v", a.Run(ctx))
	}
	var exit interface{ ExitCode() int }
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		t.Errorf("%v: not the exit code %d", err, code)
	}
	if strings.Contains(err.Error(), "goroutine ") {
		t.Errorf("a stack trace in %v", err)
	}
	return err.Error()
}

// client never keeps a connection: a node that stops has none to wait for.
func client(t *testing.T, network, address string) *http.Client {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// reply is a whole answer.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.body) }

// ask sends a request to a listener by its name.
func (n *node) ask(listener, method, path, body string) (reply, error) {
	address := n.Addresses()[listener]
	network, base := "tcp", "http://"+address
	if listener == "socket" {
		network, base = "unix", "http://agent"
	}
	request, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client(n.t, network, address).Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(data)}, err
}

// get is ask for what must be answered.
func (n *node) get(listener, path string) reply { n.t.Helper(); return n.do(listener, "GET", path, "") }

func (n *node) do(listener, method, path, body string) reply {
	n.t.Helper()
	r, err := n.ask(listener, method, path, body)
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

// set writes a key and fails the test when it is refused.
func (n *node) set(key, value string) {
	n.t.Helper()
	if r := n.do("admin", "PUT", "/v1/kv/"+key, value); r.status != 200 {
		n.t.Fatalf("set %s: %s", key, r)
	}
}

// decode reads a JSON body.
func decode[T any](t *testing.T, r reply) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	return v
}

// backend answers with its name and what it was asked for.
func backend(t *testing.T, name string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, name+" "+r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// file writes a configuration file and returns its path.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, content)
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// has fails the test unless text contains every part.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// log is what an agent logs; one can wait for a line.
type log struct {
	// mu guards text and grown.
	mu    sync.Mutex
	text  strings.Builder
	grown chan struct{} // closed when there is more
}

func newLog() *log { return &log{grown: make(chan struct{})} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.grown)
	l.grown = make(chan struct{})
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for a line that has the part.
func (l *log) await(t *testing.T, part string) {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		found, grown := strings.Contains(l.text.String(), part), l.grown
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-grown:
		case <-late:
			t.Fatalf("%q never came:\n%s", part, l)
		}
	}
}
