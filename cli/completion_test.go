package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func complete(t *testing.T, words ...string) []string {
	t.Helper()
	r := call("", append([]string{completeCommand}, words...)...)
	if r.exit != 0 || r.stderr != "" {
		t.Errorf("%q: %+v", words, r)
	}
	return strings.Fields(r.stdout)
}

func TestCompletion(t *testing.T) {
	n := startNode(t)
	n.must("config set app/a 1")
	n.must("config set app/b 1")
	n.must("config set gateway/routes/booking " + bookingRoute)
	n.must(`config set gateway/clusters/shop '{"destinations":{"a":"http://127.0.0.1:5010"}}'`)
	t.Setenv("AGENT_ADDR", n.address)
	for _, test := range []struct {
		words []string
		want  []string
	}{
		{[]string{""}, []string{
			"run", "announce", "instances", "config", "routes", "maintenance", "clusters", "status", "members", "join", "leave", "force-leave", "reachability", "raft", "token", "keyring", "alarms", "tls",
			"version", "completion",
		}},
		{[]string{"co"}, []string{"config", "completion"}},
		{[]string{"config", ""}, []string{"get", "set", "delete", "list", "watch", "validate"}},
		{[]string{"-q", "config", "l"}, []string{"list"}},
		{[]string{"--addr", n.address, "config", "l"}, []string{"list"}},
		{[]string{"config", "set", "--d"}, []string{"--dry-run"}},
		{[]string{"config", "get", "--d"}, []string{"--detail"}},
		{[]string{"run", "--j"}, []string{"--join"}},
		{[]string{"run", "--https"}, nil},
		{[]string{"status", "-o", "j"}, []string{"json", "jsonl"}},
		{[]string{"status", "--output=j"}, []string{"--output=json", "--output=jsonl"}},
		{[]string{"config", "set", "--wait", "l"}, []string{"local"}},
		{[]string{"run", "--config", ""}, nil},
		{[]string{"completion", ""}, shells},
		{[]string{"config", "get", "app/"}, []string{"app/a", "app/b"}},
		{[]string{"config", "watch", "gateway/r"}, []string{"gateway/routes/booking"}},
		{[]string{"config", "get", "app/a", ""}, nil},
		{[]string{"config", "set", "app/a", ""}, nil},
		{[]string{"config", "get", "--addr", "unix:///none", "app/"}, nil},
		{[]string{"routes", ""}, []string{"list", "explain", "lint"}},
		{[]string{"routes", "explain", "PA"}, []string{"PATCH"}},
		{[]string{"routes", "explain", "GET", ""}, nil},
		{[]string{"routes", "explain", "--c"}, []string{"--client"}},
		{[]string{"raft", ""}, []string{"list-peers", "transfer-leadership", "promote", "demote", "recover"}},
		{[]string{"raft", "promote", ""}, []string{"test"}},
		{[]string{"raft", "transfer-leadership", "t"}, []string{"test"}},
		{[]string{"force-leave", "--yes", ""}, []string{"test"}},
		{[]string{"join", ""}, nil},
		{[]string{"maintenance", ""}, []string{"on", "off", "status"}},
		{[]string{"maintenance", "on", "s"}, []string{"shop"}},
		{[]string{"maintenance", "off", "shop", ""}, nil},
		{[]string{"clusters", ""}, []string{"list", "show", "reset-breaker"}},
		{[]string{"clusters", "show", ""}, []string{"booking", "shop"}},
		{[]string{"clusters", "reset-breaker", "s"}, []string{"shop"}},
		{[]string{"keyring", ""}, []string{"list", "rotate"}},
		{[]string{"alarms", ""}, []string{"list", "show", "settle"}},
		{[]string{"alarms", "settle", "--keep", ""}, []string{"cluster", "node"}},
		{[]string{"alarms", "show", ""}, []string{"test"}},
		{[]string{"status", "--node", ""}, []string{"test"}},
		{[]string{"config", "get", "--node=t"}, []string{"--node=test"}},
		{[]string{"run", "--node", ""}, nil},
		{[]string{"run", "--voter", ""}, []string{"auto", "yes", "no"}},
		{[]string{"token", "join", "--role", ""}, []string{"voter", "edge"}},
		{[]string{"token", "revoke", ""}, nil},
		{[]string{"config", "list", "--consistency", "li"}, []string{"linearizable"}},
		{[]string{"tls", "inspect", ""}, nil},
		{[]string{"nonsense", ""}, nil},
		{nil, nil},
	} {
		if got := complete(t, test.words...); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, want %q", test.words, got, test.want)
		}
	}
}

// Each shell that is there must be able to read its script.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range shells {
		r := call("", "completion", shell)
		if r.exit != 0 || !strings.Contains(r.stdout, completeCommand) {
			t.Errorf("%s: %+v", shell, r)
		}
		if _, err := exec.LookPath(shell); err != nil || shell == "powershell" {
			continue
		}
		check := exec.Command(shell, "-n")
		check.Stdin = strings.NewReader(r.stdout)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v\n%s", shell, err, out)
		}
	}
}
