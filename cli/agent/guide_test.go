package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const routingGuide = "../../docs/routing.md"

// The guide's files are served, and its commands give what it shows. `go test ./cli/agent -run RoutingGuide -update`
// writes the outputs anew.
func TestRoutingGuide(t *testing.T) {
	guide, err := os.ReadFile(routingGuide)
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, "8080", "5010", "5011")
	fresh := ports.shown(consoleBlock.ReplaceAllFunc(ports.taken(guide), serveGuide(t, ports.taken(guide), ports)))
	fresh = trailingSpaces.ReplaceAll(fresh, nil)
	if *update {
		if err := os.WriteFile(routingGuide, fresh, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, got := stable(guide), stable(fresh); want != got {
		t.Errorf("%s shows what does not happen; it would be now:\n%s", routingGuide, got)
	}
}

// serveGuide starts what the guide's commands need, and returns what plays a block of them.
func serveGuide(t *testing.T, guide []byte, ports portNames) func(block []byte) []byte {
	t.Helper()
	dir := layOut(t)
	for _, file := range yamlFile.FindAllSubmatch(guide, -1) {
		path := filepath.Join(dir, string(file[1]))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file[2], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	echo := exec.Command(filepath.Join(dir, "bin/echo"), "127.0.0.1:"+ports["5010"], "127.0.0.1:"+ports["5011"])
	echo.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := echo.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		echo.Process.Kill()
		echo.Wait()
	})
	data := t.TempDir()
	agent := exec.Command(filepath.Join(dir, "bin/agent"), "run", "--config-dir", "routing",
		"--data-dir", data, "--http", "127.0.0.1:"+ports["8080"], "--admin", "127.0.0.1:0")
	agent.Dir = dir
	startCommand(t, data, agent)
	t.Setenv("AGENT_ADDR", "unix://"+filepath.Join(data, "agent.sock"))
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return (&shell{dir: dir}).play
}

var trailingSpaces = regexp.MustCompile("(?m) +$")

// yamlFile is a block of YAML that begins with the name of its file.
var yamlFile = regexp.MustCompile("(?s)```yaml\n# (routing/\\S+\\.yaml)\n(.*?)```")

// portNames are the ports that stand for those that the guide shows. They are as long, so that tables stay aligned.
type portNames map[string]string

func freePorts(t *testing.T, shown ...string) portNames {
	t.Helper()
	ports := portNames{}
	for _, name := range shown {
		for ports[name] == "" {
			port := fmt.Sprint(2000 + rand.IntN(8000))
			listener, err := net.Listen("tcp", "127.0.0.1:"+port)
			if err != nil || slices.Contains(shown, port) {
				continue
			}
			defer listener.Close() // at the end, so that no port is found twice
			ports[name] = port
		}
	}
	return ports
}

func (p portNames) taken(text []byte) []byte {
	for shown, taken := range p {
		text = bytes.ReplaceAll(text, []byte(":"+shown), []byte(":"+taken))
	}
	return text
}

func (p portNames) shown(text []byte) []byte {
	for shown, taken := range p {
		text = bytes.ReplaceAll(text, []byte(":"+taken), []byte(":"+shown))
	}
	return text
}

// A line of the guide fits a terminal beside its editor's margin, in its tables of output too.
func TestRoutingGuideIsNarrow(t *testing.T) {
	guide, err := os.ReadFile(routingGuide)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(guide)) {
		if len([]rune(line)) > 121 {
			t.Errorf("more than 120 characters: %s", line)
		}
	}
}
