package cli

import (
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// writeHelp explains a command: what it does, its arguments and its flags, or the commands below it. Path is its full
// name without the program's.
func writeHelp(w io.Writer, c *urfave.Command, path []string) error {
	full := strings.Join(append([]string{programName}, path...), " ")
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\nusage: %s\n", full, c.Usage, usageLine(full, c))
	if c.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Description)
	}
	if len(c.Subcommands) > 0 {
		section(&b, "commands:", commandRows(c, nil))
	}
	own, _ := flagRows(c.Flags)
	section(&b, "flags:", own)
	if len(path) == 0 {
		_, global := flagRows(globalFlags())
		section(&b, "flags of every command, at any place:", global)
		section(&b, "exit codes:", exitCodes())
	} else {
		fmt.Fprintf(&b, "\n\"%s --help\" lists the flags of every command and the exit codes.\n", programName)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func usageLine(full string, c *urfave.Command) string {
	if len(c.Subcommands) > 0 {
		return full + " COMMAND"
	}
	return strings.TrimRight(full+" "+c.ArgsUsage, " ") + " [flags]"
}

// section writes aligned rows below a title, if there are any.
func section(b *strings.Builder, title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	indented := make([][]string, len(rows))
	for i, row := range rows {
		indented[i] = append([]string{"  " + row[0]}, row[1:]...)
	}
	_ = table{rows: indented}.write(b) // a strings.Builder takes everything
}

// commandRows are the commands that can be called, below c, with their arguments.
func commandRows(c *urfave.Command, path []string) (rows [][]string) {
	for _, sub := range c.VisibleCommands() {
		name := append(path[:len(path):len(path)], sub.Name)
		if len(sub.Subcommands) > 0 {
			rows = append(rows, commandRows(sub, name)...)
			continue
		}
		usage := strings.TrimRight(strings.Join(name, " ")+" "+sub.ArgsUsage, " ")
		rows = append(rows, []string{usage, sub.Usage})
	}
	return rows
}

// flagRows splits visible flags into those of one command and those of all.
func flagRows(flags []urfave.Flag) (own, global [][]string) {
	for _, f := range flags {
		documented, ok := f.(urfave.DocGenerationFlag)
		if !ok || !isVisible(f) {
			continue
		}
		row := flagRow(documented)
		if c, ok := f.(urfave.CategorizableFlag); ok && c.GetCategory() == globalCategory {
			global = append(global, row)
		} else {
			own = append(own, row)
		}
	}
	return own, global
}

// flagRow reads the name of a flag's value from the backquotes in its usage text.
func flagRow(f urfave.DocGenerationFlag) []string {
	var names []string
	for _, name := range f.Names() {
		names = append([]string{dashed(name)}, names...)
	}
	left, text := strings.Join(names, ", "), f.GetUsage()
	if before, rest, ok := strings.Cut(text, "`"); ok {
		placeholder, after, _ := strings.Cut(rest, "`")
		left, text = left+" "+placeholder, before+placeholder+after
	}
	if f.TakesValue() && f.GetDefaultText() != "" {
		text += " (default " + strings.Trim(f.GetDefaultText(), `"`) + ")"
	}
	for _, env := range f.GetEnvVars() {
		text += " [" + env + "]"
	}
	return []string{left, text}
}
