package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// statusOf is what a node's proxy answers with, 0 for no answer.
func statusOf(n *clusterNode, path string) int {
	response, err := http.Get("http://" + n.proxy + path)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
}

// withinASecond is the receipt of a change that is served everywhere.
var withinASecond = regexp.MustCompile(`applied by 3/3 nodes in [0-9]{1,3} ms`)

// A maintenance is in force on all nodes within a second, and out of force again.
// Probes and other clusters answer as before; a WebSocket is told with 1001 when the
// grace is over.
func TestMaintenanceOfACluster(t *testing.T) {
	booking := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			io.WriteString(w, "booked")
			return
		}
		if c, err := websocket.Accept(w, r, nil); err == nil {
			_, _, _ = c.Read(r.Context())
			c.CloseNow()
		}
	}))
	t.Cleanup(booking.Close)
	nodes := startCluster(t, 3)
	first, last := nodes[0], nodes[2]
	for _, name := range []string{"booking", "shop"} {
		if code, _, stderr := first.cli("config", "set", "gateway/routes/"+name, fmt.Sprintf("path=/%s,backends=%s", name, booking.URL), "--wait", "all"); code != 0 {
			t.Fatal(stderr)
		}
	}
	socket, _, err := websocket.Dial(t.Context(), "ws://"+last.proxy+"/booking", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	everywhere := func(path string, status int) {
		t.Helper()
		for i, n := range nodes {
			if got := statusOf(n, path); got != status {
				t.Errorf("node %d: %s: %d; want %d", i, path, got, status)
			}
		}
	}
	everywhere("/booking", 200)

	if code, _, stderr := first.cli("maintenance", "on", "booking", "--reason", "deploy", "--grace", "200ms", "--for", "30m"); code != 0 || !withinASecond.MatchString(stderr) {
		t.Fatalf("%d: %s", code, stderr)
	}
	everywhere("/booking", 503)
	everywhere("/shop", 200)
	everywhere("/ready", 200)
	everywhere("/alive", 200)
	if _, _, err := socket.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ends with %v", err)
	}
	if _, stdout, _ := last.cli("status"); !strings.Contains(stdout, "booking: on, for ") || !strings.Contains(stdout, ": deploy") {
		t.Errorf("agent status:\n%s", stdout)
	}
	if _, stdout, _ := last.cli("routes", "explain", "/booking"); !strings.Contains(stdout, "503 maintenance") {
		t.Errorf("agent routes explain:\n%s", stdout)
	}
	if code, _, stderr := last.cli("maintenance", "off", "booking"); code != 0 || !withinASecond.MatchString(stderr) {
		t.Fatalf("%d: %s", code, stderr)
	}
	everywhere("/booking", 200)
	if code, _, _ := last.cli("maintenance", "off", "booking"); code != 4 {
		t.Errorf("to end what is not there ends with %d", code)
	}
	if code, _, _ := last.cli("maintenance", "on", "bookng"); code != 4 {
		t.Errorf("a cluster that there is not ends with %d", code)
	}
}

// Without a quorum one node can be put into maintenance, which a restart keeps.
func TestLocalMaintenanceOfOneNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAgent(t, dir)
	p.must("PUT", "/v1/kv/gateway/routes/hello?wait=local", `{"path":"/hello","respond":{"status":200}}`)
	if code, _, stderr := p.cli("maintenance", "on", "--local"); code != 10 {
		t.Errorf("the whole gateway without a question: %d %s", code, stderr)
	}
	if code, _, stderr := p.cli("maintenance", "on", "--local", "--yes", "--reason", "fire"); code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	status := func(p *process) int {
		response, err := http.Get("http://" + p.proxy + "/hello")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := status(p); got != 503 {
		t.Errorf("got %d", got)
	}
	p.kill()
	p = startAgent(t, dir)
	if got := status(p); got != 503 {
		t.Errorf("after a kill: %d", got)
	}
	if code, stdout, _ := p.cli("maintenance", "status"); code != 0 || !strings.Contains(stdout, "node   on") || !strings.Contains(stdout, "fire") {
		t.Errorf("status: %s", stdout)
	}
	if code, _, stderr := p.cli("maintenance", "off", "--local"); code != 0 {
		t.Fatal(stderr)
	}
	if got := status(p); got != 200 {
		t.Errorf("in the end: %d", got)
	}
}
