package examples

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const howTo = "../docs/how-to/"

// The commands of the how-tos are run against the built agent, and give what they show.
func TestHowTos(t *testing.T) {
	pages := []struct{ name, needs string }{
		{"announce-go.md", "go"},
		{"announce-python.md", "python3"},
		{"announce-node.md", "node"},
		{"announce-any-language.md", "python3"},
		{"embed-gateway.md", "bash"},
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed, with which the how-tos look at the gateway")
	}
	dir, ports := checkout(t), names(t, "8080", "9000", "9001", "9002", "9003")
	startAgent(t, dir, ports["8080"])
	link(t, dir, "gateway", build(t, "./gateway"))
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			if _, err := exec.LookPath(page.needs); err != nil {
				t.Skipf("%s is not installed, which %s needs", page.needs, page.name)
			}
			play(t, dir, ports, page.name)
		})
	}
}

// checkout is a copy of what the pages use of the repository.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"announce", "examples"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS("../"+name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile("../" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startAgent runs an agent in dir, as `make run` does, and waits until it is ready.
func startAgent(t *testing.T, dir, port string) *process {
	t.Helper()
	link(t, dir, "agent", build(t, "grapevine/cli/agent"))
	return runAgent(t, dir, port)
}

// link puts a program into the bin of dir.
func link(t *testing.T, dir, name, path string) {
	t.Helper()
	err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700)
	if err == nil {
		err = os.Symlink(path, filepath.Join(dir, "bin", name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runAgent runs the agent of dir, for the first time or again.
func runAgent(t *testing.T, dir, port string) *process {
	t.Helper()
	cmd := exec.Command(build(t, "grapevine/cli/agent"), "run", "--data-dir", "grapevine-data",
		"--http", "127.0.0.1:"+port, "--admin", "127.0.0.1:0", "--gossip", "127.0.0.1:0")
	cmd.Dir = dir
	p := run(t, cmd)
	awaitReady(t, p, port)
	return p
}

// awaitReady waits until a gateway takes traffic.
func awaitReady(t *testing.T, p *process, port string) {
	t.Helper()
	for deadline := time.After(patience); ; {
		response, err := http.Get("http://127.0.0.1:" + port + "/ready")
		if err == nil {
			if response.Body.Close(); response.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s is not ready within %v", p, patience)
		case err := <-p.ended:
			t.Fatalf("%s ended: %v\n%s", p, err, p.output)
		}
	}
}

// portNames are the free ports that stand for those that the pages show.
type portNames map[string]string

func names(t *testing.T, shown ...string) portNames {
	t.Helper()
	ports := portNames{}
	for _, name := range shown {
		ports[name] = freePort(t)
	}
	return ports
}

func (p portNames) taken(text string) string {
	return portNumber.ReplaceAllStringFunc(text, func(shown string) string { return p[shown] })
}

var (
	portNumber   = regexp.MustCompile(`\b(8080|900[0-3])\b`)
	consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")
	// commandLine is a command of a block, and what is shown below it.
	commandLine = regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$].*\n)*)`)
)

// play runs all commands of a page in one shell.
func play(t *testing.T, dir string, ports portNames, page string) {
	t.Helper()
	text, err := os.ReadFile(howTo + page)
	if err != nil {
		t.Fatal(err)
	}
	instance := filepath.Join(dir, "examples/sidecar/warehouse.json")
	announced, err := os.ReadFile("sidecar/warehouse.json")
	if err == nil {
		err = os.WriteFile(instance, []byte(ports.taken(string(announced))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	const mark = "@@@@"
	var script strings.Builder
	var commands, want []string
	for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		for _, step := range commandLine.FindAllStringSubmatch(block[1], -1) {
			commands, want = append(commands, step[1]), append(want, step[2])
			fmt.Fprintf(&script, "%s\necho %s\n", ports.taken(step[1]), mark)
		}
	}
	if len(commands) == 0 {
		t.Fatalf("%s shows no commands", page)
	}
	cmd := exec.Command("bash", "-c", script.String())
	cmd.Dir = dir
	p := run(t, cmd)
	select {
	case err = <-p.ended:
	case <-time.After(2 * patience):
		err = fmt.Errorf("no end within %v", 2*patience)
	}
	if err != nil {
		t.Errorf("%s: %v", page, err)
	}
	got := strings.Split(p.output.String(), mark+"\n")
	for i, command := range commands {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("%s: %s\ngives\n%s\nand not\n%s\nafter\n%s", page, command, got[min(i, len(got)-1)], want[i], p.output)
		}
	}
}
