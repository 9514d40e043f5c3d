package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/gateway"
)

func (p *program) routesList() *urfave.Command {
	return &urfave.Command{
		Name: "list", Usage: "list the live table: where each route comes from, and what is wrong with it",
		Description: "A route in state INVALID has a fault, which stands behind it. Its last good version is served, or 503.",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "all", Usage: "with the routes that another layer hides"},
		},
		Action: p.runRoutesList,
	}
}

func (p *program) runRoutesList(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var list api.RouteList
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/routes"}, &list); err != nil {
		return err
	}
	routes := list.Routes
	if !c.Bool("all") {
		routes = slices.DeleteFunc(routes, func(r gateway.RouteStatus) bool { return r.Hidden })
	}
	name := func(r gateway.RouteStatus) string { return r.ID }
	return printList(s.out, routes, name, func(w io.Writer) error {
		if len(routes) == 0 {
			s.say("no routes at revision %s", shortRev(list.Rev))
			return nil
		}
		return routeTable(routes, s.out.style).write(w)
	})
}

func routeTable(routes []gateway.RouteStatus, style style) table {
	t := table{head: []string{"ID", "ORDER", "HOST", "PATH", "TARGET", "SOURCE", "REV", "STATE"}}
	for _, r := range routes {
		t.rows = append(t.rows, []string{
			r.ID, fmt.Sprint(r.Order), cmp.Or(strings.Join(r.Hosts, ","), "-"), cmp.Or(r.Path, "-"), cmp.Or(r.Target, "-"),
			r.Source, cmp.Or(shortRev(r.Rev), "-"), routeState(r),
		})
	}
	t.paint = func(cell string) string {
		switch {
		case strings.HasPrefix(cell, invalidState), strings.HasSuffix(cell, ", under maintenance"):
			return style.bad(cell)
		case strings.HasPrefix(cell, "shadowed"):
			return style.faint(cell)
		}
		return cell
	}
	return t
}

const invalidState = "INVALID"

// routeState is the last column, so that a reason may be as long as it is.
func routeState(r gateway.RouteStatus) string {
	state := r.State
	if state == "invalid" {
		state = invalidState
	}
	if r.Problem != "" {
		state += ": " + r.Problem
	}
	if r.Maintenance {
		state += ", under maintenance"
	}
	switch {
	case r.State != "invalid":
	case r.ServingRev != "":
		state += " (revision " + shortRev(r.ServingRev) + " is served)"
	default:
		state += " (answers 503)"
	}
	return state
}
