// Package examples has no code of its own: its tests run the examples, and what the how-tos say of them.
package examples

import (
	"bytes"
	"context"
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

	"grapevine/announce/announcetest"
)

// patience passes only when something is wrong.
const patience = 30 * time.Second

// example is a service that announces itself.
type example struct {
	name  string
	needs string // a program
	// command serves at a port and announces itself to the agent that the environment names.
	command func(t *testing.T, port string) *exec.Cmd
}

var all = []example{
	{"go", "go", func(t *testing.T, port string) *exec.Cmd {
		return exec.Command(build(t, "./go-service"), "-listen", "127.0.0.1:"+port)
	}},
	{"python", "python3", func(_ *testing.T, port string) *exec.Cmd {
		return exec.Command("python3", "python/service.py", "--port", port, "--address", "http://127.0.0.1:"+port)
	}},
	{"node", "node", func(_ *testing.T, port string) *exec.Cmd {
		return exec.Command("node", "node/service.js", port)
	}},
	{"sidecar", "curl", func(t *testing.T, port string) *exec.Cmd {
		serve(t, port)
		instance := filepath.Join(t.TempDir(), "instance.json")
		text, err := os.ReadFile("sidecar/warehouse.json")
		if err == nil {
			err = os.WriteFile(instance, bytes.ReplaceAll(text, []byte(":9003"), []byte(":"+port)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return exec.Command("sidecar/announce.sh", instance)
	}},
}

// binaries are built once for all tests.
var binaries struct {
	mu   sync.Mutex // guards done
	done map[string]string
}

func build(t *testing.T, pkg string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if path := binaries.done[pkg]; path != "" {
		return path
	}
	dir, err := os.MkdirTemp("", "examples")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	binaries.done[pkg] = path
	return path
}

func TestMain(m *testing.M) {
	binaries.done = map[string]string{}
	code := m.Run()
	for _, path := range binaries.done {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// serve is the service beside the sidecar.
func serve(t *testing.T, port string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello from beside: %s\n", r.URL.Path)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// output of a process, to read while it runs.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is a running example.
type process struct {
	*exec.Cmd
	output *output
	ended  chan error
}

// run starts a command in a process group of its own, which does not outlive the test.
func run(t *testing.T, cmd *exec.Cmd, env ...string) *process {
	t.Helper()
	p := &process{Cmd: cmd, output: &output{}, ended: make(chan error, 1)}
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for what a killed process left, and has its output open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s said\n%s", cmd, p.output)
		}
	})
	return p
}

// end sends a signal and waits for the end.
func (p *process) end(t *testing.T, signal os.Signal) error {
	t.Helper()
	p.Process.Signal(signal)
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("%s: no end within %v of %v", p, patience, signal)
		return nil
	}
}

// each runs a test of each example for which the machine has what it needs.
func each(t *testing.T, test func(*testing.T, example)) {
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(e.needs); err != nil {
				t.Skipf("%s is not installed, which examples/%s needs", e.needs, e.name)
			}
			test(t, e)
		})
	}
}

func wait(t *testing.T, agent *announcetest.Agent, what string, wanted func([]announcetest.Instance) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := agent.Wait(ctx, wanted); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func one(all []announcetest.Instance) bool  { return len(all) == 1 }
func none(all []announcetest.Instance) bool { return len(all) == 0 }

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// An example serves at the address that it announces, comes back under its id after its agent, and drains before it
// stops.
func TestLife(t *testing.T) {
	each(t, func(t *testing.T, e example) {
		agent := announcetest.Start(t)
		p := run(t, e.command(t, freePort(t)), environment(agent)...)
		wait(t, agent, "announced", one)
		before := agent.Instances()[0]
		if body := get(t, before.Address+"/x"); !strings.HasPrefix(body, "hello from") || !strings.HasSuffix(body, ": /x\n") {
			t.Errorf("%s answers %q", before.Address, body)
		}
		agent.Cut("warehouse")
		wait(t, agent, "announced again", func(all []announcetest.Instance) bool {
			return one(all) && all[0].Lease != before.Lease
		})
		if after := agent.Instances()[0]; after.Key() != before.Key() || after.Address != before.Address {
			t.Errorf("%+v before, %+v after", before, after)
		}
		if err := p.end(t, syscall.SIGTERM); err != nil || agent.Drains("warehouse") != 1 {
			t.Errorf("%v, %d drains", err, agent.Drains("warehouse"))
		}
		wait(t, agent, "withdrawn", none)
	})
}

// An example that is killed is withdrawn by its connection.
func TestKill(t *testing.T) {
	each(t, func(t *testing.T, e example) {
		agent := announcetest.Start(t)
		p := run(t, e.command(t, freePort(t)), environment(agent)...)
		wait(t, agent, "announced", one)
		if e.name == "sidecar" { // systemd kills all of a unit's processes
			syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
		}
		p.end(t, syscall.SIGKILL)
		wait(t, agent, "withdrawn", none)
		if n := agent.Drains("warehouse"); n != 0 {
			t.Errorf("%d drains", n)
		}
	})
}

// An example whose announcement is refused or withdrawn ends with an error that says why.
func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, e example) {
		agent := announcetest.Start(t)
		agent.Refuse(&announcetest.Problem{Status: 403, Code: "denied", Detail: "no grant for route warehouse"})
		p := run(t, e.command(t, freePort(t)), environment(agent)...)
		if err := <-p.ended; err == nil || !strings.Contains(p.output.String(), "no grant for route warehouse") {
			t.Errorf("refused: %v", err)
		}
		agent.Refuse(nil)
		p = run(t, e.command(t, freePort(t)), environment(agent)...)
		wait(t, agent, "announced", one)
		agent.Send("warehouse", "withdrawn", "an operator said so")
		if err := <-p.ended; err == nil || !strings.Contains(p.output.String(), "an operator said so") {
			t.Errorf("withdrawn: %v", err)
		}
	})
}

// An example may be there before its agent, and stop before it comes.
func TestNoAgent(t *testing.T) {
	each(t, func(t *testing.T, e example) {
		agent, dir := announcetest.New(), socketDir(t)
		socket := filepath.Join(dir, "agent.sock")
		env := []string{"AGENT_ADDR=unix://" + socket, "AGENT_SOCKET=" + socket}
		port := freePort(t)
		p := run(t, e.command(t, port), env...)
		awaitAnswer(t, "http://127.0.0.1:"+port)
		if e.name != "sidecar" { // whose service is not its own
			if err := p.end(t, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			p = run(t, e.command(t, freePort(t)), env...)
		}
		defer agent.Listen(t, socket)()
		wait(t, agent, "announced", one)
		if err := p.end(t, syscall.SIGTERM); err != nil || agent.Drains("warehouse") != 1 {
			t.Errorf("%v, %d drains", err, agent.Drains("warehouse"))
		}
	})
}

func environment(agent *announcetest.Agent) []string {
	return []string{"AGENT_ADDR=" + agent.Addr(), "AGENT_SOCKET=" + strings.TrimPrefix(agent.Addr(), "unix://")}
}

// socketDir is short enough for the path of a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func awaitAnswer(t *testing.T, url string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		if response, err := http.Get(url); err == nil {
			response.Body.Close()
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s does not answer within %v", url, patience)
		}
	}
}

// systemd takes the units of the sidecar.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	script, err := filepath.Abs("sidecar/announce.sh")
	if err != nil {
		t.Fatal(err)
	}
	var units []string
	for _, name := range []string{"warehouse.service", "warehouse-announce.service"} {
		text, err := os.ReadFile("sidecar/" + name)
		if err != nil {
			t.Fatal(err)
		}
		unit := filepath.Join(dir, name)
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/announce.sh"), []byte(script))
		if err := os.WriteFile(unit, text, 0o600); err != nil {
			t.Fatal(err)
		}
		units = append(units, unit)
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("warehouse")) {
		t.Errorf("%v\n%s", err, out)
	}
}
