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

func (p *program) reachability() *urfave.Command {
	return &urfave.Command{
		Name: "reachability", Usage: "let each node probe each other, and show who reaches whom",
		Description: "A line is the node that probes, a column the one that is probed. A cell says ok, or which of udp (gossip),\n" +
			"tcp (pushes, pulls and calls) and raft (the order of writes, among voters) got no answer. Exits with 1 if any did.",
		Action: p.runReachability,
	}
}

func (p *program) runReachability(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var found api.Reachability
	r := request{method: http.MethodGet, path: "/v1/reachability", bounded: true}
	if err := s.agent.fetch(c.Context, r, &found); err != nil {
		return err
	}
	name := func(r api.Reach) string { return r.From + " " + r.To }
	err = printList(s.out, found.Pairs, name, func(w io.Writer) error {
		if len(found.Pairs) == 0 {
			s.say("there is no other node")
			return nil
		}
		return writeReachability(w, found.Pairs, s.out.style)
	})
	broken := len(slices.DeleteFunc(slices.Clone(found.Pairs), func(r api.Reach) bool { return reachWord(r) == reachOK }))
	if err == nil && broken > 0 {
		err = &failure{code: exitFailure, problem: fmt.Sprintf("%d of %s broken", broken, plural(len(found.Pairs), "way"))}
	}
	return err
}

const (
	reachOK      = "ok"
	reachUnknown = "?"
)

// reachWord is a cell of the matrix.
func reachWord(r api.Reach) string {
	if r.Problem != "" {
		return reachUnknown
	}
	var broken []string
	for _, probe := range probes(r) {
		if !probe.OK {
			broken = append(broken, probe.name)
		}
	}
	if broken == nil {
		return reachOK
	}
	return "no " + strings.Join(broken, ",")
}

// namedProbe is a probe that was tried, and how.
type namedProbe struct {
	name string
	api.Probe
}

func probes(r api.Reach) []namedProbe {
	var tried []namedProbe
	for _, p := range []struct {
		name  string
		probe *api.Probe
	}{{"udp", r.UDP}, {"tcp", r.TCP}, {"raft", r.Raft}} {
		if p.probe != nil {
			tried = append(tried, namedProbe{p.name, *p.probe})
		}
	}
	return tried
}

// writeReachability writes the matrix, and below it why what is broken is so.
func writeReachability(w io.Writer, pairs []api.Reach, style style) error {
	if err := reachTable(pairs, style).write(w); err != nil {
		return err
	}
	reasons := reachReasons(pairs)
	if len(reasons) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(reasons, "\n"))
	return err
}

func reachTable(pairs []api.Reach, style style) table {
	var names []string
	cells := map[[2]string]string{}
	for _, r := range pairs {
		names = append(names, r.From, r.To)
		cells[[2]string{r.From, r.To}] = reachWord(r)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	t := table{head: append([]string{"FROM"}, names...)}
	for _, from := range names {
		row := []string{from}
		for _, to := range names {
			cell, tried := cells[[2]string{from, to}]
			if !tried {
				cell = "-"
			}
			row = append(row, cell)
		}
		t.rows = append(t.rows, row)
	}
	t.paint = func(cell string) string {
		switch {
		case cell == reachOK:
			return style.good(cell)
		case strings.HasPrefix(cell, "no "), cell == reachUnknown:
			return style.bad(cell)
		}
		return cell
	}
	return t
}

// reachReasons are a line for each probe that got no answer, and one for each node that could not be asked.
func reachReasons(pairs []api.Reach) []string {
	var reasons []string
	for _, r := range pairs {
		if r.Problem != "" {
			reasons = append(reasons, printable(r.Problem))
			continue
		}
		for _, probe := range probes(r) {
			if !probe.OK {
				reasons = append(reasons, printable(fmt.Sprintf("%s -> %s: %s: %s", r.From, r.To, probe.name, probe.Problem)))
			}
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}
