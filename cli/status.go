package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
)

func (p *program) status() *urfave.Command {
	return &urfave.Command{
		Name: "status", Usage: "show what the node is, serves and lacks",
		Action: p.runStatus,
	}
}

func (p *program) runStatus(c *urfave.Context) error {
	s, err := p.session(c)
	if err != nil {
		return err
	}
	var st api.Status
	if err := s.agent.fetch(c.Context, request{method: http.MethodGet, path: "/v1/status"}, &st); err != nil {
		return err
	}
	return printOne(s.out, st, st.Name, func(w io.Writer) error { return writeStatus(w, st, time.Now()) })
}

func writeStatus(w io.Writer, st api.Status, now time.Time) error {
	rows := [][]string{
		{"node", st.Name + " (" + st.ID + ")"},
		{"version", st.Version},
		{"started", st.StartedAt.Format(time.RFC3339) + ", " + age(st.StartedAt, now) + " ago, process " + fmt.Sprint(st.PID)},
		{"data", cmp.Or(st.DataDir, "in memory: a restart forgets it")},
		{"ready", readiness(st)},
		{"store", fmt.Sprintf("revision %s, %s", shortRev(st.Rev), plural(st.Keys, "key"))},
		{"table", fmt.Sprintf("revision %s, %s, hash %.12s", shortRev(st.Table.Rev), plural(st.Table.Routes, "route"), st.Table.Hash)},
	}
	if st.Region != "" {
		rows = slices.Insert(rows, 1, []string{"region", st.Region})
	}
	for _, name := range slices.Sorted(maps.Keys(st.Listeners)) {
		rows = append(rows, []string{name, st.Listeners[name]})
	}
	if st.Reload != nil && st.Reload.Error != "" {
		rows = append(rows, []string{"reload", "refused " + age(st.Reload.At, now) + " ago: " + st.Reload.Error})
	}
	for _, fault := range st.Table.Faults {
		rows = append(rows, []string{"fault", fault.Error()})
	}
	for _, notice := range st.Table.Notices {
		rows = append(rows, []string{"notice", notice.Error()})
	}
	return table{rows: rows}.write(w)
}

func readiness(st api.Status) string {
	if st.Ready {
		return "yes"
	}
	return "no: " + st.Waiting
}
