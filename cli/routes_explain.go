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

	"grapevine/gateway"
)

func (p *program) routesExplain() *urfave.Command {
	return &urfave.Command{
		Name: "explain", Usage: "say why a request goes where it goes", ArgsUsage: "[METHOD] URL",
		Description: "Nothing is sent to a backend. URL is absolute, or a path for any host, and METHOD is GET unless it is given.\n" +
			"Prints what happens, the routes in the order in which they are tried, and what a backend would receive.\n" +
			"Exits with 4 if no route takes the request.",
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: "header", Aliases: []string{"H"}, Usage: "a header `LINE` of the request, as 'Name: value'; may be repeated"},
			&urfave.StringFlag{Name: "client", Usage: "the IP `ADDRESS` of the client; without it no condition on clients holds"},
		},
		Action: p.runRoutesExplain,
	}
}

func (p *program) runRoutesExplain(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var e gateway.Explanation
	if err := s.agent.fetch(c.Context, explainRequest(c), &e); err != nil {
		return err
	}
	if s.out.format != formatName || e.Route != "" {
		err = printOne(s.out, e, e.Route, func(w io.Writer) error { return writeExplanation(w, e, s.out.style) })
	}
	if err == nil && e.Route == "" {
		err = &failure{code: exitNotFound, problem: fmt.Sprintf("%s %s: no route takes it", e.Method, e.Host+e.Path)}
	}
	return err
}

func explainRequest(c *urfave.Context) request {
	words := c.Args().Slice()
	query := url.Values{"url": words[len(words)-1:]}
	if len(words) == 2 {
		query.Set("method", words[0])
	}
	if lines := c.StringSlice("header"); len(lines) > 0 {
		query["header"] = lines
	}
	if c.IsSet("client") {
		query.Set("client", c.String("client"))
	}
	return request{method: http.MethodGet, path: "/v1/routes/explain", query: query, next: "agent routes explain --help"}
}

// writeExplanation says what happens, who was asked, and what is sent on.
func writeExplanation(w io.Writer, e gateway.Explanation, style style) error {
	var b strings.Builder
	writeVerdict(&b, e)
	writeState(&b, e)
	if len(e.Candidates) > 0 {
		b.WriteByte('\n')
		_ = candidateTable(e.Candidates, style).write(&b) // a strings.Builder takes everything
	}
	if e.Forward != nil {
		b.WriteByte('\n')
		writeForward(&b, *e.Forward)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeVerdict(b *strings.Builder, e gateway.Explanation) {
	host := "any host"
	if e.Host != "" {
		host = "host " + e.Host
	}
	fmt.Fprintf(b, "%s %s, %s: %s\n", printable(e.Method), printable(e.Path), printable(host), verdict(e))
	fmt.Fprintln(b, printable(e.Detail))
	if e.Match != "" && e.Match != e.Path {
		fmt.Fprintf(b, "matched as %s\n", printable(e.Match))
	}
}

func verdict(e gateway.Explanation) string {
	answer := strings.TrimSpace(fmt.Sprint(e.Status, " ", e.Code))
	switch {
	case e.Route == "":
		return answer
	case e.Status != 0:
		return "taken by route " + e.Route + ", which answers " + answer
	}
	return "taken by route " + e.Route
}

func candidateTable(candidates []gateway.Candidate, style style) table {
	t := table{head: []string{"#", "ID", "ORDER", "HOST", "PATH", "SOURCE", "STATE", "WHY"}}
	for i, c := range candidates {
		t.rows = append(t.rows, []string{
			fmt.Sprint(i + 1), c.ID, fmt.Sprint(c.Order), cmp.Or(c.Host, "-"), c.Path, c.Source, c.State, c.Why,
		})
	}
	t.paint = func(cell string) string {
		switch cell {
		case "taken":
			return style.good(cell)
		case "failed":
			return style.bad(cell)
		case "later":
			return style.faint(cell)
		}
		return cell
	}
	return t
}

func writeForward(b *strings.Builder, f gateway.Forward) {
	rows := [][]string{
		{"forwarded", f.Method + " " + f.Target},
		{"host", cmp.Or(f.Host, "-")},
	}
	for i, field := range f.Fields {
		title := ""
		if i == 0 {
			title = "fields"
		}
		rows = append(rows, []string{title, field})
	}
	cluster := f.Cluster + ", " + f.Balancing
	if f.Panic {
		cluster += ", in panic: all are asked"
	}
	rows = append(rows, []string{"cluster", cluster})
	if f.Breaker != nil {
		rows = append(rows, []string{"breaker", breakerLine(*f.Breaker)})
	}
	_ = table{rows: rows}.write(b)
	if len(f.Destinations) == 0 {
		return
	}
	b.WriteByte('\n')
	t := table{head: []string{"DESTINATION", "WEIGHT", "IN FLIGHT", "HEALTH", "USE"}}
	for _, d := range f.Destinations {
		use := d.Use
		if d.Address == f.Chosen {
			use = "next"
		}
		t.rows = append(t.rows, []string{d.Address, fmt.Sprint(d.Weight), fmt.Sprint(d.InFlight), healthOf(d), use})
	}
	_ = t.write(b)
}

func breakerLine(k gateway.ForwardBreaker) string {
	line := fmt.Sprintf("%s, %d of %s failed", k.State, k.Failures, plural(k.Successes+k.Failures, "call"))
	if k.OpenForMs > 0 {
		line += ", open for " + span(k.OpenForMs)
	}
	return line
}

// healthOf is what is known of a destination, and what the configuration says unless that is the usual.
func healthOf(d gateway.ForwardDestination) string {
	text := d.Health
	if d.Status != "" && d.Status != "healthy" {
		text += ", " + d.Status
	}
	if d.Region != "" {
		text += ", in " + d.Region
	}
	if d.Why != "" {
		text += ": " + d.Why
	}
	return text
}

// writeState says what the state of the node makes of the request: maintenance, and a split.
func writeState(b *strings.Builder, e gateway.Explanation) {
	for _, row := range maintenanceRows(e.Maintenance, time.Now()) {
		fmt.Fprintf(b, "%s of %s\n", row[0], printable(row[1]))
	}
	if len(e.Split) == 0 {
		return
	}
	b.WriteByte('\n')
	t := table{head: []string{"SPLIT", "WEIGHT", "CHOICE"}}
	for _, part := range e.Split {
		var notes []string
		if part.Chosen {
			notes = append(notes, "chosen")
		}
		if part.Conditional {
			notes = append(notes, "by header or cookie")
		}
		if part.Maintenance {
			notes = append(notes, "under maintenance")
		}
		t.rows = append(t.rows, []string{part.Cluster, fmt.Sprint(part.Weight), cmp.Or(strings.Join(notes, ", "), "-")})
	}
	_ = t.write(b)
}
