package reach

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAgentsAreFound(t *testing.T) {
	if _, err := os.Stat("/run/grapevine/agent.sock"); err == nil {
		t.Skip("an agent runs on this host")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("RUNTIME_DIRECTORY", filepath.Join(dir, "run")+":/elsewhere")
	t.Setenv("AGENT_ADDR", "")
	service := filepath.Join(dir, "run", "agent.sock")
	find := func(want string, missing ...string) {
		t.Helper()
		p, err := Locate("--addr", "")
		if err != nil || p.String() != want || strings.Join(p.Missing, " ") != strings.Join(missing, " ") {
			t.Errorf("%s, without %v, %v; want %s, without %v", p, p.Missing, err, want, missing)
		}
	}
	find("http://127.0.0.1:8500", "grapevine-data/agent.sock", service, "/run/grapevine/agent.sock")
	touch(t, service)
	find("unix://"+service, "grapevine-data/agent.sock")
	touch(t, "grapevine-data/agent.sock")
	find("unix://grapevine-data/agent.sock")
	t.Setenv("AGENT_ADDR", "http://h:1")
	find("http://h:1")
	t.Setenv("AGENT_ADDR", "h:1")
	if p, err := Locate("--addr", ""); err == nil || !strings.HasPrefix(err.Error(), `AGENT_ADDR "h:1": `) {
		t.Errorf("%s, %v", p, err)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct{ address, network, dial string }{
		{"unix:///a/b.sock", "unix", "/a/b.sock"},
		{"unix://b.sock", "unix", "b.sock"},
		{"http://h:1", "tcp", "h:1"},
		{"http://h", "tcp", "h:80"},
		{"http://[::1]/", "tcp", "[::1]:80"},
	} {
		p, err := Locate("--addr", test.address)
		if err != nil || p.Network != test.network || p.Address != test.dial {
			t.Errorf("%s: %+v, %v", test.address, p, err)
		}
	}
	for _, address := range []string{"unix://", "h:1", "127.0.0.1:8500", "ftp://h", "http://", "http://u@h", "http://h/x", "http://h?x", "https://h", "http://h:x"} {
		if p, err := Locate("--addr", address); err == nil || !strings.HasPrefix(err.Error(), `--addr "`+address+`": `) {
			t.Errorf("%q: %+v, %v; want an error that names it", address, p, err)
		}
	}
}
