package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/gateway"
	"grapevine/gateway/spec"
)

func (p *program) maintenance() *urfave.Command {
	return &urfave.Command{Name: "maintenance", Usage: "turn requests away while work is done", Subcommands: []*urfave.Command{
		p.maintenanceOn(), p.maintenanceOff(),
		{
			Name: "status", Usage: "list what is under maintenance: since when, by whom, until when, and what it did", ArgsUsage: "[CLUSTER]",
			Description: "As the agent that answers sees it. SCOPE is all for every node, or node for that one alone.",
			Action:      p.runMaintenanceStatus,
		},
	}}
}

func (p *program) maintenanceOn() *urfave.Command {
	return &urfave.Command{
		Name: "on", Usage: "put a cluster, or the whole gateway, under maintenance", ArgsUsage: "[CLUSTER]",
		Description: "New requests get 503 with Retry-After; health checks are answered as before. What is under way may go on for the\n" +
			"grace, and is ended then: WebSockets with 1001. A cluster is named as in gateway/clusters/, or as the route whose\n" +
			"backends it has. Without CLUSTER it is the whole gateway, after a question.\n" +
			"It ends with agent maintenance off, or by itself at --until or after --for, on each node by its own clock.\n" +
			"Returns when every live node is in it, unless --wait says otherwise.",
		Flags: append(maintenanceFlags(),
			&urfave.StringFlag{Name: "reason", Usage: "tell clients, and the history, the `TEXT`"},
			&urfave.StringFlag{Name: "for", Usage: "end by itself after `DURATION`"},
			&urfave.StringFlag{Name: "until", Usage: "end by itself at `TIME`, as 2026-12-01T10:00:00Z"},
			&urfave.StringFlag{Name: "retry-after", Usage: "tell clients to come back after `DURATION` (default 30s)"},
			&urfave.StringFlag{Name: "grace", Usage: "let what is under way go on for `DURATION` (default 30s)"},
			&urfave.StringSliceFlag{Name: "allow", Usage: "let clients of `CIDR` through; may be repeated"},
			&urfave.StringFlag{Name: "body", Usage: "answer with `TEXT`, HTML or JSON in place of the usual document; @FILE reads it"},
			yesFlag(),
		),
		Action: p.runMaintenanceOn,
	}
}

func (p *program) maintenanceOff() *urfave.Command {
	return &urfave.Command{
		Name: "off", Usage: "end a maintenance", ArgsUsage: "[CLUSTER]",
		Description: "Without CLUSTER it is the one of the whole gateway; those of clusters stay.",
		Flags:       maintenanceFlags(),
		Action:      p.runMaintenanceOff,
	}
}

func maintenanceFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.BoolFlag{Name: "dry-run", Usage: "check everything, and write nothing"},
		&urfave.StringFlag{
			Name: "wait", Value: "all",
			Usage: "return when `WHERE` serves the change: none, local (this node), 50% or all of the live nodes",
		},
		&urfave.BoolFlag{Name: "local", Usage: "on the node that answers alone, for when the cluster can't write; it stays over a restart"},
	}
}

// maintenanceRequest makes the request of a command that changes a maintenance.
func maintenanceRequest(c *urfave.Context, method string) (r request, share api.Share, err error) {
	r = request{method: method, path: "/v1/maintenance", query: url.Values{}, header: http.Header{}, next: "agent maintenance status", bounded: true}
	if cluster := c.Args().First(); cluster != "" {
		r.path += "/" + segment(cluster)
	}
	if share, err = api.ParseShare(c.String("wait")); err != nil {
		return r, share, usageError("--wait %v", err)
	}
	if c.Bool("local") {
		if c.Bool("dry-run") || c.IsSet("wait") {
			return r, share, usageError("maintenance %s: --local changes one node at once: it can't go with --dry-run or --wait", c.Command.Name)
		}
		r.query.Set("local", "1")
		return r, share, nil
	}
	r.query.Set("wait", share.String())
	r.waits = share != api.Nobody
	if c.Bool("dry-run") {
		r.query.Set("dryRun", "1")
	}
	return r, share, nil
}

func (p *program) runMaintenanceOn(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	r, share, err := maintenanceRequest(c, http.MethodPut)
	if err != nil {
		return err
	}
	if r.body, err = maintenanceBody(c); err != nil {
		return err
	}
	r.header.Set("Content-Type", "application/json")
	if span := c.String("for"); span != "" {
		r.query.Set("for", span)
	}
	if reason := c.String("reason"); reason != "" && !c.Bool("local") {
		r.query.Set("message", reason)
	}
	if c.Args().First() == "" && !c.Bool("yes") && !c.Bool("dry-run") {
		if err := s.confirm(c.Context, "turn away all requests of "+whose(s, c)); err != nil {
			return err
		}
	}
	return s.changeMaintenance(c, r, share)
}

func whose(s *session, c *urfave.Context) string {
	if c.Bool("local") {
		return s.place()
	}
	return "every node"
}

// maintenanceBody makes the value of the flags, and checks it before anything is sent.
func maintenanceBody(c *urfave.Context) ([]byte, error) {
	fields := map[string]any{"enabled": true}
	for flag, field := range map[string]string{"reason": "reason", "until": "until", "grace": "grace", "retry-after": "retryAfter"} {
		if text := c.String(flag); text != "" {
			fields[field] = text
		}
	}
	if allow := c.StringSlice("allow"); len(allow) > 0 {
		fields["allow"] = allow
	}
	body, err := pageOf(c.String("body"))
	if err != nil {
		return nil, err
	}
	if body != "" {
		fields["body"] = body
	}
	value, err := encode(fields, "")
	if err != nil {
		return nil, err
	}
	key := "gateway/maintenance"
	if cluster := c.Args().First(); cluster != "" {
		key += "/" + cluster
	}
	if _, err := spec.Decode(key, value, spec.FormJSON); err != nil {
		return nil, faulty(key, err)
	}
	return value, nil
}

// pageOf is the text itself, or what is in the file that it names.
func pageOf(text string) (string, error) {
	name, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return text, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return "", unreadable(name, err)
	}
	defer file.Close()
	page, err := readDocument(name, file)
	return string(page.data), err
}

func (p *program) runMaintenanceOff(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	r, share, err := maintenanceRequest(c, http.MethodDelete)
	if err != nil {
		return err
	}
	return s.changeMaintenance(c, r, share)
}

func (s *session) changeMaintenance(c *urfave.Context, r request, share api.Share) error {
	var done api.MaintenanceChange
	if err := s.agent.fetch(c.Context, r, &done); err != nil {
		return err
	}
	s.sayFaults("notice", done.Notices)
	what, state := "the whole gateway", "ended"
	if done.Cluster != "" {
		what = "cluster " + done.Cluster
	}
	if done.On {
		state = "on: " + compact(done.Value)
	}
	s.say("maintenance of %s %s", what, state)
	if err := printOne(s.out, done, cmp.Or(done.Cluster, "-"), func(io.Writer) error { return nil }); err != nil {
		return err
	}
	switch {
	case done.DryRun:
		s.say("this was a dry run: nothing was written")
		return nil
	case done.Scope == gateway.ScopeNode:
		s.say("on %s alone; the others are as they were", s.place())
		return nil
	}
	return s.receipt(done.Rev, done.Applied, share)
}

func (p *program) runMaintenanceStatus(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var list api.MaintenanceList
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/maintenance"}, &list); err != nil {
		return err
	}
	rows := list.Maintenance
	if cluster := strings.ToLower(c.Args().First()); cluster != "" {
		rows = nil
		for _, m := range list.Maintenance {
			if m.Cluster == cluster || m.Cluster == "" { // which keeps clients from it as well
				rows = append(rows, m)
			}
		}
	}
	name := func(m gateway.MaintenanceStatus) string { return cmp.Or(m.Cluster, "-") }
	return printList(s.out, rows, name, func(w io.Writer) error {
		if len(rows) == 0 {
			s.say("nothing is under maintenance at revision %s", shortRev(list.Rev))
			return nil
		}
		return maintenanceTable(rows, time.Now(), s.out.style).write(w)
	})
}

func maintenanceTable(rows []gateway.MaintenanceStatus, now time.Time, style style) table {
	t := table{head: []string{"CLUSTER", "SCOPE", "STATE", "SINCE", "BY", "UNTIL", "TURNED AWAY", "ENDED", "REASON"}}
	for _, m := range rows {
		t.rows = append(t.rows, []string{
			cmp.Or(m.Cluster, "(all)"), m.Scope, m.State, age(m.Since, now) + " ago", cmp.Or(m.By, "-"), untilOf(m, now),
			fmt.Sprint(m.TurnedAway), fmt.Sprint(m.Ended), cmp.Or(m.Reason, "-"),
		})
	}
	t.paint = func(cell string) string {
		switch cell {
		case gateway.MaintenanceOn:
			return style.bad(cell)
		case gateway.MaintenanceEnded:
			return style.faint(cell)
		}
		return cell
	}
	return t
}

// untilOf says when a maintenance ends, and how long that is.
func untilOf(m gateway.MaintenanceStatus, now time.Time) string {
	if m.Until == nil {
		return "switched off"
	}
	at := m.Until.Format(time.RFC3339)
	if !now.Before(*m.Until) {
		return at
	}
	return at + ", in " + lasting(m.Until.Sub(now))
}

// maintenanceRows are those of the status: a maintenance that somebody has forgotten must be seen there.
func maintenanceRows(all []gateway.MaintenanceStatus, now time.Time) (rows [][]string) {
	for _, m := range all {
		text := cmp.Or(m.Cluster, "the whole gateway")
		if m.Scope == gateway.ScopeNode {
			text += ", on this node alone"
		}
		if m.State == gateway.MaintenanceEnded {
			text += ": ended"
		} else {
			text += ": on"
		}
		text += ", for " + age(m.Since, now) + " by " + cmp.Or(m.By, "somebody unknown") + ", until " + untilOf(m, now)
		if m.Reason != "" {
			text += ": " + m.Reason
		}
		rows = append(rows, []string{"maintenance", text})
	}
	return rows
}
