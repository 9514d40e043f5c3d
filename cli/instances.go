package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/announcing"
	"grapevine/agent/api"
)

func (p *program) instances() *urfave.Command {
	const named = "INSTANCE is a route and an instance, as warehouse/7f3a."
	return &urfave.Command{Name: "instances", Usage: "look at the instances that services announce, and drain them", Subcommands: []*urfave.Command{
		withNode(&urfave.Command{
			Name: "list", Usage: "list the announced instances, as the agent that answers knows them",
			Description: "STATE is healthy, degraded, unhealthy, draining, or orphaned: the agent that announced it can't be reached.\n" +
				"USED says whether the gateway of the agent that answers sends it requests, or why not.",
			Flags:  []urfave.Flag{&urfave.StringFlag{Name: "route", Usage: "only those of route `ID`"}},
			Action: p.runInstancesList,
		}),
		{
			Name: "drain", Usage: "send an instance no new requests, and wait until every gateway is done with it", ArgsUsage: "INSTANCE",
			Description: named + " It holds until it is taken back with undrain, or the instance is gone.\n" +
				"--timeout bounds the wait for the gateways; what is not confirmed by then goes on.",
			Category: changeCategory,
			Action:   p.runInstancesDrain,
		},
		{
			Name: "undrain", Usage: "send a drained instance requests again", ArgsUsage: "INSTANCE",
			Description: named,
			Category:    changeCategory,
			Action:      p.runInstancesUndrain,
		},
	}}
}

func (p *program) runInstancesList(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	r := request{method: http.MethodGet, path: "/v1/instances"}
	if route := c.String("route"); route != "" {
		r.query = url.Values{"route": {route}}
	}
	var list api.InstanceList
	if err := s.agent.fetch(c.Context, r, &list); err != nil {
		return err
	}
	name := func(i api.Instance) string { return i.Route + "/" + i.Instance }
	return printList(s.out, list.Instances, name, func(w io.Writer) error {
		if len(list.Instances) == 0 {
			s.say("no instances are announced")
			return nil
		}
		return instanceTable(list.Instances, s.out.style, time.Now()).write(w)
	})
}

func instanceTable(instances []api.Instance, style style, now time.Time) table {
	t := table{head: []string{"ROUTE", "INSTANCE", "ADDRESS", "STATE", "OWNER", "SINCE", "VERSION", "USED"}}
	for _, i := range instances {
		since := "-"
		if !i.Since.IsZero() {
			since = age(i.Since, now)
		}
		used := "yes"
		if !i.Serves {
			used = "no"
		}
		if i.Why != "" {
			used += ": " + i.Why
		}
		t.rows = append(t.rows, []string{i.Route, i.Instance, cmp.Or(i.Address, "-"), i.State, i.Owner, since, cmp.Or(i.Version, "-"), used})
	}
	t.paint = func(cell string) string {
		switch cell {
		case "unhealthy", "orphaned":
			return style.bad(cell)
		case "draining", "degraded":
			return style.faint(cell)
		}
		return cell
	}
	return t
}

// instancePath is where the API drains an instance.
func instancePath(word string) (string, error) {
	route, instance, both := strings.Cut(word, "/")
	if !both || route == "" || instance == "" || strings.Contains(instance, "/") {
		return "", usageError("%q: not a route and an instance, like warehouse/7f3a; agent instances list", word)
	}
	return "/v1/instances/" + segment(route) + "/" + segment(instance) + "/drain", nil
}

func (p *program) runInstancesDrain(c *urfave.Context) error {
	path, err := instancePath(c.Args().First())
	if err != nil {
		return err
	}
	var handshake announcing.Handshake
	s, err := p.change(c, request{method: http.MethodPost, path: path, next: "agent instances list", check: "agent instances list"}, nil, &handshake)
	if err != nil {
		return err
	}
	if err := printOne(s.out, handshake, c.Args().First(), nothing); err != nil {
		return err
	}
	if handshake.Confirmed == handshake.Of {
		s.say("%s gets no requests any more: %d of %d gateways confirmed in %s", c.Args().First(), handshake.Confirmed, handshake.Of, handshake.Took)
		return nil
	}
	f := &failure{code: exitWait, outcome: written, next: "agent instances drain " + c.Args().First()}
	f.problem = fmt.Sprintf("%s is draining, and %d of %d gateways have confirmed in %s", c.Args().First(), handshake.Confirmed, handshake.Of, handshake.Took)
	for _, straggler := range handshake.Stragglers {
		f.details = append(f.details, straggler.Node+": "+straggler.Why)
	}
	return f
}

func (p *program) runInstancesUndrain(c *urfave.Context) error {
	path, err := instancePath(c.Args().First())
	if err != nil {
		return err
	}
	var undrained api.Undrained
	s, err := p.change(c, request{method: http.MethodDelete, path: path, next: "agent instances list", check: "agent instances list"}, nil, &undrained)
	if err != nil {
		return err
	}
	s.say("%s gets requests again", c.Args().First())
	return printOne(s.out, undrained, c.Args().First(), nothing)
}
