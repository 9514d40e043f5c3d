package examples

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A service is replaced instance by instance, under load from clients that try nothing twice, and no request fails: not
// while a new one comes, and not while an old one goes, in whatever it is written. The gateway tries nothing twice either.
func TestRollingReplacement(t *testing.T) {
	replacements := 8
	if os.Getenv("GRAPEVINE_LONG") != "" {
		replacements = 50
	}
	dir, port := t.TempDir(), freePort(t)
	startAgent(t, dir, port)
	socket := filepath.Join(dir, "grapevine-data", "agent.sock")
	env := "AGENT_ADDR=unix://" + socket
	start := func(e example) *process {
		address := freePort(t)
		p := run(t, e.command(t, address), env)
		awaitServing(t, socket, "http://127.0.0.1:"+address)
		return p
	}
	old := []*process{start(all[0]), start(all[0]), start(all[0])}
	load := begin(t, "http://127.0.0.1:"+port+"/warehouse/x")
	for n := range replacements {
		e := all[n%3] // the sidecar's service is not the process that ends
		if _, err := exec.LookPath(e.needs); err != nil {
			t.Logf("%s is not installed: go takes its place", e.needs)
			e = all[0]
		}
		next := start(e)
		if err := old[0].end(t, syscall.SIGTERM); err != nil {
			t.Errorf("replacement %d: %v\n%s", n+1, err, old[0].output)
		}
		old = append(old[1:], next)
	}
	sent, took := load.end()
	t.Logf("%d requests in %v, %.0f a second, %d failed", sent, took.Round(time.Millisecond), float64(sent)/took.Seconds(), load.failed.Load())
	if load.failed.Load() > 0 || sent < 100 {
		t.Errorf("of %d requests %d failed, as %v", sent, load.failed.Load(), load.first)
	}
	for name, want := range map[string]float64{
		"grapevine_upstream_failures_total": 0, "grapevine_upstream_attempts_total": float64(sent),
	} {
		if got, err := metric(t.Context(), socket, name); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, err, want)
		}
	}
}

// awaitServing waits until the agent's gateway has an instance as a destination.
func awaitServing(t *testing.T, socket, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		served, last := servedBy(ctx, socket, address)
		if served {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s is not served within %v: %v", address, patience, last)
		}
	}
}

// load is clients that ask one after the other, on connections that they keep.
type load struct {
	cancel       context.CancelFunc
	clients      sync.WaitGroup
	began        time.Time
	sent, failed atomic.Int64
	once         sync.Once
	first        error
}

func begin(t *testing.T, url string) *load {
	l := &load{began: time.Now()}
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	for range 4 {
		l.clients.Go(func() {
			client := &http.Client{Transport: transport, Timeout: patience}
			for ctx.Err() == nil {
				l.ask(client, url)
				<-time.After(4 * time.Millisecond)
			}
		})
	}
	return l
}

// ask asks once. What it gets counts.
func (l *load) ask(client *http.Client, url string) {
	l.sent.Add(1)
	response, err := client.Get(url)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
	}
	if err != nil {
		l.failed.Add(1)
		l.once.Do(func() { l.first = fmt.Errorf("after %v: %w", time.Since(l.began), err) })
	}
}

func (l *load) end() (sent int64, took time.Duration) {
	l.cancel()
	l.clients.Wait()
	return l.sent.Load(), time.Since(l.began)
}
