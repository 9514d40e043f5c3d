package cli

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) token() *urfave.Command {
	return &urfave.Command{Name: "token", Usage: "let new nodes join the cluster", Subcommands: []*urfave.Command{
		{
			Name: "join", Usage: "print a new join token, which agent run --join takes on a new node",
			Description: "Whoever has the token can become a node of the cluster, so treat it like a password. The standard output is\n" +
				"the token alone.",
			Flags: []urfave.Flag{
				&urfave.StringFlag{Name: "role", Value: "voter", Usage: "make nodes of `ROLE`: voter, which the cluster may let vote, or edge, which never does"},
				&urfave.StringFlag{Name: "ttl", Usage: "admit nodes for `DURATION` (default 24h)"},
				&urfave.StringFlag{Name: "uses", Usage: "admit `NUMBER` nodes at most (default: any number)"},
			},
			Category: changeCategory,
			Action:   p.runTokenJoin,
		},
		{
			Name: "list", Usage: "list the join tokens, which are shown without their secrets",
			Action: p.runTokenList,
		},
		{
			Name: "revoke", Usage: "revoke a join token; nodes that it admitted stay", ArgsUsage: "ID",
			Category: changeCategory,
			Action:   p.runTokenRevoke,
		},
	}}
}

const tokensCheck = "agent token list"

func (p *program) runTokenJoin(c *urfave.Context) error {
	wish := api.TokenRequest{Role: c.String("role"), TTL: c.String("ttl")}
	if text := c.String("uses"); text != "" {
		uses, err := strconv.ParseUint(text, 10, 16)
		if err != nil || uses == 0 {
			return usageError("--uses %q: not a number of nodes", text)
		}
		wish.Uses = int(uses)
	}
	var made api.NewToken
	r := request{method: http.MethodPost, path: "/v1/tokens", check: tokensCheck, next: "agent token join --help"}
	s, err := p.change(c, r, wish, &made)
	if err != nil {
		return err
	}
	s.say("token %s admits %s, each as %s, until %s", made.ID, admits(made.Uses), made.Role, made.Expires.Format(time.RFC3339))
	s.say("on a new node: agent run --join TOKEN")
	return printOne(s.out, made, made.Secret, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, made.Secret)
		return err
	})
}

func admits(uses int) string {
	if uses == 0 {
		return "any number of nodes"
	}
	return plural(uses, "node")
}

func (p *program) runTokenList(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var list api.TokenList
	r := request{method: http.MethodGet, path: "/v1/tokens", bounded: true}
	if err := s.agent.fetch(c.Context, r, &list); err != nil {
		return err
	}
	id := func(t api.Token) string { return t.ID }
	return printList(s.out, list.Tokens, id, func(w io.Writer) error {
		if len(list.Tokens) == 0 {
			s.say("no join tokens")
			return nil
		}
		return tokenTable(list.Tokens, time.Now(), s.out.style).write(w)
	})
}

func tokenTable(tokens []api.Token, now time.Time, style style) table {
	t := table{head: []string{"ID", "ROLE", "STATE", "USED", "AGE", "EXPIRES"}}
	for _, token := range tokens {
		used := "-" // is not counted
		if token.Uses > 0 {
			used = fmt.Sprintf("%d/%d", token.Used, token.Uses)
		}
		t.rows = append(t.rows, []string{
			token.ID, token.Role, token.State, used, age(token.Created, now), token.Expires.Format(time.RFC3339),
		})
	}
	t.paint = func(cell string) string {
		switch cell {
		case "expired", "used-up":
			return style.faint(cell)
		}
		return cell
	}
	return t
}

func (p *program) runTokenRevoke(c *urfave.Context) error {
	var revoked api.Revoked
	r := request{method: http.MethodDelete, path: "/v1/tokens/" + segment(c.Args().First()), check: tokensCheck, next: tokensCheck}
	s, err := p.change(c, r, nil, &revoked)
	if err != nil {
		return err
	}
	s.say("token %s admits nobody any more", revoked.ID)
	return printOne(s.out, revoked, revoked.ID, nothing)
}
