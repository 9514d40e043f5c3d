package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

// changeCategory marks the commands that change the cluster.
const changeCategory = "changes"

func (p *program) members() *urfave.Command {
	return &urfave.Command{
		Name: "members", Usage: "list the nodes of the cluster: which live, what each is, and how far it is",
		Description: "APPLIED is the revision that a node serves, and LAG how many revisions, and for how long, it is behind.\n" +
			"A node that is suspect has not answered for a moment, and counts as alive. One without UDP is reached over TCP alone.",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "detailed", Usage: "with ids, and who leads and who was asked"},
		},
		Action: p.runMembers,
	}
}

func (p *program) runMembers(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var list api.MemberList
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/members"}, &list); err != nil {
		return err
	}
	name := func(m api.Member) string { return m.Node }
	return printList(s.out, list.Members, name, func(w io.Writer) error {
		return memberTable(list.Members, c.Bool("detailed"), s.out.style).write(w)
	})
}

// What stands behind a node that lives and serves an old revision, and behind one that the node
// which was asked reaches over TCP alone.
const (
	behindMark = "<- behind"
	noUDPMark  = "<- no UDP"
)

func memberTable(members []api.Member, detailed bool, style style) table {
	t := table{head: []string{"NODE", "ADDRESS", "STATUS", "ROLE", "VERSION", "APPLIED", "LAG", "REGION"}}
	if detailed {
		t.head = append(t.head, "ID", "LEADER", "ASKED")
	}
	for _, m := range members {
		role := roleOf(m.Role, m.Demoted)
		if m.NoGateway {
			role += ", no gateway"
		}
		row := []string{
			m.Node, cmp.Or(m.Address, "-"), m.Status, role, m.Version, served(m), lag(m), cmp.Or(m.Region, "-"),
		}
		if detailed {
			row = append(row, m.ID, yes(m.Leader), yes(m.Self))
		}
		if isBehind(m) {
			row = append(row, behindMark)
		}
		if m.UDPBlocked {
			row = append(row, noUDPMark)
		}
		t.rows = append(t.rows, row)
	}
	t.paint = func(cell string) string {
		switch cell {
		case api.StatusDead, behindMark, noUDPMark:
			return style.bad(cell)
		case api.StatusSuspect, api.StatusLeft:
			return style.faint(cell)
		}
		return cell
	}
	return t
}

func isBehind(m api.Member) bool {
	return m.Lag > 0 && (m.Status == api.StatusAlive || m.Status == api.StatusSuspect)
}

// served is the revision that a node serves.
func served(m api.Member) string {
	if m.Applied == unknownRev {
		return "-"
	}
	return shortRev(m.Applied)
}

// unknownRev is that of a node that has not been heard of yet.
const unknownRev = "0.0"

// lag is how many revisions a node is behind, and for how long.
func lag(m api.Member) string {
	switch {
	case m.Applied == unknownRev:
		return "-"
	case m.Lag == 0:
		return "0"
	}
	since := time.Duration(m.LagMs) * time.Millisecond
	switch {
	case since < time.Second:
		return fmt.Sprintf("%d/%dms", m.Lag, m.LagMs)
	case since < time.Minute:
		return fmt.Sprintf("%d/%.1fs", m.Lag, since.Seconds())
	}
	return fmt.Sprintf("%d/%s", m.Lag, lasting(since))
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}

func (p *program) join() *urfave.Command {
	return &urfave.Command{
		Name: "join", Usage: "get in touch with nodes of the cluster at addresses that this node doesn't know", ArgsUsage: "ADDRESS [ADDRESS...]",
		Description: "An ADDRESS is host:port, the other node's --gossip or --advertise. For a node that lost its cluster because\n" +
			"all others moved. A node becomes a member when it starts: agent run --join.",
		Category: changeCategory,
		Action:   p.runJoin,
	}
}

func (p *program) runJoin(c *urfave.Context) error {
	var joined api.Joined
	r := request{method: http.MethodPost, path: "/v1/members/join", check: "agent members", next: "agent run --help"}
	s, err := p.change(c, r, api.Joining{Addresses: c.Args().Slice()}, &joined)
	if err != nil {
		return err
	}
	s.say("in touch: %d of %d nodes live", joined.Alive, joined.Members)
	return printOne(s.out, joined, fmt.Sprint(joined.Alive), nothing)
}

func (p *program) leave() *urfave.Command {
	return &urfave.Command{
		Name: "leave", Usage: "take this node out of the cluster, and stop its agent",
		Description: "A voter hands over its vote first. To come back the node needs a new join token. On a terminal it asks first.",
		Flags: []urfave.Flag{
			yesFlag(),
		},
		Category: changeCategory,
		Action:   p.runLeave,
	}
}

// runLeave asks a person, and no script: a script says agent leave on one node and can mean no other.
func (p *program) runLeave(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	if !c.Bool("yes") && s.canAsk() {
		if err := s.confirm(c.Context, "take this node out of its cluster and stop its agent"); err != nil {
			return err
		}
	}
	var gone api.Gone
	r := request{method: http.MethodPost, path: "/v1/leave", check: "agent members", next: "agent raft list-peers"}
	if err := s.change(c.Context, r, api.Nothing{}, &gone); err != nil {
		return err
	}
	s.say("%s has left the cluster; its agent stops", gone.Node)
	return printOne(s.out, gone, gone.Node, nothing)
}

func (p *program) forceLeave() *urfave.Command {
	return &urfave.Command{
		Name: "force-leave", Usage: "take a node out of the cluster that can't leave by itself", ArgsUsage: "NODE",
		Description: "NODE is a name or an id. A node that lives would come back and is refused, unless it is revoked: then its\n" +
			"certificate counts no more, and the others replace the gossip key, which it knows: agent keyring list.",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "revoke", Usage: "refuse the node's certificate from now on"},
			yesFlag(),
		},
		Category: changeCategory,
		Action:   p.runForceLeave,
	}
}

func (p *program) runForceLeave(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	node := c.Args().First()
	r := request{method: http.MethodDelete, path: "/v1/members/" + segment(node), check: "agent members", next: "agent members"}
	question := "take " + node + " out of the cluster"
	if c.Bool("revoke") {
		r.query = map[string][]string{"revoke": {"1"}}
		question += " and refuse its certificate"
	}
	if !c.Bool("yes") {
		if err := s.confirm(c.Context, question); err != nil {
			return err
		}
	}
	var gone api.Gone
	if err := s.change(c.Context, r, nil, &gone); err != nil {
		return err
	}
	also := ""
	if gone.Revoked {
		also = ", its certificate is refused, and the gossip key is being replaced"
	}
	s.say("%s is out of the cluster%s", gone.Node, also)
	return printOne(s.out, gone, gone.Node, nothing)
}

func yesFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "don't ask"}
}

// nothing prints nothing: what a person has to know was said beside the data.
func nothing(io.Writer) error { return nil }
