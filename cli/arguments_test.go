package cli

import (
	"slices"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"
)

func testTree() *urfave.Command { return (&program{}).tree() }

func TestCommandLinesAreUnderstood(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"config set k v --dry-run", "config set --dry-run -- k v"},
		{"config set --dry-run k v", "config set --dry-run -- k v"},
		{"--dry-run config set k v", "config set --dry-run -- k v"},
		{"config --dry-run set k v", "config set --dry-run -- k v"},
		{"config set k --cas 3 v", "config set --cas=3 -- k v"},
		{"--cas 3 config set k v", "config set --cas=3 -- k v"},
		{"config set k v --cas=3", "config set --cas=3 -- k v"},
		{"config set k v -cas 3", "config set --cas=3 -- k v"},
		{"config set k v --cas -", "config set --cas=- -- k v"},
		{"config set k v -m --cas", "config set --message=--cas -- k v"},
		{"config set k v -m a=b", "config set --message=a=b -- k v"},
		{"config set k v --message=", "config set --message= -- k v"},
		{"config set k -", "config set -- k -"},
		{"config set k -- --dry-run", "config set -- k --dry-run"},
		{"config set -- k -5", "config set -- k -5"},
		{"config set k -- --", "config set -- k --"},
		{"config get help", "config get -- help"},
		{"config get config", "config get -- config"},
		{"config list", "config list --"},
		{"config list -o json app", "config list --output=json -- app"},
		{"-o json config list app", "config list --output=json -- app"},
		{"-o yaml config list -o json", "config list --output=yaml --output=json --"},
		{"config delete -r a --yes", "config delete --recursive --yes -- a"},
		{"config validate -f a.yaml b.yaml c.yaml", "config validate --file=a.yaml -- b.yaml c.yaml"},
		{"routes explain -H a --client c / -H b", "routes explain --header=a --client=c --header=b -- /"},
		{"run --dev --http :80", "run --dev --http=:80 --"},
		{"--node b config set k v", "config set --node=b -- k v"},
		{"run --node b", "run --node=b --"},
		{"join a:1 b:2 -q c:3", "join --quiet -- a:1 b:2 c:3"},
		{"force-leave a -y", "force-leave --yes -- a"},
		{"completion bash", "completion -- bash"},
		{"config set --dry-run=false k v", "config set --dry-run=false -- k v"},
	} {
		call, err := understand(testTree(), strings.Fields(test.line))
		if got := strings.Join(call.words()[1:], " "); err != nil || got != test.want {
			t.Errorf("%s\n got %s (%v)\nwant %s", test.line, got, err, test.want)
		}
	}
}

func TestEmptyWordsAreArguments(t *testing.T) {
	call, err := understand(testTree(), []string{"config", "set", "k", "", "--message", ""})
	want := []string{"agent", "config", "set", "--message=", "--", "k", ""}
	if err != nil || !slices.Equal(call.words(), want) {
		t.Errorf("got %q (%v), want %q", call.words(), err, want)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"", "agent needs a command: run, announce, instances, config, routes, maintenance, clusters, status, members, join, leave, force-leave, reachability, raft, token, keyring, alarms, tls, version, completion"},
		{"config", "config needs a command: get, set, delete, list, watch, validate"},
		{"confg", `agent: there is no command "confg" (did you mean "config"?)`},
		{"config ste k v", `config: there is no command "ste" (did you mean "set"?)`},
		{"config get", "config get: KEY is missing"},
		{"config set k", "config set: VALUE is missing"},
		{"config set k a b", `config set: surplus argument "b"; quote a value that has spaces`},
		{"status now", `status: surplus argument "now"; quote a value that has spaces`},
		{"config set k v --dryrun", `config set: there is no flag --dryrun (did you mean "--dry-run"?)`},
		{"config set k v --dry-rn --dry-run", `config set: there is no flag --dry-rn (did you mean "--dry-run"?)`},
		{"config get k --dry-run", "config get: there is no flag --dry-run"},
		{"config set k -5", "config set: there is no flag -5"},
		{"config set k v --cas", "config set: --cas needs a value"},
		{"config get k -o", "config get: -o needs a value"},
		{"config get k --nonsense", "config get: there is no flag --nonsense"},
		{"--adr x config get k", `agent: there is no flag --adr (did you mean "--addr"?)`},
		{"doctor", `"doctor" is not in this version`},
		{"join", "join: ADDRESS is missing"},
		{"force-leave", "force-leave: NODE is missing"},
		{"raft", "raft needs a command: list-peers, transfer-leadership, promote, demote, recover"},
		{"raft transfer", `raft: there is no command "transfer" (did you mean "transfer-leadership"?)`},
		{"raft transfer-leadership a b", `raft transfer-leadership: surplus argument "b"; quote a value that has spaces`},
		{"token create", `"token create" is not in this version`},
		{"leave --node x", "leave: there is no flag --node"},
		{"config apply -f x", `"config apply" is not in this version`},
		{"routes explain", "routes explain: URL is missing"},
		{"routes explain GET / /", `routes explain: surplus argument "/"; quote a value that has spaces`},
		{"routes explain / -H", "routes explain: -H needs a value"},
		{"raft recover node", `raft recover: surplus argument "node"; quote a value that has spaces`},
		{"run --https=:8443", "run: --https is not in this version"},
		{"status --token-file x", "status: --token-file is not in this version"},
		{"help confg", `agent: there is no command "confg" (did you mean "config"?)`},
	} {
		call, err := understand(testTree(), strings.Fields(test.line))
		if err == nil || err.Error() != test.want || exitCode(err) != exitUsage {
			t.Errorf("%s\n got %v (exit %d, as %q)\nwant %s", test.line, err, exitCode(err), call.words(), test.want)
		}
	}
}

func TestHelpNeedsNoArguments(t *testing.T) {
	for _, line := range []string{
		"--help", "-h", "help", "config --help", "help config", "config get --help", "help config get",
		"config get -h", "config set k --help", "config get a b c --help", "--help config get",
	} {
		call, err := understand(testTree(), strings.Fields(line))
		if err != nil || !call.help {
			t.Errorf("%s: help %t, error %v", line, call.help, err)
		}
	}
}

// A flag may stand before its command, so that its name must mean the same everywhere.
func TestFlagsTakeAValueEverywhereOrNowhere(t *testing.T) {
	takes := map[string]bool{}
	walk(testTree(), func(c *urfave.Command) {
		seen := map[string]bool{}
		for _, f := range c.Flags {
			for _, name := range f.Names() {
				if before, known := takes[name]; known && before != takesValue(f) {
					t.Errorf("--%s takes a value in one command and none in another", name)
				}
				if seen[name] {
					t.Errorf("%s has --%s twice", c.Name, name)
				}
				takes[name], seen[name] = takesValue(f), true
			}
		}
	})
}

func walk(c *urfave.Command, visit func(*urfave.Command)) {
	visit(c)
	for _, sub := range c.Subcommands {
		walk(sub, visit)
	}
}

// What was understood is understood the same way again, and nothing that stood on the command line is lost.
func FuzzUnderstand(f *testing.F) {
	for _, line := range []string{
		"config set k v --dry-run", "--cas 3 config set -- k -v", "config get -o=json k --at 1.2", "config list --", "run --dev",
		"help config", "config set k - -m --", "-- config get x",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		call, err := understand(testTree(), args)
		if err != nil || call.help {
			return
		}
		again, err := understand(testTree(), call.words()[1:])
		if err != nil || !slices.Equal(again.words(), call.words()) {
			t.Errorf("%q is understood as %q, and that as %q (%v)", args, call.words(), again.words(), err)
		}
		var parsed []string
		root := testTree()
		walk(root, func(c *urfave.Command) {
			c.Action = func(c *urfave.Context) error { parsed = c.Args().Slice(); return nil }
		})
		err = (&program{}).app(root).Run(call.words())
		if err == nil && !slices.Equal(parsed, call.rest) {
			t.Errorf("%q: arguments are %q, the command got %q", args, call.rest, parsed)
		}
	})
}
