package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) recover() *urfave.Command {
	return &urfave.Command{
		Name: "recover", Usage: "make the node that is asked the only voter, when a majority of the voters is lost for good",
		Description: "Shows how far the nodes are that live, and asks. What nobody of them has is lost. The other voters, should they come\n" +
			"back, give up what they have and follow. Refused while the cluster has a leader, or while a node that lives and may\n" +
			"vote is further than this one.",
		Category: changeCategory,
		Flags:    []urfave.Flag{yesFlag()},
		Action:   p.runRecover,
	}
}

func (p *program) runRecover(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var plan api.Recovery
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/raft/recovery", bounded: true}, &plan); err != nil {
		return err
	}
	if err := recoveryTable(plan).write(s.stderr); err != nil {
		return err
	}
	if !c.Bool("yes") {
		if err := s.confirm(c.Context, recoveryQuestion(plan)); err != nil {
			return err
		}
	}
	r := request{method: http.MethodPost, path: "/v1/raft/recovery", check: peersCheck, next: peersCheck}
	if err := s.change(c.Context, r, api.Nothing{}, &plan); err != nil {
		return err
	}
	s.say("%s leads, in epoch %d, from revision %s on", plan.Node, plan.Epoch, plan.Rev)
	return printOne(s.out, plan, plan.Node, nothing)
}

func recoveryTable(plan api.Recovery) table {
	t := table{head: []string{"NODE", "REVISION", "MAY VOTE", "PROBLEM"}}
	t.rows = append(t.rows, []string{plan.Node + " (asked)", "-", yes(true), "-"})
	for _, n := range plan.Nodes {
		t.rows = append(t.rows, []string{n.Node, cmp.Or(n.Rev, "-"), yes(n.MayVote), cmp.Or(n.Problem, "-")})
	}
	for _, voter := range plan.Unreachable {
		t.rows = append(t.rows, []string{voter, "-", yes(true), "is not reached: what only it has is lost"})
	}
	return t
}

func recoveryQuestion(plan api.Recovery) string {
	question := fmt.Sprintf("make %s the only voter, and begin epoch %d with revision %s", plan.Node, plan.Epoch, plan.Rev)
	if plan.From != "" {
		question += " of " + plan.From
	}
	if len(plan.Unreachable) > 0 {
		question += ", without " + strings.Join(plan.Unreachable, ", ")
	}
	return question
}
