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
	if st.Table.Rev == "" {
		rows[len(rows)-1] = []string{"table", "none: it runs no gateway"}
	}
	if st.Instances.All > 0 {
		rows = append(rows, []string{"instances", fmt.Sprintf("%d announced, %d of them here", st.Instances.All, st.Instances.Here)})
	}
	rows = append(rows, clusterRows(st.Cluster)...)
	if st.Region != "" {
		rows = slices.Insert(rows, 1, []string{"region", st.Region})
	}
	for _, name := range slices.Sorted(maps.Keys(st.Listeners)) {
		rows = append(rows, []string{name, st.Listeners[name]})
	}
	if st.Reload != nil && st.Reload.Error != "" {
		rows = append(rows, []string{"reload", "refused " + age(st.Reload.At, now) + " ago: " + st.Reload.Error})
	}
	rows = append(rows, maintenanceRows(st.Maintenance, now)...)
	for _, fault := range st.Table.Faults {
		rows = append(rows, []string{"fault", fault.Error()})
	}
	for _, notice := range st.Table.Notices {
		rows = append(rows, []string{"notice", notice.Error()})
	}
	return table{rows: rows}.write(w)
}

// clusterRows are none for a node without a cluster.
func clusterRows(c *api.ClusterStatus) [][]string {
	if c == nil {
		return nil
	}
	rows := [][]string{
		{"cluster", c.ID},
		{"role", c.Role + ", " + led(c.Leader)},
		{"members", fmt.Sprintf("%d of %d alive", c.Alive, c.Members)},
		{"voters", c.Tolerance},
		{"applied", fmt.Sprintf("revision %s, %s", shortRev(c.Applied), behind(c))},
	}
	if c.Stale {
		rows = append(rows, []string{"stale", "yes: no leader was heard of for a while, what is served may be old"})
	}
	for _, alarm := range c.Alarms {
		rows = append(rows, []string{"alarm", alarm})
	}
	return rows
}

func led(leader string) string {
	if leader == "" {
		return "and no leader is known"
	}
	return "led by " + leader
}

func behind(c *api.ClusterStatus) string {
	if c.Lag == 0 {
		return "the newest that is known"
	}
	return fmt.Sprintf("%s behind since %s", plural(int(c.Lag), "revision"), span(c.LagMs))
}

func readiness(st api.Status) string {
	if st.Ready {
		return "yes"
	}
	return "no: " + st.Waiting
}
