package cli

import (
	"net"
	"os"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent"
	"grapevine/agent/identity"
)

// clusterConfig takes the settings of the cluster. What they may be together is the agent's to say.
func clusterConfig(c *urfave.Context, config *agent.Config) (err error) {
	config.TokenFile = setting(c, "token-file")
	config.Advertise = setting(c, "advertise")
	config.Voter = setting(c, "voter")
	if config.Join, err = joinSetting(c); err != nil {
		return err
	}
	if config.BootstrapExpect, err = bootstrapExpect(c); err != nil {
		return err
	}
	if config.Adopt, err = boolSetting(c, "adopt"); err != nil {
		return err
	}
	config.Insecure, err = boolSetting(c, "insecure")
	return err
}

// joinSetting is a join token, or addresses.
func joinSetting(c *urfave.Context) ([]string, error) {
	join := commaWords(c.StringSlice("join")...)
	if len(join) == 0 {
		join = commaWords(os.Getenv(variable("join")))
	}
	for _, part := range join {
		if !strings.HasPrefix(part, identity.TokenPrefix) && !isHostPort(part) {
			return nil, usageError("--join %q: neither a join token nor host:port", part)
		}
	}
	return join, nil
}

// commaWords splits words at commas, and leaves out what is empty.
func commaWords(words ...string) []string {
	var parts []string
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

func isHostPort(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && host != "" && n > 0
}

func bootstrapExpect(c *urfave.Context) (int, error) {
	text := setting(c, "bootstrap-expect")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n == 0 {
		return 0, usageError("--bootstrap-expect %q: not a number of nodes", text)
	}
	return int(n), nil
}
