package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/gateway"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

func (p *program) configValidate() *urfave.Command {
	return &urfave.Command{
		Name: "validate", Usage: "check configuration files, without an agent", ArgsUsage: "[FILE...]",
		Description: "Prints every fault of all files as file:line:column, and exits with 3 if there is one.",
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: "file", Aliases: []string{"f"}, Usage: "check `FILE`; - is the standard input"},
			&urfave.StringFlag{Name: "config-dir", Usage: "check the .yaml, .yml and .json files of `DIRECTORY`"},
		},
		Action: p.runConfigValidate,
	}
}

func (p *program) runConfigValidate(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	inputs, err := p.readInputs(append(c.StringSlice("file"), c.Args().Slice()...), c.String("config-dir"))
	if err != nil {
		return err
	}
	verdict, err := judge(inputs)
	if err != nil {
		return err
	}
	if err := printVerdict(s, verdict); err != nil {
		return err
	}
	if n := len(verdict.Faults); n > 0 {
		return invalid("%s: %s", names(inputs), plural(n, "fault"))
	}
	s.say("%s: valid", names(inputs))
	return nil
}

// judge reads the files as an agent does when it starts, and compiles the table that they alone would make. The notices
// are of what was taken otherwise than it was written, and of what works and is probably not meant.
func judge(inputs []spec.Input) (api.Verdict, error) {
	verdict := api.Verdict{Faults: []spec.Fault{}, Notices: []spec.Fault{}}
	file, err := spec.ParseFiles(inputs...)
	if err == nil {
		verdict.Notices = append(verdict.Notices, file.Notices...)
		var table *gateway.Table
		if table, err = compile(file); err == nil {
			verdict.Notices = append(verdict.Notices, located(file, table.Notices())...)
			verdict.Notices = append(verdict.Notices, table.Lint()...)
		}
	}
	if faults, ok := errors.AsType[spec.Faults](err); ok {
		verdict.Faults = faults
		return verdict, nil
	}
	return verdict, err
}

// compile makes a table of the file over an empty store.
func compile(file *spec.File) (*gateway.Table, error) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	g := gateway.New(gateway.Options{Source: store, Keeper: store, Static: file})
	defer g.Close()
	err = g.Load()
	return g.Table(), err
}

// located gives faults their place in the file.
func located(file *spec.File, faults []spec.Fault) []spec.Fault {
	for i, fault := range faults {
		faults[i] = file.Locate(fault)
	}
	return faults
}

// printVerdict prints a fault a line, or the whole verdict as one document.
func printVerdict(s *session, v api.Verdict) error {
	if s.out.format == formatJSON || s.out.format == formatYAML {
		return s.out.document(v)
	}
	s.sayFaults("notice", v.Notices)
	return printFaults(s.out, v.Faults)
}

func names(inputs []spec.Input) string {
	if len(inputs) > 3 {
		return plural(len(inputs), "file")
	}
	var list []string
	for _, input := range inputs {
		list = append(list, input.Name)
	}
	return strings.Join(list, ", ")
}

// readInputs reads the files that are named, or those of a directory by name.
func (p *program) readInputs(files []string, dir string) ([]spec.Input, error) {
	switch {
	case len(files) > 0 && dir != "":
		return nil, usageError("config validate: give files or --config-dir, not both")
	case len(files) == 0 && dir == "":
		return nil, usageError("config validate: give files with -f, or --config-dir")
	case dir != "":
		return readDirectory(dir)
	}
	return p.readFiles(files)
}

// readFiles goes on after a file that can't be read, to name them all.
func (p *program) readFiles(files []string) ([]spec.Input, error) {
	var inputs []spec.Input
	var unread []string
	for _, name := range files {
		data, err := p.readFile(name)
		if err != nil {
			unread = append(unread, unreadable(name, err).problem)
		}
		inputs = append(inputs, spec.Input{Name: name, Data: data})
	}
	if len(unread) > 0 {
		return nil, &failure{code: exitInvalid, problem: unread[0], details: unread[1:]}
	}
	return inputs, nil
}

func (p *program) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(p.stdin)
	}
	return os.ReadFile(name)
}

func readDirectory(dir string) ([]spec.Input, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	var inputs []spec.Input
	for _, entry := range entries {
		if !isConfigFile(entry.Name()) {
			continue
		}
		name := filepath.Join(dir, entry.Name())
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, unreadable(name, err)
		}
		inputs = append(inputs, spec.Input{Name: name, Data: data})
	}
	if len(inputs) == 0 {
		return nil, invalid("%s: holds no .yaml, .yml or .json file", dir)
	}
	return inputs, nil
}

// isConfigFile leaves hidden files out, as the agent does: mounted configuration has its versions in them.
func isConfigFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}
