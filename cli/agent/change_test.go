package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	changesPerSecond     = 10
	connectionsPerSecond = 200
)

// Ten changes a second move a route between two backends under 200 new
// connections a second (O30). Every request is answered, none refused or
// reset, and after the receipt of a change no new request reaches the backend
// before.
func TestChangesUnderLoad(t *testing.T) {
	duration := 3 * time.Second
	if long {
		duration = 30 * time.Second
	}
	p := startAgent(t, t.TempDir())
	var backends [2]string
	for i := range backends {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) }))
		t.Cleanup(server.Close)
		backends[i] = server.URL
	}
	move := func(to int) {
		p.must("PUT", "/v1/kv/gateway/routes/moving", fmt.Sprintf(`{"path":"/moving","backends":[%q]}`, backends[to]))
	}
	move(0)

	// phase is even while a change is received and none is under way: then
	// phase/2 changes have been made. It is odd during a change.
	var phase atomic.Int64
	var sent, judged atomic.Int64
	var requests sync.WaitGroup
	end := time.After(duration)
	change, connect := time.NewTicker(time.Second/changesPerSecond), time.NewTicker(time.Second/connectionsPerSecond)
	defer change.Stop()
	defer connect.Stop()
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	start := time.Now()
	for running := true; running; {
		select {
		case <-end:
			running = false
		case <-change.C:
			select {
			case <-changed:
				requests.Go(func() {
					next := phase.Add(1)
					move(int(next+1) / 2 % 2)
					phase.Add(1)
					changed <- struct{}{}
				})
			default: // the change before is still under way
			}
		case <-connect.C:
			requests.Go(func() {
				before := phase.Load()
				backend, err := askOnce(p.proxy, "/moving")
				sent.Add(1)
				if err != nil {
					t.Errorf("request %d: %v", sent.Load(), err)
					return
				}
				if before%2 == 0 && phase.Load() == before {
					judged.Add(1)
					if want := fmt.Sprint(before / 2 % 2); backend != want {
						t.Errorf("after change %d was received, a request went to backend %s", before/2, backend)
					}
				}
			})
		}
	}
	requests.Wait()
	elapsed := time.Since(start).Seconds()
	changes := phase.Load() / 2
	t.Logf("%d requests on new connections (%.0f/s), %d of them between changes; %d changes (%.1f/s)",
		sent.Load(), float64(sent.Load())/elapsed, judged.Load(), changes, float64(changes)/elapsed)
	if judged.Load() == 0 || changes == 0 {
		t.Error("nothing was judged")
	}
	assertNoUpstreamFailures(t, p)
}

// askOnce sends one request on a connection of its own and gives the body.
func askOnce(address, path string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return askOn(conn, path)
}

// askOn sends a request on a connection on which no other one is under way.
func askOn(conn net.Conn, path string) (string, error) {
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != 200 {
		err = fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	return string(body), err
}

// assertNoUpstreamFailures reads the gateway's own counts: a retry or a dial
// that failed could hide behind a good answer.
func assertNoUpstreamFailures(t *testing.T, p *process) {
	t.Helper()
	counted := false
	for line := range strings.Lines(p.must("GET", "/metrics", "")) {
		if !strings.HasPrefix(line, "grapevine_upstream_failures_total{") {
			continue
		}
		counted = true
		if !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			t.Errorf("the gateway counts: %s", line)
		}
	}
	if !counted {
		t.Error("the gateway counts no upstream failures at all")
	}
}
