package cli

import (
	"maps"
	"math"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

const programName = "agent"

// tree is all commands. Each call makes a new one, since urfave/cli keeps what it parsed in the flags.
func (p *program) tree() *urfave.Command {
	root := &urfave.Command{
		Name:  programName,
		Usage: "an API gateway whose nodes gossip",
		Subcommands: []*urfave.Command{
			p.run(),
			p.announce(),
			p.instances(),
			{Name: "config", Usage: "read and change configuration", Subcommands: []*urfave.Command{
				withNode(p.configGet()), withNode(p.configSet()), withNode(p.configDelete()), withNode(p.configList()),
				withNode(p.configWatch()), p.configValidate(),
			}},
			withNode(&urfave.Command{Name: "routes", Usage: "look at the live table", Subcommands: []*urfave.Command{
				p.routesList(), p.routesExplain(), p.routesLint(),
			}}),
			withNode(p.maintenance()),
			p.clusters(),
			withNode(p.status()),
			withNode(p.members()),
			p.join(),
			p.leave(),
			p.forceLeave(),
			p.reachability(),
			p.raft(),
			p.token(),
			p.keyring(),
			p.alarms(),
			p.tls(),
			p.version(),
			p.completion(),
		},
	}
	prepare(root)
	return root
}

// prepare gives every command below c the flags that all have, and takes from urfave/cli what it would do in its own
// way: help, and the answer to a wrong flag.
func prepare(c *urfave.Command) {
	c.HideHelp = true
	c.OnUsageError = func(_ *urfave.Context, err error, _ bool) error { return flagFault(err) }
	if len(c.Subcommands) == 0 {
		own := flagsByName(c.Flags)
		for _, f := range globalFlags() {
			if own[f.Names()[0]] == nil { // a command's own flag stands before one of a later version
				c.Flags = append(c.Flags, f)
			}
		}
	}
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
}

// isPlanned knows the commands of later versions. They are not listed, and whoever calls one is told.
func isPlanned(command string) bool {
	return slices.Contains([]string{
		"config apply", "config diff", "config edit", "config export", "config history",
		"config rollback", "debug", "doctor", "snapshot",
		"token create", "top",
	}, command)
}

// arity reads how many arguments a command takes from its usage text: "KEY [VALUE]" needs one and takes two, and
// "[FILE...]" takes any number.
func arity(c *urfave.Command) (required []string, most int) {
	words := strings.Fields(c.ArgsUsage)
	required = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.HasPrefix(w, "[") })
	if strings.HasSuffix(c.ArgsUsage, "...]") {
		return required, math.MaxInt
	}
	return required, len(words)
}

func visibleNames(c *urfave.Command) []string {
	var names []string
	for _, sub := range c.VisibleCommands() {
		names = append(names, sub.Name)
	}
	return names
}

// allFlags are the flags of c and of every command below it.
func allFlags(c *urfave.Command) map[string]urfave.Flag {
	all := flagsByName(c.Flags)
	for _, sub := range c.Subcommands {
		maps.Copy(all, allFlags(sub))
	}
	return all
}
