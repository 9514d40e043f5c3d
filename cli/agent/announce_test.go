package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serviceVariable makes this test binary a service at the address that it holds: see runService.
const serviceVariable = "GRAPEVINE_TEST_SERVICE"

// serviceExit is what the service ends with after SIGTERM.
const serviceExit = 7

// runService answers /ready with 503 for a moment and then with 200, and other paths with 200. It says which signals it gets.
func runService(address string) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	ready := time.Now().Add(300 * time.Millisecond)
	server := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" && time.Now().Before(ready) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, address)
	})}
	go func() {
		if err := server.ListenAndServe(); err != http.ErrServerClosed {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	for s := range signals {
		fmt.Fprintln(os.Stderr, "service got", s)
		if s == syscall.SIGTERM {
			_ = server.Shutdown(context.Background())
			os.Exit(serviceExit)
		}
	}
}

// wrapped is a running agent announce.
type wrapped struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *lockedBuffer
	exited chan struct{}
}

// startWrapped runs agent announce with a command; env is added to its environment.
func startWrapped(t *testing.T, env []string, args ...string) *wrapped {
	t.Helper()
	w := &wrapped{t: t, cmd: exec.Command(agentBinary(t), append([]string{"announce"}, args...)...), output: &lockedBuffer{}, exited: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Stdout, w.cmd.Stderr = w.output, w.output
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { w.cmd.Wait(); close(w.exited) }()
	t.Cleanup(func() {
		w.cmd.Process.Kill()
		<-w.exited
		if t.Failed() {
			t.Logf("agent announce said:\n%s", w.output)
		}
	})
	return w
}

func (w *wrapped) signal(s os.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// code waits for the end and returns the exit code.
func (w *wrapped) code() int {
	w.t.Helper()
	select {
	case <-w.exited:
	case <-time.After(patience):
		w.t.Fatal("agent announce does not end")
	}
	return w.cmd.ProcessState.ExitCode()
}

// service is this test binary as a service at an address of its own, wrapped.
func service(t *testing.T, p *process, args ...string) (*wrapped, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)
	args = append([]string{
		"--addr", "unix://" + p.socket, "--route", "warehouse", "--path", "/warehouse/{**rest}", "--port", port, "--wait-http", "/ready",
	}, args...)
	return startWrapped(t, []string{serviceVariable + "=" + address}, append(args, "--", os.Args[0])...), address
}

// listed is what an agent lists of the announced instances: route/instance by address.
func (p *process) listed() map[string]string {
	code, body, err := p.api("GET", "/v1/instances", "")
	if err != nil || code != 200 {
		return nil
	}
	var list struct {
		Instances []struct{ Route, Instance, Address, State string }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		p.t.Fatal(err)
	}
	found := map[string]string{}
	for _, i := range list.Instances {
		found[i.Address] = i.Route + "/" + i.Instance + " " + i.State
	}
	return found
}

func TestAnnounceExitsAsItsCommand(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := startAgent(t, filepath.Join(dir, "data"))
	flags := []string{"--route", "x", "--path", "/x/{**rest}", "--address", "http://127.0.0.1:1"}
	for _, c := range []struct {
		name  string
		agent string
		flags []string
		want  int
	}{
		{"its code", "unix://" + p.socket, append(flags, "--", "sh", "-c", "exit 3"), 3},
		{"without the dashes", "unix://" + p.socket, append(flags, "sh", "-c", "exit 4"), 4},
		{"without an agent", "unix:///nowhere", append(flags, "--", "sh", "-c", "exit 0"), 0},
		{"its signal", "unix://" + p.socket, append(flags, "--", "sh", "-c", "kill -9 $$"), 137},
		{"not there", "unix://" + p.socket, append(flags, "--", "/nowhere/nothing"), 127},
		{"not on the path", "unix://" + p.socket, append(flags, "--", "no-such-command-here"), 127},
		{"not executable", "unix://" + p.socket, append(flags, "--", plain), 126},
		{"refused", "unix://" + p.socket, append([]string{"--require-auth"}, append(flags, "--", "sleep", "60")...), 125},
		{"refused without a command", "unix://" + p.socket, append([]string{"--require-auth"}, flags...), 3},
		{"never ready", "unix://" + p.socket, append([]string{"--wait-http", "/x", "--wait-timeout", "200ms"}, append(flags, "--", "sleep", "60")...), 125},
		{"wrong usage", "unix://" + p.socket, []string{"--route", "x", "--port", "1", "--address", "http://a:1"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := startWrapped(t, nil, append([]string{"--addr", c.agent}, c.flags...)...)
			if got := w.code(); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}

// The service is announced once it is ready, gets signals, and on SIGTERM ends only when the gateways are done.
func TestAnnounceWrapsAService(t *testing.T) {
	p := startAgent(t, t.TempDir())
	w, address := service(t, p, "--instance", "one")
	eventually(t, "the instance is announced", func() bool { return p.listed()["http://"+address] == "warehouse/one healthy" })
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		w.signal(s)
		eventually(t, "the service gets "+s.String(), func() bool { return strings.Contains(w.output.String(), "service got "+s.String()) })
	}
	w.signal(syscall.SIGTERM)
	if code := w.code(); code != serviceExit {
		t.Errorf("exit code %d", code)
	}
	said := w.output.String()
	if drained := strings.Index(said, "msg=drained"); drained < 0 || drained > strings.Index(said, "service got terminated") {
		t.Error("the signal came before the gateways were done")
	}
	eventually(t, "the instance is gone", func() bool { return len(p.listed()) == 0 })
}

// The service ends with agent announce, however that ends, and is withdrawn at once.
func TestAnnounceTakesItsCommandWithIt(t *testing.T) {
	p := startAgent(t, t.TempDir())
	w, address := service(t, p)
	eventually(t, "the instance is announced", func() bool { return len(p.listed()) == 1 })
	w.signal(syscall.SIGKILL)
	eventually(t, "the service is gone", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	eventually(t, "the instance is gone", func() bool { return len(p.listed()) == 0 })
}

// An agent that is restarted, or killed, has the same instance again, and never lacks it.
func TestAnnouncedInstancesOutliveTheirAgent(t *testing.T) {
	dir := t.TempDir()
	p := startAgent(t, dir)
	_, address := service(t, p, "--instance", "one")
	want := "warehouse/one healthy"
	eventually(t, "the instance is announced", func() bool { return p.listed()["http://"+address] == want })
	// What is announced is on disk within a second.
	<-time.After(1500 * time.Millisecond)
	for _, end := range []func(){p.stop, func() { p.kill() }} {
		end()
		p = startAgent(t, dir)
		for until := time.Now().Add(16 * time.Second); time.Now().Before(until); <-time.After(20 * time.Millisecond) {
			if got := p.listed(); got != nil && got["http://"+address] != want {
				t.Fatalf("the restarted agent lists %v", got)
			}
			if !long && time.Now().Add(14*time.Second).After(until) {
				break
			}
		}
		eventually(t, "its client is back", func() bool { return leasesOf(p) == 1 })
		<-time.After(1500 * time.Millisecond)
	}
}

// leasesOf counts the connections that hold an instance.
func leasesOf(p *process) int {
	return strings.Count(p.output.String(), "instance is announced")
}

func TestOperatorsDrainFromAnywhere(t *testing.T) {
	p := startAgent(t, t.TempDir())
	_, address := service(t, p, "--instance", "one")
	eventually(t, "the instance is announced", func() bool { return len(p.listed()) == 1 })
	if code, _, said := p.cli("instances", "drain", "warehouse/one"); code != 0 || !strings.Contains(said, "1 of 1 gateways confirmed") {
		t.Errorf("drain: exit %d, %s", code, said)
	}
	if got := p.listed()["http://"+address]; got != "warehouse/one draining" {
		t.Errorf("listed %s", got)
	}
	if code, out, _ := p.cli("instances", "list", "--route", "warehouse", "-o", "name"); code != 0 || out != "warehouse/one\n" {
		t.Errorf("list: exit %d, %s", code, out)
	}
	if code, _, said := p.cli("instances", "undrain", "warehouse/one"); code != 0 {
		t.Errorf("undrain: exit %d, %s", code, said)
	}
	if got := p.listed()["http://"+address]; got != "warehouse/one healthy" {
		t.Errorf("listed %s", got)
	}
	if code, _, said := p.cli("instances", "drain", "warehouse/two"); code != 4 {
		t.Errorf("drain of nothing: exit %d, %s", code, said)
	}
}
