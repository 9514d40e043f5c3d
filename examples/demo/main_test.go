package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestDemo(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "bin")+"/", "../../cli/agent", "../echo", ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Run("fails", func(t *testing.T) { fails(t, dir) })
	t.Run("killed", func(t *testing.T) { killed(t, dir) })
	t.Run("played", func(t *testing.T) { played(t, dir) })
}

// fails is a demo whose processes don't come up: it says where to look, and leaves that there.
func fails(t *testing.T, tools string) {
	dir := t.TempDir()
	agent := "#!/bin/sh\necho no luck >&2\nexit 7\n"
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "bin/agent"), []byte(agent), 0o755),
		os.Link(filepath.Join(tools, "bin/echo"), filepath.Join(dir, "bin/echo")),
		os.Link(filepath.Join(tools, "bin/demo"), filepath.Join(dir, "bin/demo")),
	); err != nil {
		t.Fatal(err)
	}
	d := startDemo(t, dir)
	err := d.wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 || !strings.Contains(d.output.String(), "exit status 7; its log is .demo/edge-1.log") {
		t.Errorf("the demo ended with %v:\n%s", err, d.output)
	}
	if log, err := os.ReadFile(filepath.Join(dir, ".demo/edge-1.log")); string(log) != "no luck\n" {
		t.Errorf("the log is %q, %v", log, err)
	}
	d.awaitFree()
}

// killed is a demo that can't clean up. The kernel ends what it started; the folder stays for the next one.
func killed(t *testing.T, dir string) {
	d := startDemo(t, dir)
	d.awaitFile(".demo/edge-2/agent.lock")
	d.cmd.Process.Kill()
	d.wait()
	d.awaitFree()
}

// played is what somebody does with `make demo`: looks at it, kills the leader and brings it back, ends it.
func played(t *testing.T, dir string) {
	d := startDemo(t, dir)
	d.awaitText("Ctrl-C ends all")
	for n := 1; n <= 3; n++ {
		if got := get(t, d.at(8080+n)+"/hello/x"); !strings.Contains(got, `"target":"/hello/x"`) {
			t.Errorf("edge-%d answers %q", n, got)
		}
	}
	d.route(d.backend(1))
	for n := 1; n <= 3; n++ { // --wait all: there is nothing to wait for
		if got := get(t, d.at(8080+n)+"/shop/"); !strings.Contains(got, d.backend(1)) {
			t.Errorf("edge-%d answers %q", n, got)
		}
	}

	leader := d.kill()
	d.awaitText(leader + " has ended: signal: killed")
	d.route(d.backend(2)) // the others elect, and go on
	io.WriteString(d.stdin, "\n")
	d.awaitText(leader + " runs again")

	// Another demo is told what is in its way, and harms nothing.
	second := exec.Command(filepath.Join(dir, "bin/demo"), "-host", d.host)
	second.Dir = dir
	out, err := second.CombinedOutput()
	if want := "a backend needs tcp " + d.backend(2) + ": "; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("a second demo ends with %v, and without %q:\n%s", err, want, out)
	}
	d.route(d.backend(1))

	d.cmd.Process.Signal(os.Interrupt)
	if err := d.wait(); err != nil {
		t.Errorf("the demo ended with %v:\n%s", err, d.output)
	}
	for _, line := range regexp.MustCompile(`edge-\d: \d+ requests answered, \d+ not\n`).FindAllString(d.output.String(), -1) {
		if !strings.HasPrefix(line, leader) && !strings.HasSuffix(line, " 0 not\n") {
			t.Errorf("a node that was not killed lost requests: %s", line)
		}
	}
	if left := listing(t, dir); left != "bin" {
		t.Errorf("the demo left files behind: %s", left)
	}
	d.awaitFree()
}

// running is a demo in a process of its own.
type running struct {
	t      *testing.T
	dir    string
	host   string
	cmd    *exec.Cmd
	stdin  io.Writer
	output *output
	exited chan struct{}
	err    error // of exited
}

// startDemo starts it at a loopback address that no other process takes, since it is made from this one's id.
func startDemo(t *testing.T, dir string) *running {
	t.Helper()
	pid := os.Getpid()
	d := &running{t: t, dir: dir, host: fmt.Sprintf("127.%d.%d.%d", 1+pid>>14&0x7f, pid>>7&0x7f, 1+pid&0x7f), output: newOutput(), exited: make(chan struct{})}
	d.cmd = exec.Command(filepath.Join(dir, "bin/demo"), "-host", d.host)
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = dir, d.output, d.output
	d.cmd.SysProcAttr = endsWithParent(&syscall.SysProcAttr{})
	d.cmd.Env = append(os.Environ(), "AGENT_JOIN=somewhere:1") // settings of another agent must not reach these
	var err error
	if d.stdin, err = d.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.exited)
	}()
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.exited
	})
	return d
}

func (d *running) wait() error {
	<-d.exited
	return d.err
}

func (d *running) at(port int) string { return net.JoinHostPort(d.host, fmt.Sprint(port)) }

func (d *running) backend(n int) string { return d.at(9000 + n) }

// awaitText waits until the demo has said something.
func (d *running) awaitText(text string) {
	d.t.Helper()
	for {
		written := d.output.written()
		if strings.Contains(d.output.String(), text) {
			return
		}
		select {
		case <-written:
		case <-d.exited:
			d.t.Fatalf("the demo ended with %v before it said %q:\n%s", d.err, text, d.output)
		}
	}
}

// awaitFile waits until there is a file.
func (d *running) awaitFile(name string) {
	d.t.Helper()
	for {
		if _, err := os.Stat(filepath.Join(d.dir, name)); err == nil {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-d.exited:
			d.t.Fatalf("the demo ended with %v and without a file %s:\n%s", d.err, name, d.output)
		}
	}
}

// route lets the route shop lead to a backend, on every node.
func (d *running) route(backend string) {
	d.t.Helper()
	cmd := exec.Command(filepath.Join(d.dir, "bin/agent"), "config", "set", "gateway/routes/shop",
		"path=/shop/{**catch-all},backends=http://"+backend, "--wait", "all", "--timeout", "1m", "--addr", "http://"+d.at(8502))
	if leader := d.leader(); leader == "edge-2" {
		cmd.Args[len(cmd.Args)-1] = "http://" + d.at(8503)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("config set: %v\n%s", err, out)
	}
}

// leader is who led when the demo began.
func (d *running) leader() string { return d.killLine()[2] }

func (d *running) killLine() []string {
	d.t.Helper()
	line := regexp.MustCompile(`kill -9 (\d+) +# (edge-\d), which leads`).FindStringSubmatch(d.output.String())
	if line == nil {
		d.t.Fatalf("nobody leads:\n%s", d.output)
	}
	return line
}

// kill kills the leader in the way that the demo proposes.
func (d *running) kill() (leader string) {
	d.t.Helper()
	line := d.killLine()
	if out, err := exec.Command("kill", "-9", line[1]).CombinedOutput(); err != nil {
		d.t.Fatalf("kill: %v\n%s", err, out)
	}
	return line[2]
}

// awaitFree waits until nobody has the demo's ports.
func (d *running) awaitFree() {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for err := errors.New("not asked yet"); err != nil; err = newDemo(d.host, "", io.Discard).free() {
		if time.Now().After(deadline) {
			d.t.Fatalf("something runs on: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get("http://" + url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

// listing is what is in a folder.
func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

// output is what a process has written so far.
type output struct {
	mu     sync.Mutex // guards what follows
	text   bytes.Buffer
	change chan struct{} // closed by the next Write
}

func newOutput() *output { return &output{change: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.change)
	o.change = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// written is closed when there is more than String gave before; it is asked for first.
func (o *output) written() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.change
}
