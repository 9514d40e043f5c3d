package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		parts   []string
	}{
		"not YAML":              {"routes: [", []string{"gateway.yaml:1:"}},
		"unknown field":         {"rotes: {}", []string{"gateway.yaml:1:1", "rotes", "routes"}},
		"P-18, no backend":      {"routes:\n  booking: {path: /booking}\n", []string{"gateway.yaml:2:", "booking", "backends"}},
		"P-20, foreign prefix":  {"routes:\n  booking:\n    path: /booking\n    pathRemovePrefix: /book\n    backends: [\"http://127.0.0.1:1\"]\n", []string{"gateway.yaml:4:", "booking", "/book"}},
		"cluster not there":     {"routes:\n  booking: {path: /booking, cluster: nowhere}\n", []string{"gateway.yaml:2:", "booking", "nowhere"}},
		"feature of the future": {"routes:\n  booking:\n    path: /booking\n    requireAuth: true\n    backends: [\"http://127.0.0.1:1\"]\n", []string{"gateway.yaml:4:", "booking", "requireAuth"}},
		"two faults": {
			"routes:\n  a: {path: x, backends: [\"http://127.0.0.1:1\"]}\n  b: {path: /b, backends: [\"nowhere\"]}\n",
			[]string{"gateway.yaml:2:", "gateway.yaml:3:"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(t)
			config.ConfigFiles = []string{file(t, "gateway.yaml", c.content)}
			has(t, fails(t, config, 3), c.parts...)
		})
	}
}

// Who made a mistake in a file hears of it before anything is touched.
func TestBadFileTouchesNothing(t *testing.T) {
	c := config(t)
	c.ConfigFiles = []string{file(t, "gateway.yaml", "rotes: {}")}
	fails(t, c, 3)
	if _, err := os.Stat(c.DataDir); !os.IsNotExist(err) {
		t.Errorf("the data directory is there: %v", err)
	}
}

func TestMissingFiles(t *testing.T) {
	c := config(t)
	c.ConfigFiles = []string{"/nowhere/a.yaml", "/nowhere/b.yaml"}
	has(t, fails(t, c, 3), `"/nowhere/a.yaml": no such file`, `"/nowhere/b.yaml": no such file`)
	c.ConfigFiles, c.ConfigDir = nil, "/nowhere"
	has(t, fails(t, c, 3), `"/nowhere": no such file`)
}

func TestDirectoryIsOneFile(t *testing.T) {
	c := config(t)
	c.ConfigDir = t.TempDir()
	route := func(id string) string {
		return "routes: {" + id + ": {path: \"/" + id + "\", backends: [\"" + backend(t, id) + "\"]}}"
	}
	write(t, filepath.Join(c.ConfigDir, "a.yaml"), route("a"))
	write(t, filepath.Join(c.ConfigDir, "b.yml"), route("b"))
	write(t, filepath.Join(c.ConfigDir, "c.json"), `{"routes": {"c": {"path": "/c", "backends": ["`+backend(t, "c")+`"]}}}`)
	write(t, filepath.Join(c.ConfigDir, ".hidden.yaml"), "no YAML: [")
	write(t, filepath.Join(c.ConfigDir, "README.md"), "no YAML: [")
	n := start(t, c)
	for _, id := range []string{"a", "b", "c"} {
		if r := n.get("http", "/"+id); r.body != id+" /"+id {
			t.Errorf("%s answers %s", id, r)
		}
	}
	n.stopped()
	write(t, filepath.Join(c.ConfigDir, "z.yaml"), route("a"))
	message := fails(t, c, 3)
	has(t, message, "z.yaml:1:", "a.yaml")
	if strings.Contains(message, "README") {
		t.Error(message)
	}
}
