package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds waits for what happens at once when all is well.
const patience = 20 * time.Second

// long tells whether tests run in their full length (make check).
var long = os.Getenv("GRAPEVINE_LONG") != ""

// builtIn is the folder of the programs, empty until they are built.
var builtIn string

var build = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "agent-binary"); err != nil {
		return "", err
	}
	builtIn = dir
	// With the flags of make build but -trimpath: with that all packages would be compiled once more.
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir+"/", ".", "../../examples/echo", "../../examples/demo")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

// programs is a folder with agent, echo and demo as a user has them, built once for all tests.
func programs(t *testing.T) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func agentBinary(t *testing.T) string {
	t.Helper()
	return filepath.Join(programs(t), "agent")
}

// process is a running agent.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	client *http.Client // of the API, over the unix socket
	socket string
	proxy  string // host:port
	output *lockedBuffer
	exited chan struct{}
}

// startAgent runs the binary on a data directory and waits until it serves.
func startAgent(t *testing.T, dir string, flags ...string) *process {
	t.Helper()
	args := append([]string{"run", "--data-dir", dir, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, flags...)
	return startCommand(t, dir, exec.Command(agentBinary(t), args...))
}

func startCommand(t *testing.T, dir string, cmd *exec.Cmd) *process {
	t.Helper()
	return startWithOutput(t, dir, cmd, nil)
}

// startWithOutput gives the agent a standard output of its own; nil: what it says is kept with its log.
func startWithOutput(t *testing.T, dir string, cmd *exec.Cmd, stdout io.Writer) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, socket: filepath.Join(dir, "agent.sock"), output: &lockedBuffer{}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	if stdout != nil {
		cmd.Stdout = stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.socket)
	}}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		p.kill()
		if t.Failed() {
			t.Logf("agent said:\n%s", p.output)
		}
	})
	p.proxy = p.awaitStatus().Listeners.HTTP
	return p
}

// status is the part of /v1/status that tests look at.
type status struct {
	Rev       string
	Ready     bool
	Listeners struct{ HTTP, Admin string }
}

// awaitStatus asks until the agent answers and is ready.
func (p *process) awaitStatus() status {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		var s status
		if code, body, err := p.api("GET", "/v1/status", ""); err == nil && code == 200 {
			if err := json.Unmarshal([]byte(body), &s); err != nil {
				p.t.Fatalf("status %s: %v", body, err)
			}
			if s.Ready {
				return s
			}
		}
		select {
		case <-deadline:
			p.t.Fatalf("the agent does not serve:\n%s", p.output)
		case <-p.exited:
			p.t.Fatalf("the agent ended:\n%s", p.output)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// api asks the agent over its unix socket.
func (p *process) api(method, path, body string) (int, string, error) {
	request, err := http.NewRequest(method, "http://agent"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

// must asks and wants 200.
func (p *process) must(method, path, body string) string {
	p.t.Helper()
	code, answer, err := p.api(method, path, body)
	if err != nil || code != 200 {
		p.t.Fatalf("%s %s: %d %s %v", method, path, code, answer, err)
	}
	return answer
}

// cli runs a command against the agent.
func (p *process) cli(args ...string) (exit int, stdout, stderr string) {
	p.t.Helper()
	return runCLI(p.t, "", append([]string{"--addr", "unix://" + p.socket}, args...)...)
}

// runCLI runs the binary once.
func runCLI(t *testing.T, stdin string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	agent := agentBinary(t) // before the clock runs: it may have to be built
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, agent, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("agent %q: %v", args, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("agent %q did not end: %s%s", args, &out, &errs)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// kill ends the process at once, as a power cut would.
func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// stop asks the process to end and wants it to say that all is well.
func (p *process) stop() {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatal("the agent does not stop")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("the agent ended with %d:\n%s", code, p.output)
	}
}

// lockedBuffer takes the output of a process while a test may read it.
type lockedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
