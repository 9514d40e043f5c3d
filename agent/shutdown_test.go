package agent_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"grapevine/agent"
)

// held is a backend that holds each request until it is let go.
type held struct {
	arrived chan struct{}
	release chan struct{}
}

// hold starts a node with a route to such a backend, and a request that is under way there.
func hold(t *testing.T, c agent.Config) (*node, held, chan reply) {
	t.Helper()
	h := held{make(chan struct{}), make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.arrived <- struct{}{}
		select {
		case <-h.release:
			io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	c.ConfigFiles = []string{file(t, "gateway.yaml", "routes: {slow: {path: /slow, backends: [\""+server.URL+"\"]}}")}
	n := start(t, c)
	answer := make(chan reply, 1)
	go func() {
		r, err := n.ask("http", "GET", "/slow", "")
		if err != nil {
			r = reply{body: err.Error()}
		}
		answer <- r
	}()
	<-h.arrived
	return n, h, answer
}

// events returns the data of the events of a watch, one a call.
func (n *node) events(path, lastID string) func() string {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), "GET", "http://"+n.Addresses()["admin"]+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	response, err := client(n.t, "tcp", n.Addresses()["admin"]).Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	return func() string {
		n.t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		n.t.Fatalf("the stream ended: %v", lines.Err())
		return ""
	}
}

func TestShutdownLosesNobody(t *testing.T) {
	c := config(t)
	n, backend, answer := hold(t, c)
	events := n.events("/v1/watch", "")
	events() // the stream is open

	n.stop()
	n.log.await(t, "agent is stopping")
	// Readiness has failed, and the API still tells.
	if r := n.get("socket", "/ready"); r.status != 503 || !strings.Contains(r.body, "draining") {
		t.Errorf("readiness answers %s", r)
	}
	// Nobody new comes in; who is there finishes.
	for {
		if _, err := n.ask("http", "GET", "/alive", ""); err != nil {
			break
		}
	}
	close(backend.release)
	if r := <-answer; r.body != "done" {
		t.Errorf("the request under way got %s", r)
	}
	if e := events(); e != `{"reason":"the agent is stopping"}` {
		t.Errorf("the watch got %s", e)
	}
	if err := n.wait(); err != nil {
		t.Errorf("the agent stopped with %v", err)
	}
	// The store is closed and the lock free.
	start(t, c)
}

func TestGraceGoesOnServing(t *testing.T) {
	c := config(t)
	c.Grace = time.Hour
	c.ConfigFiles = []string{file(t, "gateway.yaml", "routes: {a: {path: /a, backends: [\""+backend(t, "a")+"\"]}}")}
	n := start(t, c)
	n.stop()
	n.log.await(t, "agent is stopping")
	if r := n.get("http", "/ready"); r.status != 503 {
		t.Errorf("readiness answers %s", r)
	}
	if r := n.get("http", "/a"); r.body != "a /a" {
		t.Errorf("the route answers %s", r)
	}
	n.Force() // and so the hour is over
	n.wait()
}

func TestDrainIsBounded(t *testing.T) {
	c := config(t)
	c.Drain = time.Millisecond
	n, _, answer := hold(t, c)
	err := n.stopped()
	if err == nil || !strings.Contains(err.Error(), "http listener: requests were still under way") {
		t.Errorf("the agent stopped with %v", err)
	}
	if r := <-answer; r.status != 0 {
		t.Errorf("the request that was cut got %s", r)
	}
	start(t, c)
}

func TestForceWaitsForNobody(t *testing.T) {
	c := config(t)
	n, _, answer := hold(t, c)
	n.Force()
	if err := n.stopped(); err == nil {
		t.Error("the agent stopped without a word of the request that it cut")
	}
	if r := <-answer; r.status != 0 {
		t.Errorf("the request that was cut got %s", r)
	}
}

// signalled runs an agent as the process would, and returns what Run returns.
func signalled(t *testing.T, c agent.Config) (*log, chan error) {
	t.Helper()
	l, done := newLog(), make(chan error, 1)
	go func() { done <- agent.Run(t.Context(), c, l) }()
	l.await(t, "agent is up")
	return l, done
}

// returned is what Run returned.
func returned(t *testing.T, done chan error, l *log) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("the agent did not stop; its log:\n%s", l)
		return nil
	}
}

func kill(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

func TestSignals(t *testing.T) {
	c := config(t)
	path := file(t, "gateway.yaml", "{}")
	c.ConfigFiles = []string{path}
	l, done := signalled(t, c)
	kill(t, syscall.SIGHUP)
	l.await(t, "reload done")
	write(t, path, "routes: [")
	kill(t, syscall.SIGHUP)
	l.await(t, "reload refused")
	kill(t, syscall.SIGTERM)
	if err := returned(t, done, l); err != nil {
		t.Errorf("the agent stopped with %v", err)
	}
	has(t, l.String(), "agent has stopped")
}

func TestSecondSignalForces(t *testing.T) {
	c := config(t)
	c.Grace = time.Hour
	l, done := signalled(t, c)
	kill(t, syscall.SIGINT)
	l.await(t, "agent is stopping")
	kill(t, syscall.SIGTERM)
	if err := returned(t, done, l); err != nil {
		t.Errorf("the agent stopped with %v", err)
	}
}

func TestRunReturnsWhyItDidNotStart(t *testing.T) {
	c := config(t)
	c.HTTP = occupied(t)
	err := agent.Run(t.Context(), c, io.Discard)
	if err == nil || !strings.Contains(err.Error(), c.HTTP) {
		t.Errorf("run returned %v", err)
	}
}
