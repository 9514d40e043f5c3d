package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"grapevine/agent"
)

func TestDefaultPlaces(t *testing.T) {
	for _, c := range []struct{ state, runtime, dataDir, socket string }{
		{"", "", "grapevine-data", "grapevine-data/agent.sock"},
		{"/var/lib/grapevine", "", "/var/lib/grapevine", "/var/lib/grapevine/agent.sock"},
		{"/var/lib/grapevine:/var/lib/other", "/run/grapevine:/run/other", "/var/lib/grapevine", "/run/grapevine/agent.sock"},
	} {
		t.Setenv("STATE_DIRECTORY", c.state)
		t.Setenv("RUNTIME_DIRECTORY", c.runtime)
		if got := agent.DefaultDataDir(); got != c.dataDir {
			t.Errorf("with %+v the data directory is %s", c, got)
		}
		if got := agent.DefaultSocket(agent.DefaultDataDir()); got != c.socket {
			t.Errorf("with %+v the socket is %s", c, got)
		}
	}
}

func TestDataIsKeptInTheWorkingDirectoryByDefault(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("RUNTIME_DIRECTORY", "")
	here := t.TempDir()
	t.Chdir(here)
	c := config(t)
	c.DataDir = ""
	n := start(t, c)
	if _, err := os.Stat(filepath.Join(here, "grapevine-data", "kv.db")); err != nil {
		t.Error(err)
	}
	if got := n.Addresses()["socket"]; got != "grapevine-data/agent.sock" {
		t.Errorf("the socket is at %s", got)
	}
	n.stopped() // while the working directory is this one
}
