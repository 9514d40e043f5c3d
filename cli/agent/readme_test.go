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
	for _, address := range []string{":8080", "127.0.0.1:8500", "127.0.0.1:5010", "127.0.0.1:5011"} {
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
	runLaptop(t, dir)
	fresh := consoleBlock.ReplaceAllFunc(readme, func(block []byte) []byte { return play(t, dir, block) })
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

var consoleBlock = regexp.MustCompile("(?s)```console\n.*?```")

// layOut makes a folder as `make build` leaves it.
func layOut(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples/laptop"), os.DirFS("../../examples/laptop")); err != nil {
		t.Fatal(err)
	}
	for name, pkg := range map[string]string{"agent": ".", "echo": "../../examples/echo"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", name), pkg).CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	return dir
}

// runLaptop does what `make run` does, and wants it to leave nothing running.
func runLaptop(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "examples/laptop/run"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var output lockedBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("make run ended with %v:\n%s", err, &output)
		}
		if syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil {
			t.Error("make run left processes behind")
		}
	})
	ready := func() bool { return exec.Command("curl", "-sf", "localhost:8080/ready").Run() == nil }
	for deadline := time.Now().Add(patience); !ready(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("make run does not serve:\n%s", &output)
		}
	}
}

// play runs the commands of a block and puts their output below each.
func play(t *testing.T, dir string, block []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("```console\n")
	for line := range strings.Lines(string(block)) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		out.WriteString(line)
		cmd := exec.Command("bash", "-c", command)
		cmd.Dir = dir
		shown, _ := cmd.CombinedOutput() // a command may be there for its error
		out.Write(shown)
		if len(shown) > 0 && shown[len(shown)-1] != '\n' {
			out.WriteByte('\n')
		}
	}
	out.WriteString("```")
	return out.Bytes()
}

// stable takes out what differs from run to run.
func stable(readme []byte) string {
	varying := regexp.MustCompile(`[0-9a-f]{32}|curl/[0-9.]+|in \d+ ms`)
	return varying.ReplaceAllString(string(readme), "…")
}
