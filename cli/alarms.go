package cli

import (
	"fmt"
	"io"
	"net/http"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) alarms() *urfave.Command {
	return &urfave.Command{Name: "alarms", Usage: "look at and settle contradictions between the histories of nodes", Subcommands: []*urfave.Command{
		withNode(&urfave.Command{
			Name: "list", Usage: "list the nodes whose history contradicts that of the node that is asked",
			Description: "Of the leader's alarms those that stop writes are marked: nothing is written until they are settled.",
			Action:      p.runAlarmsList,
		}),
		withNode(&urfave.Command{
			Name: "show", Usage: "show what another node holds that differs, and what can be done about it", ArgsUsage: "NODE",
			Action: p.runAlarmsShow,
		}),
		{
			Name: "settle", Usage: "end a contradiction: the node takes what the cluster has", ArgsUsage: "NODE",
			Description: "--keep cluster: NODE gives up what it holds, which stays beside its store as lkg-EPOCH-REV.snap, and takes the\n" +
				"cluster's state. --keep node: before that, what differs is written to the cluster as NODE has it, as one new\n" +
				"revision; NODE has to be a voter or learner. A node that has a part in raft loses it, stops, and takes the\n" +
				"cluster's state when its agent is started again.",
			Flags: []urfave.Flag{
				&urfave.StringFlag{Name: "keep", Usage: "what stays, `CONTENT`: cluster or node"},
				yesFlag(),
			},
			Category: changeCategory,
			Action:   p.runAlarmsSettle,
		},
	}}
}

const alarmsCheck = "agent alarms list"

func (p *program) runAlarmsList(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var list api.AlarmList
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/alarms"}, &list); err != nil {
		return err
	}
	name := func(a api.Alarm) string { return a.Node }
	return printList(s.out, list.Alarms, name, func(w io.Writer) error {
		if len(list.Alarms) == 0 {
			s.say("no contradictions")
			return nil
		}
		return alarmTable(list.Alarms, s.out.style).write(w)
	})
}

const stopsMark = "<- stops writes"

func alarmTable(alarms []api.Alarm, style style) table {
	t := table{head: []string{"NODE", "ROLE", "ALARM", "THEIRS", "OURS", "TIMES", "SINCE"}}
	for _, a := range alarms {
		row := []string{a.Node, a.Role, a.Kind, a.Theirs + " " + a.TheirHash, a.Ours + " " + a.OurHash, fmt.Sprint(a.Count), a.First.Format(time.RFC3339)}
		if a.StopsWrites {
			row = append(row, stopsMark)
		}
		t.rows = append(t.rows, row)
	}
	t.paint = func(cell string) string {
		if cell == stopsMark {
			return style.bad(cell)
		}
		return cell
	}
	return t
}

func (p *program) runAlarmsShow(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var d api.Difference
	r := request{method: http.MethodGet, path: "/v1/alarms/" + segment(c.Args().First()), bounded: true, next: alarmsCheck}
	if err := s.agent.fetch(c.Context, r, &d); err != nil {
		return err
	}
	s.say("%s is at revision %s, and the node that was asked at %s; that differ: %s", d.Node, d.Theirs, d.Ours, plural(len(d.Keys), "key"))
	if len(d.Keys) == 0 && d.Ours == d.Theirs {
		return printList(s.out, d.Keys, func(api.KeyDifference) string { return "" }, nothing)
	}
	s.say("agent alarms settle %s --keep cluster: %s takes what the cluster has, and what it holds stays beside its store", d.Node, d.Node)
	if d.Voter {
		s.say("agent alarms settle %s --keep node: the keys below are written to the cluster as %s has them, then it takes the cluster's state", d.Node, d.Node)
	}
	key := func(k api.KeyDifference) string { return k.Key }
	return printList(s.out, d.Keys, key, func(w io.Writer) error {
		t := table{head: []string{"KEY", "IS"}}
		for _, k := range d.Keys {
			t.rows = append(t.rows, []string{k.Key, k.Is})
		}
		if len(t.rows) == 0 {
			return nil
		}
		return t.write(w)
	})
}

func (p *program) runAlarmsSettle(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	node, keep := c.Args().First(), api.Keep(c.String("keep"))
	question := ""
	switch keep {
	case api.KeepCluster:
		question = node + " gives up what it holds and takes what the cluster has"
	case api.KeepNode:
		question = "what " + node + " holds is written to the cluster, in place of what differs there"
	default:
		return usageError("--keep %q: neither cluster nor node; agent alarms show %s tells what each does", string(keep), node)
	}
	if !c.Bool("yes") {
		if err := s.confirm(c.Context, question); err != nil {
			return err
		}
	}
	var settled api.Settled
	r := request{method: http.MethodPost, path: "/v1/alarms/" + segment(node), check: alarmsCheck, next: alarmsCheck}
	if err := s.change(c.Context, r, api.Settling{Keep: keep}, &settled); err != nil {
		return err
	}
	if settled.Rev != "" {
		s.say("what %s held is written as revision %s: %s", settled.Node, shortRev(settled.Rev), plural(settled.Keys, "key"))
	}
	if settled.Restart {
		s.say("%s stops: start its agent again, and it takes the cluster's state", settled.Node)
	} else {
		s.say("%s has taken the cluster's state", settled.Node)
	}
	return printOne(s.out, settled, settled.Node, nothing)
}
