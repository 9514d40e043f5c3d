package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) configGet() *urfave.Command {
	return &urfave.Command{
		Name: "get", Usage: "print one value", ArgsUsage: "KEY",
		Description: "JSON is indented; any other value is printed as it is stored, to the byte.",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "at", Usage: "as it was at revision `REV`"},
			consistencyFlag(),
			&urfave.BoolFlag{Name: "detail", Usage: "with its revisions, its author, when and why"},
		},
		Action: p.runConfigGet,
	}
}

func (p *program) runConfigGet(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	key := c.Args().First()
	if err := checkKey(key); err != nil {
		return err
	}
	r := request{
		method: http.MethodGet, path: "/v1/kv/" + key, query: url.Values{"detail": {"1"}}, key: key,
		next: "agent config list",
	}
	if err := r.freshen(c); err != nil {
		return err
	}
	if at := c.String("at"); at != "" {
		r.query.Set("at", at)
	}
	var e api.Envelope
	if err := s.agent.fetch(c.Context, r, &e); err != nil {
		return err
	}
	if c.Bool("detail") {
		return printOne(s.out, e, e.Key, func(w io.Writer) error { return writeDetail(w, e) })
	}
	return printOne(s.out, e.Value, e.Key, func(w io.Writer) error { return writeValue(w, e) })
}

// writeValue indents JSON; other values are not touched.
func writeValue(w io.Writer, e api.Envelope) error {
	value, err := bare(e.Value, e.Encoding)
	if err != nil {
		return err
	}
	if e.Encoding == "" {
		value, err = encode(json.RawMessage(value), "  ")
	}
	if err != nil {
		return err
	}
	_, err = w.Write(value)
	return err
}

func writeDetail(w io.Writer, e api.Envelope) error {
	facts := table{rows: [][]string{
		{"key", e.Key},
		{"class", e.Class},
		{"revision", shortRev(e.ModRev)},
		{"created", "at revision " + shortRev(e.CreateRev)},
		{"version", fmt.Sprint(e.Version)},
		{"by", e.By},
		{"at", clock(e.At)},
	}}
	if o := e.Owner; o != nil {
		facts.rows = append(facts.rows, []string{"owner", fmt.Sprintf("node %s, incarnation %d, change %d%s%s",
			o.Node, o.Incarnation, o.Seq, when(o.Draining, ", draining"), when(o.Orphaned, ", not reachable from here"))})
	}
	if e.Reason != "" {
		facts.rows = append(facts.rows, []string{"message", e.Reason})
	}
	if err := facts.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return writeValue(w, e)
}
