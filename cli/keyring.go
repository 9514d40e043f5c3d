package cli

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) keyring() *urfave.Command {
	return &urfave.Command{Name: "keyring", Usage: "look at and replace the key that encrypts gossip", Subcommands: []*urfave.Command{
		{
			Name: "list", Usage: "list which gossip keys the nodes have, by the ids of the keys",
			Description: "USES is the key that a node encrypts with, and READS are those that it understands.",
			Action:      p.runKeyringList,
		},
		{
			Name: "rotate", Usage: "replace the gossip key on all nodes",
			Description: "Nodes learn the next key, then use it, then forget the last one; each step waits until the one before is\n" +
				"done on all live nodes. It goes on by itself when the command has given up waiting (exit 9). A node that is\n" +
				"away gets the key when it is back. agent force-leave --revoke does the same.",
			Category: changeCategory,
			Action:   p.runKeyringRotate,
		},
	}}
}

const keyringCheck = "agent keyring list"

func (p *program) runKeyringList(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var k api.Keyring
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/keyring", bounded: true}, &k); err != nil {
		return err
	}
	s.say("%s", rotationState(k))
	return s.printKeyring(k)
}

func (p *program) runKeyringRotate(c *urfave.Context) error {
	var k api.Keyring
	r := request{method: http.MethodPost, path: "/v1/keyring/rotate", check: keyringCheck, next: keyringCheck}
	s, err := p.change(c, r, api.Nothing{}, &k)
	if err != nil {
		return err
	}
	if err := s.printKeyring(k); err != nil {
		return err
	}
	if k.Phase != api.KeyringDone {
		return &failure{code: exitWait, problem: rotationState(k), outcome: written, next: keyringCheck}
	}
	s.say("%s", rotationState(k))
	return nil
}

// rotationState says how far a rotation is, and whom it waits for.
func rotationState(k api.Keyring) string {
	if k.Phase == api.KeyringDone {
		return fmt.Sprintf("key %s is the only one, after %s", strings.Join(k.Keys, ", "), plural(int(k.Generation), "rotation"))
	}
	state := map[string]string{
		"add": "nodes learn the next key",
		"use": "nodes use the next key, and forget the last one when all do",
	}[k.Phase]
	var waiting []string
	for _, n := range k.Nodes {
		if !n.Ready {
			waiting = append(waiting, n.Node)
		}
	}
	if len(waiting) > 0 {
		state += "; waiting for " + strings.Join(waiting, ", ")
	}
	if k.Again {
		state += "; another rotation follows"
	}
	return "rotation " + fmt.Sprint(k.Generation) + " is under way: " + state
}

func (s *session) printKeyring(k api.Keyring) error {
	return printOne(s.out, k, strings.Join(k.Keys, "\n"), func(w io.Writer) error { return keyringTable(k, s.out.style).write(w) })
}

func keyringTable(k api.Keyring, style style) table {
	t := table{head: []string{"NODE", "USES", "READS", "READY"}}
	var problems []string
	for _, n := range k.Nodes {
		row := []string{n.Node, n.Uses, strings.Join(n.Has, ","), yes(n.Ready)}
		if n.Problem != "" {
			row = []string{n.Node, "-", "-", "-", n.Problem}
			problems = append(problems, n.Problem)
		}
		t.rows = append(t.rows, row)
	}
	t.paint = func(cell string) string {
		if slices.Contains(problems, cell) {
			return style.bad(cell)
		}
		return cell
	}
	return t
}
