package cli

import (
	"flag"
	"os"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"
)

//go:generate go test -run ^TestReferenceIsCurrent$ -update

var update = flag.Bool("update", false, "write the reference page anew")

const referencePage = "../docs/reference/cli.md"

const referenceHead = `# Command line

This page is made from the commands themselves by ` + "`make generate`" + `. It is what ` + "`agent COMMAND --help`" + ` prints.

Flags may stand anywhere; ` + "`--`" + ` ends them, and ` + "`-`" + ` is an argument. Data goes to the standard output and everything
else to the standard error. The shapes of ` + "`-o json`, `yaml` and `jsonl`" + ` are those of the HTTP API.

Unless ` + "`--addr`" + ` or ` + "`AGENT_ADDR`" + ` names an agent, the first of these is asked: the socket in ./grapevine-data, the sockets
in $RUNTIME_DIRECTORY and in /run/grapevine, and http://127.0.0.1:8500.
`

func reference(t *testing.T) string {
	var b strings.Builder
	b.WriteString(referenceHead)
	section := func(c *urfave.Command, path []string) {
		b.WriteString("\n## " + strings.Join(append([]string{programName}, path...), " ") + "\n\n```text\n")
		if err := writeHelp(&b, c, path); err != nil {
			t.Fatal(err)
		}
		b.WriteString("```\n")
	}
	root := testTree()
	section(root, nil)
	var below func(c *urfave.Command, path []string)
	below = func(c *urfave.Command, path []string) {
		for _, sub := range c.VisibleCommands() {
			name := append(path[:len(path):len(path)], sub.Name)
			if len(sub.Subcommands) == 0 {
				section(sub, name)
			}
			below(sub, name)
		}
	}
	below(root, nil)
	return b.String()
}

func TestReferenceIsCurrent(t *testing.T) {
	want := reference(t)
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePage)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the commands say (%v); run make generate", referencePage, err)
	}
}
