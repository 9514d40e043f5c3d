package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grapevine/agent/api"
)

func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const goodFile = "routes:\n  a:\n    path: /a/{**rest}\n    backends: [\"http://127.0.0.1:5010\"]\n"

func TestValidFiles(t *testing.T) {
	writeFiles(t, map[string]string{
		"good.yaml": goodFile, "d/one.yaml": goodFile, "d/two.json": `{"routes":{"b":{"path":"/b","backends":["http://127.0.0.1:1"]}}}`,
		"d/.hidden.yaml": "nonsense", "d/readme.txt": "nonsense",
	})
	for _, test := range []struct{ line, stderr string }{
		{"config validate -f good.yaml", "good.yaml: valid\n"},
		{"config validate good.yaml", "good.yaml: valid\n"},
		{"config validate --config-dir d", "d/one.yaml, d/two.json: valid\n"},
		{"config validate -f good.yaml d/two.json", "good.yaml, d/two.json: valid\n"},
		{"config validate -f good.yaml -q", ""},
	} {
		call("", words(test.line)...).check(t, test.line, 0, "", test.stderr)
	}
	line := "config validate -f -"
	call(goodFile, words(line)...).check(t, line, 0, "", "-: valid\n")
	line = "config validate good.yaml -o json"
	call("", words(line)...).check(t, line, 0, "{\n  \"faults\": [],\n  \"notices\": []\n}\n", "good.yaml: valid\n")
}

func TestFaultsOfFilesAreAllPrinted(t *testing.T) {
	writeFiles(t, map[string]string{
		"bad.yaml": "routes:\n  a:\n    path: /a\n    backend: x\n    order: many\n  b:\n    path: b\n    backends: [\"ftp://x\"]\n",
		"mix.yaml": "routes:\n  a:\n    path: /a\n    cluster: nowhere\n",
	})
	r := call("", words("config validate -f bad.yaml")...)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.exit != exitInvalid || len(lines) < 4 {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "bad.yaml:") {
			t.Errorf("fault without its place: %s", line)
		}
	}
	if !strings.HasPrefix(r.stderr, "error: bad.yaml: ") || !strings.HasSuffix(r.stderr, " faults\n") {
		t.Errorf("stderr: %s", r.stderr)
	}
	r = call("", words("config validate -f bad.yaml -o json")...)
	var verdict api.Verdict
	if err := json.Unmarshal([]byte(r.stdout), &verdict); err != nil || len(verdict.Faults) != len(lines) || verdict.Faults[0].Line == 0 {
		t.Errorf("-o json: %v\n%s", err, r.stdout)
	}
	// What only the whole table shows has its place as well.
	r = call("", words("config validate -f mix.yaml")...)
	if r.exit != exitInvalid || !strings.HasPrefix(r.stdout, "mix.yaml:4:") || !strings.Contains(r.stdout, "nowhere") {
		t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
	}
}

// What works and is probably not meant is said with its place, and keeps no file from being valid.
func TestNoticesOfFiles(t *testing.T) {
	writeFiles(t, map[string]string{
		"g.yaml": goodFile + "  b:\n    path: /a/{**all}\n    backends: [\"http://127.0.0.1:5010\"]\n" +
			"clusters:\n  spare:\n    destinations: {a: \"http://127.0.0.1:1\"}\n",
	})
	r := call("", words("config validate g.yaml")...)
	if r.exit != 0 || r.stdout != "" || !strings.HasSuffix(r.stderr, "g.yaml: valid\n") {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"notice: g.yaml:5:3: gateway/routes/b: ", "notice: g.yaml:9:3: gateway/clusters/spare: "} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("no notice has %q:\n%s", want, r.stderr)
		}
	}
	r = call("", words("config validate g.yaml -o json -q")...)
	var verdict api.Verdict
	if err := json.Unmarshal([]byte(r.stdout), &verdict); err != nil || r.exit != 0 || len(verdict.Faults) != 0 || len(verdict.Notices) < 2 {
		t.Errorf("-o json: %v\n%+v", err, r)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	writeFiles(t, map[string]string{"empty/x.txt": ""})
	for _, test := range []struct {
		line string
		exit int
		want string
	}{
		{"config validate", exitUsage, "config validate: give files with -f, or --config-dir\ntry: agent config validate --help"},
		{"config validate -f a --config-dir b", exitUsage, "config validate: give files or --config-dir, not both\ntry: agent config validate --help"},
		{"config validate -f a.yaml -f b.yaml", exitInvalid, "a.yaml: no such file or directory\n  b.yaml: no such file or directory"},
		{"config validate --config-dir none", exitInvalid, "none: no such file or directory"},
		{"config validate --config-dir empty", exitInvalid, "empty: holds no .yaml, .yml or .json file"},
	} {
		call("", words(test.line)...).check(t, test.line, test.exit, "", "error: "+test.want+"\n")
	}
}
