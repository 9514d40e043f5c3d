package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// globalCategory marks the flags that every command takes.
const globalCategory = "global"

// globalFlags are taken by every command.
func globalFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{
			Name: "addr", Category: globalCategory, EnvVars: []string{"AGENT_ADDR"},
			Usage: "`ADDRESS` of the agent, unix:///path or http://host:port",
		},
		&urfave.StringFlag{
			Name: "output", Aliases: []string{"o"}, Category: globalCategory, Value: formatTable,
			Usage: "print data as `FORMAT`: " + strings.Join(formats, ", "),
		},
		&urfave.StringFlag{
			Name: "timeout", Category: globalCategory, Value: "10s",
			Usage: "give up after `DURATION` without an answer",
		},
		&urfave.BoolFlag{Name: "no-color", Category: globalCategory, Usage: "no colours, as with NO_COLOR in the environment"},
		&urfave.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Category: globalCategory, Usage: "say only what failed"},
		&urfave.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Category: globalCategory, Usage: "say what is asked of the agent"},
		&urfave.BoolFlag{Name: "help", Aliases: []string{"h"}, Category: globalCategory, Usage: "explain the command"},
		plannedFlag("token-file"), plannedFlag("ca-file"), plannedFlag("cert-file"), plannedFlag("key-file"),
	}
}

// plannedFlag is a flag of a later version: it is not listed, and who gives it is told.
func plannedFlag(name string) urfave.Flag {
	return &urfave.StringFlag{Name: name, Hidden: true, Category: globalCategory}
}

// refusePlanned refuses settings of later versions in the environment; understand does it on the command line.
func refusePlanned(c *urfave.Command) error {
	for _, f := range c.Flags {
		if name := variable(f.Names()[0]); !isVisible(f) && os.Getenv(name) != "" {
			return usageError("%s is set, which is not in this version", name)
		}
	}
	return nil
}

// variable is the environment variable that stands for a flag.
func variable(flag string) string {
	return "AGENT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// noOutput refuses --output for a command that prints no data of its own.
func noOutput(c *urfave.Context) error {
	if c.IsSet("output") {
		return usageError("%s: --output %s: the command prints no such data", c.Command.Name, c.String("output"))
	}
	return refusePlanned(c.Command)
}

// flagFault words what urfave/cli says of a flag's value.
func flagFault(err error) error {
	return &failure{code: exitUsage, problem: err.Error(), cause: errors.Unwrap(err)}
}

func flagsByName(flags []urfave.Flag) map[string]urfave.Flag {
	byName := map[string]urfave.Flag{}
	for _, f := range flags {
		for _, name := range f.Names() {
			byName[name] = f
		}
	}
	return byName
}

// flagNames are the visible flags as they are typed, sorted.
func flagNames(flags map[string]urfave.Flag) []string {
	var names []string
	for name, f := range flags {
		if isVisible(f) {
			names = append(names, dashed(name))
		}
	}
	slices.Sort(names)
	return names
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func isVisible(f urfave.Flag) bool {
	visible, ok := f.(urfave.VisibleFlag)
	return ok && visible.IsVisible()
}

// takesValue says whether a word after the flag belongs to it.
func takesValue(f urfave.Flag) bool {
	documented, ok := f.(urfave.DocGenerationFlag)
	return ok && documented.TakesValue()
}
