package main

import (
	"bytes"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the outputs of README.md anew")

// The README's commands are run, and give what it shows. `go test ./cli/agent
// -run Readme -update` writes the outputs anew.
func TestReadme(t *testing.T) {
	for _, address := range readmePorts {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Skipf("the README's ports are taken: %v", err)
		}
		listener.Close()
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := layOut(t)
	demo := startMake(t, dir, "demo", "bin/demo")
	laptop := startMake(t, dir, "run", "examples/laptop/run")
	laptop.await("make run does not serve", func() bool { return exec.Command("curl", "-sf", "localhost:8080/ready").Run() == nil })
	demo.await("make demo does not get ready", func() bool { return strings.Contains(demo.output.String(), "Ctrl-C ends all") })
	shell := &shell{dir: dir}
	fresh := consoleBlock.ReplaceAllFunc(readme, shell.play)
	if *update {
		if err := os.WriteFile("../../README.md", fresh, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, got := stable(readme), stable(fresh); want != got {
		t.Errorf("README.md shows what does not happen; it would be now:\n%s", got)
	}
}

// readmePorts are those of `make run` and of `make demo`.
var readmePorts = []string{
	":8080", "127.0.0.1:8500", "127.0.0.1:5010", "127.0.0.1:5011",
	"127.0.0.1:8081", "127.0.0.1:8082", "127.0.0.1:8083", "127.0.0.1:8501", "127.0.0.1:8502", "127.0.0.1:8503",
	"127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:7003", "127.0.0.1:9001", "127.0.0.1:9002",
}

var consoleBlock = regexp.MustCompile("(?s)```console\n.*?```")

// layOut makes a folder as `make build` leaves it.
func layOut(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples/laptop"), os.DirFS("../../examples/laptop")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(programs(t), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// foreground is what a target of the Makefile runs until it is interrupted.
type foreground struct {
	t      *testing.T
	output *lockedBuffer
}

// startMake does what a target does, and wants it to leave nothing running.
func startMake(t *testing.T, dir, target, path string) *foreground {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, path))
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	f := &foreground{t, &lockedBuffer{}}
	cmd.Stdout, cmd.Stderr = f.output, f.output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("make %s ended with %v:\n%s", target, err, f.output)
		}
		if syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil {
			t.Errorf("make %s left processes behind", target)
		}
	})
	return f
}

func (f *foreground) await(complaint string, ready func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(4 * patience); !ready(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%s:\n%s", complaint, f.output)
		}
	}
}

// shell is the second one of the README. What it exports is kept from block to block.
type shell struct {
	dir      string
	exported []string
}

// play runs the commands of a block and puts their output below each.
func (s *shell) play(block []byte) []byte {
	var out bytes.Buffer
	out.WriteString("```console\n")
	for _, step := range commandLine.FindAllStringSubmatch(string(block), -1) {
		line, command, shown := step[1], step[2], step[3]
		out.WriteString(line)
		if variable, ok := strings.CutPrefix(command, "export "); ok {
			s.exported = append(s.exported, variable)
			continue
		}
		out.WriteString(s.settle(command, shown))
	}
	out.WriteString("```")
	return out.Bytes()
}

// commandLine is a command of a block with what is shown below it.
var commandLine = regexp.MustCompile(`(?m)^(\$ (.*)\n)((?:[^$\x60].*\n|\n)*)`)

// settle runs a command. What the nodes say of each other takes a moment until all say the same: such a command is run
// again while it does not give what is shown.
func (s *shell) settle(command, shown string) string {
	patient := strings.HasPrefix(command, "bin/agent members") || strings.HasPrefix(command, "bin/agent status")
	for deadline := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		got := s.run(command)
		if !patient || stable([]byte(got)) == stable([]byte(shown)) || time.Now().After(deadline) {
			return got
		}
	}
}

func (s *shell) run(command string) string {
	cmd := exec.Command("bash", "-c", command)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.exported...)
	shown, _ := cmd.CombinedOutput() // a command may be there for its error
	if len(shown) > 0 && shown[len(shown)-1] != '\n' {
		shown = append(shown, '\n')
	}
	return string(shown)
}

// stable takes out what differs from run to run: ids, times, who was last, what was heard last of a node that is behind,
// and which destination is next, since the ports, which are drawn, decide where hash leads.
func stable(readme []byte) string {
	varying := regexp.MustCompile(`[0-9a-f]{32}|curl/[0-9.]+|in \d+ ms|slowest: edge-\d|\d+ +\d+/[0-9.]+(ms|s|m\d+s)|led by edge-\d|(next|yes)\n`)
	columns := regexp.MustCompile(` {2,}`)
	return columns.ReplaceAllString(varying.ReplaceAllString(string(readme), "…"), "  ")
}
