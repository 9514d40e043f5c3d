package cli

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent"
)

// configOf is what `run` with these words would hand to the agent.
func configOf(t *testing.T, line string) (config agent.Config, err error) {
	t.Helper()
	p := &program{}
	root := p.tree()
	root.Command("run").Action = func(c *urfave.Context) error {
		config, err = agentConfig(c)
		return err
	}
	call, err := understand(root, words(line))
	if err != nil {
		return config, err
	}
	return config, p.app(root).Run(call.words())
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"AGENT_DATA_DIR": "/env", "AGENT_NODE": "env", "AGENT_HTTP": "", "AGENT_DEV": "true", "AGENT_CONFIG": "a,b.yaml",
	} {
		t.Setenv(name, value)
	}
	config, err := configOf(t, "run --node flag --http= --socket s --admin a --metrics m --gossip g --region r")
	if err != nil {
		t.Fatal(err)
	}
	if config.DataDir != "/env" || config.Node != "flag" || config.HTTP != "" || !config.Dev || config.Socket != "s" ||
		config.Admin != "a" || config.Metrics != "m" || config.Gossip != "g" || config.Region != "r" ||
		!slices.Equal(config.ConfigFiles, []string{"a,b.yaml"}) || config.Version == "" {
		t.Errorf("%+v", config)
	}
	config, err = configOf(t, "run --dev=false --config-dir d")
	if err != nil || config.Dev || config.ConfigDir != "d" || config.ConfigFiles != nil {
		t.Errorf("%+v, %v", config, err)
	}
	config, err = configOf(t, "run --config x,y.yaml --config z.yaml")
	if err != nil || !slices.Equal(config.ConfigFiles, []string{"x,y.yaml", "z.yaml"}) {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestSettingsOfACluster(t *testing.T) {
	for name, value := range map[string]string{
		"AGENT_JOIN": "env:1", "AGENT_TOKEN_FILE": "/env", "AGENT_VOTER": "no", "AGENT_BOOTSTRAP_EXPECT": "3", "AGENT_ADOPT": "1",
	} {
		t.Setenv(name, value)
	}
	config, err := configOf(t, "run --join 'a:1, [::1]:2,' --join c:3 --advertise d --insecure --voter yes")
	if err != nil || !slices.Equal(config.Join, []string{"a:1", "[::1]:2", "c:3"}) || config.TokenFile != "/env" ||
		config.Advertise != "d" || config.Voter != agent.VoterYes || config.BootstrapExpect != 3 || !config.Adopt || !config.Insecure {
		t.Errorf("%+v, %v", config, err)
	}
	config, err = configOf(t, "run --join= --token-file file --adopt=false")
	if err != nil || !slices.Equal(config.Join, []string{"env:1"}) || config.TokenFile != "file" || config.Adopt || config.Voter != agent.VoterNo {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestRunWithoutAnythingLeavesAllToTheAgent(t *testing.T) {
	config, err := configOf(t, "run")
	config.Version, config.Build = "", ""
	if err != nil || !reflect.DeepEqual(config, agent.Config{}) {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestSettingsThatAreRefused(t *testing.T) {
	for _, test := range []struct{ env, line, want string }{
		{"AGENT_DEV=maybe", "run", `AGENT_DEV="maybe": neither true nor false`},
		{"AGENT_JOIN=x", "run", `--join "x": neither a join token nor host:port`},
		{"AGENT_JOIN=a:1,b", "run", `--join "b": neither a join token nor host:port`},
		{"NO=", "run --join :7946", `--join ":7946": neither a join token nor host:port`},
		{"NO=", "run --join a:0", `--join "a:0": neither a join token nor host:port`},
		{"AGENT_BOOTSTRAP_EXPECT=0", "run", `--bootstrap-expect "0": not a number of nodes`},
		{"NO=", "run --bootstrap-expect three", `--bootstrap-expect "three": not a number of nodes`},
		{"NO=", "run --bootstrap-expect 256", `--bootstrap-expect "256": not a number of nodes`},
		{"AGENT_INSECURE=si", "run", `AGENT_INSECURE="si": neither true nor false`},
		{"NO=", "run --adopt=si", `invalid boolean value "si" for -adopt`},
		{"AGENT_HTTPS=:1", "run", "AGENT_HTTPS is set, which is not in this version"},
		{"AGENT_TOKEN_FILE=x", "status", "AGENT_TOKEN_FILE is set, which is not in this version"},
		{"AGENT_CONFIG_DIR=d", "run --config f --config-dir d", "--config and --config-dir: give files or a directory, not both"},
		{"AGENT_ADDR=nonsense", "status", `--addr "nonsense": not like`},
		{"NO=", "run -o json", "run: --output json: the command prints no such data"},
		{"NO=", "completion bash -o json", "completion: --output json: the command prints no such data"},
		{"NO=", "completion tcsh", `completion: "tcsh" is no shell known here`},
		{"NO=", "status -o xml", `--output "xml": not one of table, json, yaml, jsonl, name`},
		{"NO=", "status --timeout 5", `--timeout "5": not a duration above zero`},
		{"NO=", "status --timeout=-5s", `--timeout "-5s": not a duration above zero`},
		{"NO=", "status --quiet=maybe", `invalid boolean value "maybe" for -quiet`},
	} {
		t.Run(test.line, func(t *testing.T) {
			name, value, _ := strings.Cut(test.env, "=")
			t.Setenv(name, value)
			r := call("", words(test.line)...)
			if r.exit != exitUsage || !strings.Contains(r.stderr, test.want) || !strings.Contains(r.stderr, "--help\n") || r.stdout != "" {
				t.Errorf("exit %d\n%s%s", r.exit, r.stdout, r.stderr)
			}
		})
	}
}

func TestRunTellsTheAgentsExitCode(t *testing.T) {
	t.Chdir(t.TempDir())
	r := call("", "run", "--config", "missing.yaml")
	if r.exit != exitInvalid || !strings.Contains(r.stderr, "missing.yaml") {
		t.Errorf("%+v", r)
	}
}
