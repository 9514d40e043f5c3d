package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) configList() *urfave.Command {
	return &urfave.Command{
		Name: "list", Usage: "list keys with their revision, age and author", ArgsUsage: "[PREFIX]",
		Description: "A prefix names the key itself and every key below it.",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "long", Usage: "when, how often and why each was written, too"},
			consistencyFlag(),
			&urfave.BoolFlag{Name: "values", Usage: "the values, each on one line, too"},
		},
		Action: p.runConfigList,
	}
}

func (p *program) runConfigList(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	prefix := c.Args().First()
	if prefix != "" {
		if err := checkPrefix(prefix); err != nil {
			return err
		}
	}
	r := list(prefix, false)
	if err := r.freshen(c); err != nil {
		return err
	}
	var listing api.Listing
	if err := s.agent.fetch(c.Context, r, &listing); err != nil {
		return err
	}
	name := func(e api.Envelope) string { return e.Key }
	return printList(s.out, listing.Entries, name, func(w io.Writer) error {
		if len(listing.Entries) == 0 {
			s.say("no keys%s at revision %s", below(prefix), shortRev(listing.Rev))
			return nil
		}
		return keyTable(listing.Entries, c.Bool("long"), c.Bool("values"), time.Now()).write(w)
	})
}

// list is the request for the entries that a prefix covers, or for their keys alone.
func list(prefix string, keysOnly bool) request {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	if keysOnly {
		query.Set("keys", "1")
	}
	return request{method: http.MethodGet, path: "/v1/kv", query: query, key: prefix}
}

func below(prefix string) string {
	if prefix == "" {
		return ""
	}
	return " under " + prefix
}

func keyTable(entries []api.Envelope, long, values bool, now time.Time) table {
	t := table{head: []string{"KEY", "REV", "AGE", "BY"}}
	if long {
		t.head = append(t.head, "CREATED", "VERSION", "AT", "MESSAGE")
	}
	if values {
		t.head = append(t.head, "VALUE")
	}
	for _, e := range entries {
		row := []string{e.Key, shortRev(e.ModRev), age(e.At, now), e.By}
		if long {
			row = append(row, shortRev(e.CreateRev), fmt.Sprint(e.Version), clock(e.At), e.Reason)
		}
		if values {
			row = append(row, compact(e.Value))
		}
		t.rows = append(t.rows, row)
	}
	return t
}
