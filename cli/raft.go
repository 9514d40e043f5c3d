package cli

import (
	"cmp"
	"io"
	"net/http"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) raft() *urfave.Command {
	return &urfave.Command{Name: "raft", Usage: "look at and change who orders writes", Subcommands: []*urfave.Command{
		{
			Name: "list-peers", Usage: "list the voters and learners, and who leads",
			Action: p.runListPeers,
		},
		{
			Name: "transfer-leadership", Usage: "let another voter lead", ArgsUsage: "[NODE]",
			Description: "Without NODE, a name or an id, it is the voter that is furthest.",
			Category:    changeCategory,
			Action:      p.runTransferLeadership,
		},
		{
			Name: "promote", Usage: "make a node a voter", ArgsUsage: "NODE",
			Description: "It has to be one that may vote: its join token had the role voter.",
			Category:    changeCategory,
			Action:      func(c *urfave.Context) error { return p.runChangeRole(c, "/v1/raft/promote") },
		},
		{
			Name: "demote", Usage: "make a voter a learner, which gets what voters get and does not vote", ArgsUsage: "NODE",
			Description: "It gets no vote again until it is promoted, or leaves. The others are as many voters as they would be\n" +
				"without it: of three nodes that is one voter.",
			Category: changeCategory,
			Action:   func(c *urfave.Context) error { return p.runChangeRole(c, "/v1/raft/demote") },
		},
		p.recover(),
	}}
}

func (p *program) runListPeers(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var list api.PeerList
	r := request{method: http.MethodGet, path: "/v1/raft/peers", bounded: true}
	if err := s.agent.fetch(c.Context, r, &list); err != nil {
		return err
	}
	name := func(p api.Peer) string { return p.Node }
	return printList(s.out, list.Peers, name, func(w io.Writer) error { return peerTable(list.Peers).write(w) })
}

func peerTable(peers []api.Peer) table {
	t := table{head: []string{"NODE", "ID", "ADDRESS", "ROLE", "LEADER"}}
	for _, p := range peers {
		t.rows = append(t.rows, []string{p.Node, p.ID, cmp.Or(p.Address, "-"), roleOf(p.Role, p.Demoted), yes(p.Leader)})
	}
	return t
}

// roleOf is a node's role, and whether an operator wants it to have no vote.
func roleOf(role string, demoted bool) string {
	if demoted {
		return role + " (demoted)"
	}
	return role
}

// peersCheck shows what a change of the voters came to.
const peersCheck = "agent raft list-peers"

func (p *program) runTransferLeadership(c *urfave.Context) error {
	var l api.Leadership
	r := request{method: http.MethodPost, path: "/v1/raft/transfer-leadership", check: peersCheck, next: peersCheck}
	s, err := p.change(c, r, api.Transfer{Node: c.Args().First()}, &l)
	if err != nil {
		return err
	}
	s.say("%s leads", l.Leader)
	return printOne(s.out, l, l.Leader, nothing)
}

func (p *program) runChangeRole(c *urfave.Context, path string) error {
	var change api.RoleChange
	r := request{method: http.MethodPost, path: path, check: peersCheck, next: peersCheck}
	s, err := p.change(c, r, api.Voter{Node: c.Args().First()}, &change)
	if err != nil {
		return err
	}
	s.say("%s is a %s now", change.Node, change.Role)
	return printOne(s.out, change, change.Node, nothing)
}
