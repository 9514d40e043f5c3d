package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All that is wrong with agent announce comes at once.
func TestWrongAnnouncements(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"none.yaml": "node: {name: a}\n", "bad.yaml": "announce: {routeId: a, path: x}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		line string
		exit int
		want []string
	}{
		{"announce --path /x -- true", exitUsage, []string{"--address, --port or --address-template is missing", "--route is missing"}},
		{
			"announce --port 0 --drain 0s --wait-http x --weight -1 --heartbeat soon", exitUsage,
			[]string{`--drain "0s"`, `--port "0"`, `--wait-http "x"`, `--weight "-1"`, `--heartbeat "soon"`, "--route is missing", "--path is missing"},
		},
		{"announce --port 1 --address http://a:1", exitUsage, []string{"--address and --port: both say where it is reached"}},
		{"announce --address-template http://${NOT_SET_ANYWHERE}:1", exitUsage, []string{"NOT_SET_ANYWHERE is not set"}},
		{"announce --config /nowhere", exitUsage, []string{`--config "/nowhere"`}},
		{"announce --config " + dir + "/none.yaml", exitInvalid, []string{"has no section announce"}},
		{"announce --config " + dir + "/bad.yaml", exitInvalid, []string{"bad.yaml:1:"}},
		{"announce -o json", exitUsage, []string{"--output json"}},
		{"instances drain shop", exitUsage, []string{`"shop": not a route and an instance`}},
		{"instances drain shop/a/b", exitUsage, []string{`"shop/a/b"`}},
	} {
		var said bytes.Buffer
		if exit := Main(strings.Fields(test.line), strings.NewReader(""), io.Discard, &said); exit != test.exit {
			t.Errorf("%s: exit %d, want %d: %s", test.line, exit, test.exit, &said)
		}
		for _, want := range test.want {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: %s lacks %q", test.line, &said, want)
			}
		}
	}
}

// What follows the command of agent announce is that one's.
func TestAnnounceLeavesFlagsToItsCommand(t *testing.T) {
	for _, line := range []string{"announce --route x ./server --version 2 -v", "announce --route x -- ./server --version 2 -v", "--quiet announce --route x ./server --version 2 -v"} {
		call, err := understand(testTree(), strings.Fields(line))
		if want := []string{"./server", "--version", "2", "-v"}; err != nil || !slices.Equal(call.rest, want) {
			t.Errorf("%s: the command is %q, %v", line, call.rest, err)
		}
	}
}

func TestAnnounceReadsTheSourcesForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "appsettings.json")
	text := `{"Pragmatic":{"Agent":{"Announce":{"RouteId":"warehouse","Path":"/warehouse/{**catch-all}","PathRemovePrefix":"/warehouse","Address":"http://10.0.0.5:8080"}}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := announceFile(path)
	if err != nil || c.Route != "warehouse" || c.Path != "/warehouse/{**catch-all}" || c.PathRemovePrefix != "/warehouse" || c.Address != "http://10.0.0.5:8080" {
		t.Errorf("%+v, %v", c, err)
	}
}
