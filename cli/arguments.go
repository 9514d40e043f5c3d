package cli

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"grapevine/gateway/spec"
)

// invocation is a command line that was understood. urfave/cli stops looking for flags at the first argument and takes
// the flags behind it for more arguments, so that `config set k v --dry-run` would write. Here flags may stand anywhere,
// and what the command doesn't take is refused.
type invocation struct {
	command *urfave.Command
	path    []string // the command's full name, without the program's
	flags   []flagWord
	rest    []string // the command's own arguments
	help    bool
}

// flagWord is one flag as it stood on the command line.
type flagWord struct {
	name     string // its first name, if it has several
	written  string // what stood there, with its dashes and without a value
	value    string
	hasValue bool
}

// understand reads a command line against the tree of commands below root. "--" ends the flags, and "-" is an
// argument. The invocation says which command was meant also when there is an error, as far as that is known.
func understand(root *urfave.Command, args []string) (invocation, error) {
	known := allFlags(root)
	flags, words := split(known, args)
	call := invocation{command: root, flags: flags}
	if len(words) > 0 && words[0] == "help" {
		words, call.help = words[1:], true
	}
	call.help = call.help || slices.ContainsFunc(flags, func(f flagWord) bool { return f.name == "help" })
	call.descend(words)
	return call, call.check(known)
}

// wraps is the command whose arguments are another program's command line.
const wraps = "announce"

// split tells flags from arguments. What follows the first argument of a command that runs another program is that one's. A flag is looked up among those of all commands, since it may stand before its
// command; no name takes a value in one command and none in another.
func split(known map[string]urfave.Flag, args []string) (flags []flagWord, words []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return flags, append(words, args[i+1:]...)
		}
		if len(words) == 1 && words[0] == wraps && (len(args[i]) < 1 || args[i][0] != '-') {
			return flags, append(words, args[i:]...)
		}
		if len(args[i]) < 2 || args[i][0] != '-' {
			words = append(words, args[i])
			continue
		}
		f := parseFlag(args[i])
		if found, ok := known[f.name]; ok {
			f.name = found.Names()[0] // urfave/cli refuses two names of one flag
		}
		if takesValue(known[f.name]) && !f.hasValue && i+1 < len(args) {
			i++
			f.value, f.hasValue = args[i], true
		}
		flags = append(flags, f)
	}
	return flags, words
}

func parseFlag(word string) flagWord {
	written, value, hasValue := strings.Cut(word, "=")
	name := strings.TrimPrefix(strings.TrimPrefix(written, "-"), "-")
	return flagWord{name: name, written: written, value: value, hasValue: hasValue}
}

// descend follows words down the tree, as far as they name commands; what is left are arguments.
func (c *invocation) descend(words []string) {
	for len(words) > 0 {
		next := c.command.Command(words[0])
		if next == nil {
			break
		}
		c.command, c.path, words = next, append(c.path, next.Name), words[1:]
	}
	c.rest = words
}

// check refuses what is no command, flags that the command doesn't have, and missing and surplus arguments. A flag that
// no command has comes first: its value may have been taken for a command.
func (c *invocation) check(known map[string]urfave.Flag) error {
	isGroup := len(c.command.Subcommands) > 0
	own := known
	if !isGroup {
		own = flagsByName(c.command.Flags)
	}
	for _, f := range c.flags {
		found, ok := own[f.name]
		switch {
		case !ok:
			return usageError("%s: there is no flag %s%s", c.name(), f.written, spec.DidYouMean(f.written, slices.Values(flagNames(own))))
		case !isVisible(found):
			return usageError("%s: %s is not in this version", c.name(), f.written)
		case takesValue(found) && !f.hasValue:
			return usageError("%s: %s needs a value", c.name(), f.written)
		}
	}
	switch {
	case c.help && (!isGroup || len(c.rest) == 0):
		return nil
	case isGroup:
		return c.noSuchCommand()
	}
	return c.countArguments()
}

func (c *invocation) countArguments() error {
	required, most := arity(c.command)
	switch {
	case len(c.rest) < len(required):
		return usageError("%s: %s is missing", c.name(), required[len(c.rest)])
	case len(c.rest) > most:
		return usageError("%s: surplus argument %q; quote a value that has spaces", c.name(), c.rest[most])
	}
	return nil
}

// noSuchCommand says why the words after a group of commands name none of them.
func (c *invocation) noSuchCommand() error {
	names := visibleNames(c.command)
	if len(c.rest) == 0 {
		return usageError("%s needs a command: %s", c.name(), strings.Join(names, ", "))
	}
	wanted := strings.Join(append(c.path, c.rest[0]), " ")
	if isPlanned(wanted) {
		return usageError("%q is not in this version", wanted)
	}
	return usageError("%s: there is no command %q%s", c.name(), c.rest[0], spec.DidYouMean(c.rest[0], slices.Values(names)))
}

// advise adds to a usage error where to read more.
func (c *invocation) advise(err error) error {
	if f, ok := err.(*failure); ok && f.code == exitUsage && f.next == "" {
		f.next = strings.Join(append([]string{programName}, c.path...), " ") + " --help"
	}
	return err
}

// words is the command line in the order that urfave/cli wants: the flags behind their command, then what is no flag.
func (c *invocation) words() []string {
	words := append([]string{programName}, c.path...)
	for _, f := range c.flags {
		word := "--" + f.name
		if f.hasValue {
			word += "=" + f.value
		}
		words = append(words, word)
	}
	return append(append(words, "--"), c.rest...)
}

// effect is what the command does. Those that change what is stored, and no others, can be tried with --dry-run.
func (c *invocation) effect() effect {
	switch {
	case c.command.Category == changeCategory:
		return changes
	case flagsByName(c.command.Flags)["dry-run"] != nil:
		return writes
	}
	return looks
}

func (c *invocation) name() string {
	if len(c.path) == 0 {
		return programName
	}
	return strings.Join(c.path, " ")
}
