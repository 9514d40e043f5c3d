package cli

import (
	"cmp"
	"os"
	"strconv"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent"
)

func (p *program) run() *urfave.Command {
	return &urfave.Command{
		Name: "run", Usage: "run a node until it is told to stop",
		Description: "Without flags it is a node that founds a cluster of its own: the proxy on :8080, the API on a unix socket\n" +
			"and on 127.0.0.1:8500, data in ./grapevine-data. SIGHUP reads the configuration files again.\n" +
			"\"agent token join\" on a node of a cluster prints what --join takes on a new one. A node that is a member already\n" +
			"finds its cluster by itself.\n" +
			"A flag wins over its environment variable, AGENT_ and the flag's name as in AGENT_DATA_DIR, and that over\n" +
			"the file. An empty value counts as none.",
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: "config", Usage: "read `FILE`; may be given several times"},
			&urfave.StringFlag{Name: "config-dir", Usage: "read the .yaml, .yml and .json files of `DIRECTORY`"},
			&urfave.StringFlag{Name: "data-dir", Usage: "keep data in `DIRECTORY`"},
			&urfave.StringFlag{Name: "node", Usage: "be known as `NAME`"},
			&urfave.StringFlag{Name: "region", Usage: "stand in region `NAME`"},
			&urfave.StringFlag{Name: "http", Usage: "serve the proxy at `ADDRESS`"},
			&urfave.StringFlag{Name: "admin", Usage: "serve the API at `ADDRESS`, which must be loopback"},
			&urfave.StringFlag{Name: "socket", Usage: "serve the API on the unix socket `PATH`"},
			&urfave.StringFlag{Name: "gossip", Usage: "let the other nodes in at `ADDRESS`, TCP and UDP"},
			&urfave.StringFlag{Name: "advertise", Usage: "tell the other nodes that they reach this one at `ADDRESS`"},
			&urfave.StringSliceFlag{Name: "join", Usage: "join a cluster by `TOKEN`, or by addresses of its nodes, with commas, and --token-file"},
			&urfave.StringFlag{Name: "token-file", Usage: "read the join token from `FILE`"},
			&urfave.StringFlag{Name: "voter", Usage: "let the node vote: `WHEN` is auto (the cluster decides), yes or no"},
			&urfave.StringFlag{Name: "bootstrap-expect", Usage: "found the cluster together with others, when `NUMBER` new nodes have found each other"},
			&urfave.BoolFlag{Name: "adopt", Usage: "give up the cluster that this node founded, and its keys, for the one that it joins"},
			&urfave.BoolFlag{Name: "insecure", Usage: "speak with the other nodes without TLS, on loopback only"},
			&urfave.StringFlag{Name: "metrics", Usage: "serve metrics at `ADDRESS`, too"},
			&urfave.BoolFlag{Name: "dev", Usage: "keep everything in memory"},
			&urfave.BoolFlag{Name: "no-gateway", Usage: "run no proxy: for a host of services, which are announced here; joins as an edge"},
			plannedFlag("https"),
		},
		Action: p.runRun,
	}
}

func (p *program) runRun(c *urfave.Context) error {
	if err := noOutput(c); err != nil {
		return err
	}
	config, err := agentConfig(c)
	if err != nil {
		return err
	}
	config.AccessLog = p.stdout
	return agent.Run(c.Context, config, p.stderr)
}

// agentConfig takes each setting from its flag or from the environment. What neither has is left empty, and then the
// file or the agent's default counts.
func agentConfig(c *urfave.Context) (agent.Config, error) {
	dev, err := boolSetting(c, "dev")
	if err != nil {
		return agent.Config{}, err
	}
	files, dir, err := configFiles(c)
	if err != nil {
		return agent.Config{}, err
	}
	bare, err := boolSetting(c, "no-gateway")
	if err != nil {
		return agent.Config{}, err
	}
	config := agent.Config{
		ConfigFiles: files,
		ConfigDir:   dir,
		DataDir:     setting(c, "data-dir"),
		Node:        setting(c, "node"),
		Region:      setting(c, "region"),
		HTTP:        setting(c, "http"),
		Admin:       setting(c, "admin"),
		Socket:      setting(c, "socket"),
		Gossip:      setting(c, "gossip"),
		Metrics:     setting(c, "metrics"),
		Dev:         dev,
		NoGateway:   bare,
		Version:     version,
		Build:       thisBuild().source(),
	}
	return config, clusterConfig(c, &config)
}

// setting is the value of a flag, or else of its environment variable; empty means not given.
func setting(c *urfave.Context, flag string) string {
	return cmp.Or(c.String(flag), os.Getenv(variable(flag)))
}

func boolSetting(c *urfave.Context, flag string) (bool, error) {
	text := os.Getenv(variable(flag))
	if c.IsSet(flag) || text == "" {
		return c.Bool(flag), nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, usageError("%s=%q: neither true nor false", variable(flag), text)
	}
	return on, nil
}

// configFiles is where the configuration is: some files or a directory. Flags win over the environment as a pair.
func configFiles(c *urfave.Context) (files []string, dir string, err error) {
	files, dir = c.StringSlice("config"), c.String("config-dir")
	names := "--config and --config-dir"
	if len(files) == 0 && dir == "" {
		names = "AGENT_CONFIG and AGENT_CONFIG_DIR"
		dir = os.Getenv("AGENT_CONFIG_DIR")
		if file := os.Getenv("AGENT_CONFIG"); file != "" {
			files = []string{file}
		}
	}
	if len(files) > 0 && dir != "" {
		return nil, "", usageError("%s: give files or a directory, not both", names)
	}
	return files, dir, nil
}
