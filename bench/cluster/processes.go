//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is an agent.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	client *http.Client // of its API
}

// startProcess starts an agent, and returns when it answers.
func startProcess(ctx context.Context, o options, binary string, i int, flags ...string) (*process, error) {
	p := &process{name: fmt.Sprint("node-", i), exited: make(chan struct{})}
	dir := filepath.Join(o.dir, "process-"+p.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log.txt"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	const any = "127.0.0.1:0"
	args := append([]string{"run", "--data-dir", dir, "--node", p.name, "--http", any, "--admin", any, "--gossip", any}, flags...)
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.cmd.Wait(); close(p.exited) }()
	socket := filepath.Join(dir, "agent.sock")
	p.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	err = await(ctx, p.name+" answers", func() bool { return p.call(ctx, http.MethodGet, "/v1/status", "", nil) == nil })
	return p, err
}

func (p *process) stop() {
	p.client.CloseIdleConnections()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

func (p *process) call(ctx context.Context, method, path, body string, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s %s: %s: %s", p.name, method, path, response.Status, data)
	case out == nil:
		return nil
	}
	return json.Unmarshal(data, out)
}

type status struct {
	Cluster struct {
		Leader        string
		Voters, Alive int
	}
}

func startProcesses(ctx context.Context, o options) (processes []*process, err error) {
	binary := o.agent
	if binary == "" {
		binary = filepath.Join(o.dir, "agent")
		if said, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "grapevine/cli/agent").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go build: %w: %s", err, said)
		}
	}
	var join []string
	for i := 1; i <= o.processes; i++ {
		p, err := startProcess(ctx, o, binary, i, join...)
		if p != nil {
			processes = append(processes, p)
		}
		if err != nil {
			return processes, err
		}
		if i == 1 {
			var token struct{ Token string }
			if err := p.call(ctx, http.MethodPost, "/v1/tokens", `{"role":"voter"}`, &token); err != nil {
				return processes, err
			}
			join = []string{"--join", token.Token}
		}
	}
	err = await(ctx, "all voters", func() bool {
		for _, p := range processes {
			var s status
			if p.call(ctx, http.MethodGet, "/v1/status", "", &s) != nil || s.Cluster.Voters < min(o.processes, 3) || s.Cluster.Alive != o.processes || s.Cluster.Leader == "" {
				return false
			}
		}
		return true
	})
	return processes, err
}

func measureProcesses(ctx context.Context, o options, out io.Writer) error {
	processes, err := startProcesses(ctx, o)
	defer func() {
		for _, p := range processes {
			p.stop()
		}
	}()
	if err != nil {
		return err
	}
	var s status
	if err := processes[0].call(ctx, http.MethodGet, "/v1/status", "", &s); err != nil {
		return err
	}
	leader, other := processes[0], processes[0]
	for _, p := range processes {
		if p.name == s.Cluster.Leader {
			leader = p
		} else {
			other = p
		}
	}
	fmt.Fprintf(out, "%d processes on disk %s; load average %s\n", o.processes, o.dir, loadAverage())
	ping, err := newPingPong(o.payload)
	if err != nil {
		return err
	}
	defer ping.close()
	random := rand.New(rand.NewPCG(o.seed, 1))
	ways := []*way{
		{what: "by the leader, --wait all", by: leader, wait: "all"},
		{what: "by another node, --wait all", by: other, wait: "all"},
		{what: "by the leader, --wait none", by: leader, wait: "none"},
	}
	for i := range o.writes {
		for _, w := range ways { // in turns, so that a busy moment is everybody's
			if err := w.write(ctx, o.route(random, i)); err != nil {
				return err
			}
			if err := ping.play(); err != nil {
				return err
			}
			// Not at once: a table is made 20 ms after the last one, at the earliest.
			if !sleep(ctx, min(o.pause, 30*time.Millisecond)) {
				return ctx.Err()
			}
		}
	}
	for _, w := range ways {
		w.took.print(out, w.what)
	}
	ping.took.print(out, "TCP ping-pong of the payload")
	return syncs(o, out)
}

// way is a way to write.
type way struct {
	what string
	by   *process
	wait string
	took figures
}

func (w *way) write(ctx context.Context, route string) error {
	began := time.Now()
	var written struct {
		Applied struct{ Nodes, Of int }
	}
	if err := w.by.call(ctx, http.MethodPut, "/v1/kv/gateway/routes/bench?timeout=60s&wait="+w.wait, route, &written); err != nil {
		return err
	}
	w.took = append(w.took, time.Since(began))
	return nil
}

// syncs measures what a commit can't be faster than.
func syncs(o options, out io.Writer) error {
	file, err := os.Create(filepath.Join(o.dir, "sync"))
	if err != nil {
		return err
	}
	defer file.Close()
	var took figures
	for range o.writes {
		began := time.Now()
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	took.print(out, "4 KiB appended and synced")
	return nil
}
