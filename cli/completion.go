package cli

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent"
	"grapevine/agent/api"
)

// completeCommand is what the shells' scripts call. It is no command for people, and not listed.
const completeCommand = "__complete"

// completionTimeout is how long a person waits for the tab key.
const completionTimeout = 500 * time.Millisecond

//go:embed completion
var completionScripts embed.FS

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (p *program) completion() *urfave.Command {
	return &urfave.Command{
		Name: "completion", Usage: "print the script that completes commands, flags and keys in a shell",
		ArgsUsage: strings.Join(shells, "|"),
		Description: "bash:        source <(agent completion bash)\n" +
			"zsh:         source <(agent completion zsh)\n" +
			"fish:        agent completion fish | source\n" +
			"powershell:  agent completion powershell | Out-String | Invoke-Expression",
		Action: p.runCompletion,
	}
}

func (p *program) runCompletion(c *urfave.Context) error {
	if err := noOutput(c); err != nil {
		return err
	}
	shell := c.Args().First()
	if !slices.Contains(shells, shell) {
		return usageError("completion: %q is no shell known here; known are %s", shell, strings.Join(shells, ", "))
	}
	script, err := completionScripts.ReadFile("completion/" + shell)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(script)
	return err
}

// complete prints what the last of words may become, one a line. Nothing is printed where files are wanted: the
// scripts then leave it to the shell.
func (p *program) complete(ctx context.Context, words []string) (exit int) {
	if len(words) == 0 {
		return 0
	}
	last := words[len(words)-1]
	for _, candidate := range p.candidates(ctx, words[:len(words)-1], last) {
		if strings.HasPrefix(candidate, last) {
			fmt.Fprintln(p.stdout, candidate)
		}
	}
	return 0
}

// candidates are the words that may follow.
func (p *program) candidates(ctx context.Context, before []string, last string) []string {
	root := p.tree()
	known := allFlags(root)
	flags, words := split(known, before)
	call := invocation{command: root, flags: flags}
	call.descend(words)
	if flag, prefix, ok := openFlag(known, before, last); ok {
		return prefixed(prefix, flagValues(ctx, call, flag))
	}
	switch {
	case strings.HasPrefix(last, "-"):
		return flagNames(allFlags(call.command))
	case len(call.command.Subcommands) > 0 && len(call.rest) == 0:
		return visibleNames(call.command)
	}
	return p.arguments(ctx, call, last)
}

// openFlag is the flag whose value the last word is: --output j, or --output=j, where the prefix is "--output=".
func openFlag(known map[string]urfave.Flag, before []string, last string) (flag, prefix string, ok bool) {
	if name, _, assigned := strings.Cut(last, "="); assigned && strings.HasPrefix(last, "-") {
		return firstName(known, name), name + "=", true
	}
	if len(before) == 0 || !strings.HasPrefix(before[len(before)-1], "-") {
		return "", "", false
	}
	f := parseFlag(before[len(before)-1])
	return firstName(known, f.written), "", takesValue(known[f.name]) && !f.hasValue
}

// firstName is the first name of a flag that was written with its dashes, empty for one that is not known.
func firstName(known map[string]urfave.Flag, written string) string {
	if f, ok := known[parseFlag(written).name]; ok {
		return f.Names()[0]
	}
	return ""
}

func prefixed(prefix string, values []string) []string {
	for i, v := range values {
		values[i] = prefix + v
	}
	return values
}

func flagValues(ctx context.Context, call invocation, flag string) []string {
	switch flag {
	case "output":
		return slices.Clone(formats)
	case "wait":
		return []string{"none", "local", "all", "50%"}
	case "consistency":
		return slices.Clone(consistencies)
	case "role":
		return []string{"voter", "edge"}
	case "keep":
		return []string{string(api.KeepCluster), string(api.KeepNode)}
	case "voter":
		return []string{agent.VoterAuto, agent.VoterYes, agent.VoterNo}
	case "node":
		if call.command.Name != "run" { // which names a new one
			return nodes(ctx, call)
		}
	}
	return nil
}

// arguments are candidates for the next argument of a command.
func (p *program) arguments(ctx context.Context, call invocation, last string) []string {
	wanted := strings.Fields(call.command.ArgsUsage)
	if len(call.rest) >= len(wanted) {
		return nil
	}
	switch strings.Trim(wanted[len(call.rest)], "[]") {
	case "KEY", "PREFIX":
		return keysLike(ctx, call, last)
	case "NODE":
		return nodes(ctx, call)
	case "CLUSTER":
		return clusters(ctx, call)
	case "ID":
		return tokens(ctx, call)
	case "METHOD":
		return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	case strings.Join(shells, "|"):
		return slices.Clone(shells)
	}
	return nil
}

// keysLike asks the agent for the keys in the folder of what was typed. It says nothing if it can't, like the others: a
// person who types has no use for an error.
func keysLike(ctx context.Context, call invocation, typed string) []string {
	folder := typed[:strings.LastIndexByte(typed, '/')+1]
	var listing api.Listing
	call.ask(ctx, list(folder, true), &listing)
	return listing.Keys
}

// nodes are the names of the nodes that have not left.
func nodes(ctx context.Context, call invocation) []string {
	var list api.MemberList
	call.ask(ctx, request{method: http.MethodGet, path: "/v1/members"}, &list)
	var names []string
	for _, m := range list.Members {
		if m.Status != api.StatusLeft {
			names = append(names, m.Node)
		}
	}
	return names
}

func clusters(ctx context.Context, call invocation) []string {
	var list api.ClusterList
	call.ask(ctx, request{method: http.MethodGet, path: "/v1/clusters"}, &list)
	var ids []string
	for _, cl := range list.Clusters {
		ids = append(ids, cl.ID)
	}
	return ids
}

func tokens(ctx context.Context, call invocation) []string {
	var list api.TokenList
	call.ask(ctx, request{method: http.MethodGet, path: "/v1/tokens"}, &list)
	var ids []string
	for _, t := range list.Tokens {
		ids = append(ids, t.ID)
	}
	return ids
}

// ask leaves the answer empty where none comes in the time of a key press.
func (c *invocation) ask(ctx context.Context, r request, answer any) {
	var address string
	for _, f := range c.flags {
		if f.name == "addr" {
			address = f.value
		}
	}
	place, err := locate(address)
	if err == nil {
		_ = newClient(place, completionTimeout).fetch(ctx, r, answer)
	}
}
