package cli

import urfave "github.com/urfave/cli/v2"

// withNode gives a command, or all below it, the flag that lets another node answer.
func withNode(c *urfave.Command) *urfave.Command {
	for _, sub := range c.Subcommands {
		withNode(sub)
	}
	if len(c.Subcommands) == 0 {
		c.Flags = append(c.Flags, &urfave.StringFlag{Name: "node", Usage: "let `NODE` answer, by its name or id, in place of the agent that is asked"})
	}
	return c
}
