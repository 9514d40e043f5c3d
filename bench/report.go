//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The tables stand between these lines of the page.
const (
	markBegin = "<!-- bench: begin. Written by \"go run ./bench -update\"; do not edit. -->"
	markEnd   = "<!-- bench: end -->"
)

// show prints the tables, and puts them into the page if that is wanted.
func show(found run, o options, stdout io.Writer) error {
	tables := found.tables()
	if _, err := io.WriteString(stdout, tables); err != nil || !o.update {
		return err
	}
	page, err := os.ReadFile(o.page)
	if err != nil {
		return err
	}
	changed, err := between(string(page), tables)
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	return os.WriteFile(o.page, []byte(changed), 0o644)
}

// between replaces what stands between the marks.
func between(page, text string) (string, error) {
	head, rest, begins := strings.Cut(page, markBegin+"\n")
	_, tail, ends := strings.Cut(rest, markEnd)
	if !begins || !ends {
		return "", errors.New("the lines that mark where the tables stand are not there")
	}
	return head + markBegin + "\n\n" + text + "\n" + markEnd + tail, nil
}

// spread is a figure over sweeps.
type spread struct{ low, median, high float64 }

// spreadOf takes figures of which there is at least one.
func spreadOf(figures []float64) spread {
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return spread{low: sorted[0], median: (sorted[(n-1)/2] + sorted[n/2]) / 2, high: sorted[n-1]}
}

func (s spread) format(verb string) string {
	return fmt.Sprintf(verb+" ["+verb+"–"+verb+"]", s.median, s.low, s.high)
}

// of are the rows with a figure of one work and one peer, by sweep.
func (r run) of(w work, peer string) []row {
	return slices.DeleteFunc(slices.Clone(r.rows), func(row row) bool {
		return row.Work != w.String() || row.Peer != peer || row.Problem != ""
	})
}

// each takes a figure from the rows of one work and one peer; those for which it says false are left out.
func (r run) each(w work, peer string, figure func(row) (float64, bool)) (spread, bool) {
	var figures []float64
	for _, row := range r.of(w, peer) {
		if f, ok := figure(row); ok {
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return spread{}, false
	}
	return spreadOf(figures), true
}

func cpuFigure(r row) (float64, bool) {
	f := perMillion(r)
	return f, f > 0
}

// ratio is nginx's CPU per request over the peer's in the same sweep: 2 means half of nginx's cost.
func (r run) ratio(w work, peer string) (spread, bool) {
	base := map[int]float64{}
	for _, row := range r.of(w, nginxName) {
		base[row.Sweep] = perMillion(row)
	}
	return r.each(w, peer, func(row row) (float64, bool) {
		own := perMillion(row)
		if own == 0 || base[row.Sweep] == 0 {
			return 0, false
		}
		return base[row.Sweep] / own, true
	})
}

// tables are all tables for which there are results, in Markdown.
func (r run) tables() string {
	var b strings.Builder
	r.facts(&b)
	for _, workers := range []int{1, 2} {
		for _, conns := range []int{64, 512} {
			r.matrix(&b, plural(workers, "worker")+", "+plural(conns, "connection"), "body", r.present(func(w work) bool {
				return w.kind == closedLoop && w.routes == 0 && w.workers == workers && w.conns == conns
			}), func(w work) string { return bodyNames[w.body] })
		}
	}
	r.matrix(&b, "Many routes", "routes", r.present(func(w work) bool { return w.kind == closedLoop && w.routes > 0 }),
		func(w work) string { return thousands(w.routes) + " routes" })
	r.latency(&b)
	r.change(&b)
	r.idle(&b)
	r.problems(&b)
	return b.String()
}

var bodyNames = map[string]string{"100": "100 B", "1k": "1 KiB", "64k": "64 KiB", "1m": "1 MiB"}

func (r run) present(which func(work) bool) []work {
	return slices.DeleteFunc(allWork(), func(w work) bool {
		return !which(w) || !slices.ContainsFunc(r.rows, func(row row) bool { return row.Work == w.String() })
	})
}

func (r run) facts(b *strings.Builder) {
	fmt.Fprintf(b, "Made with `%s`, %s, on %d shared cores: %s, %v each; closed loops %s.\n",
		r.Command, r.Start.UTC().Format("2 January 2006 15:04 MST"), r.CPUs, plural(r.Sweeps, "sweep"), r.Each, clientNames[r.Client])
	var loads []float64
	for _, row := range r.rows {
		var load float64
		if _, err := fmt.Sscan(row.Load, &load); err == nil {
			loads = append(loads, load)
		}
	}
	if len(loads) > 0 {
		fmt.Fprintf(b, "Load average of a minute while it ran, median [lowest–highest]: %s. Two or so are the bench's own.\n", spreadOf(loads).format("%.1f"))
	}
	b.WriteString("\n| peer | version | SHA-256 of the program | requests | failed |\n|---|---|---|--:|--:|\n")
	for _, p := range r.Peers {
		if p.Skipped != "" {
			fmt.Fprintf(b, "| %s | not measured: %s | | | |\n", p.Name, p.Skipped)
			continue
		}
		requests, failed := 0, 0
		for _, row := range r.rows {
			if row.Peer == p.Name {
				requests += row.Requests
				failed += row.Failed
			}
		}
		fmt.Fprintf(b, "| %s | %s | `%.16s…` | %s | %s |\n", p.Name, p.Version, p.SHA256, thousands(requests), thousands(failed))
	}
	b.WriteString("\n")
}

var clientNames = map[string]string{"wrk": "loaded by wrk", "own": "loaded by the bench's own client"}

// matrix has two tables of the same works: what counts, and what it was made from.
func (r run) matrix(b *strings.Builder, title, what string, works []work, name func(work) string) {
	if len(works) == 0 {
		return
	}
	fmt.Fprintf(b, "### %s\n\nCPU per request against nginx: more is better, 2.00 is half of nginx's cost. Median [lowest–highest].\n\n", title)
	header(b, what, works, name)
	for _, peer := range r.measured() {
		fmt.Fprintf(b, "| %s |", peer)
		for _, w := range works {
			cell := "–"
			if s, ok := r.ratio(w, peer); ok {
				cell = s.format("%.2f")
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	b.WriteString("\nCPU seconds of the proxy per million requests; requests per second; how much of its CPU time the proxy used; failed requests, if any. Medians.\n\n")
	header(b, what, works, name)
	for _, peer := range append(r.measured(), directName) {
		if len(r.of(works[0], peer)) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s |", peer)
		for _, w := range works {
			fmt.Fprintf(b, " %s |", r.evidence(w, peer))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func header(b *strings.Builder, what string, works []work, name func(work) string) {
	fmt.Fprintf(b, "| %s |", what)
	for _, w := range works {
		fmt.Fprintf(b, " %s |", name(w))
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(works)) + "\n")
}

func (r run) measured() []string {
	var names []string
	for _, p := range r.Peers {
		if p.Skipped == "" {
			names = append(names, p.Name)
		}
	}
	return names
}

func (r run) evidence(w work, peer string) string {
	perSecond, ok := r.each(w, peer, func(row row) (float64, bool) {
		return float64(row.Requests-row.Failed) / row.Seconds, row.Seconds > 0
	})
	if !ok {
		return "–"
	}
	text := thousands(int(perSecond.median)) + "/s"
	if cpu, ok := r.each(w, peer, cpuFigure); ok {
		busy, _ := r.each(w, peer, func(row row) (float64, bool) {
			return 100 * (row.User + row.System) / row.Seconds / float64(w.workers), true
		})
		text = fmt.Sprintf("%s s; %s; %.0f %%", short(cpu.median), text, busy.median)
	}
	if failed := r.failed(w, peer); failed > 0 {
		text += fmt.Sprintf("; %s failed", thousands(failed))
	}
	return text
}

func (r run) failed(w work, peer string) int {
	failed := 0
	for _, row := range r.of(w, peer) {
		failed += row.Failed
	}
	return failed
}

func (r run) sent(w work, peer string) int {
	sent := 0
	for _, row := range r.of(w, peer) {
		sent += row.Requests
	}
	return sent
}

func (r run) latency(b *strings.Builder) {
	for _, w := range r.present(func(w work) bool { return w.kind == openLoop }) {
		fmt.Fprintf(b, "### Latency at %s requests/s\n\n%s, 1 worker, bodies of %s. Milliseconds from when a request was due; median over sweeps [lowest–highest].\n\n",
			thousands(w.rate), plural(w.conns, "connection"), bodyNames[w.body])
		b.WriteString("| peer | p50 | p99 | p99.9 | CPU s per million | requests | failed |\n|---|--:|--:|--:|--:|--:|--:|\n")
		for _, peer := range r.measured() {
			cpu, ok := r.each(w, peer, cpuFigure)
			if !ok {
				continue
			}
			fmt.Fprintf(b, "| %s |", peer)
			for _, quantile := range []func(row) int{
				func(row row) int { return row.P50 }, func(row row) int { return row.P99 }, func(row row) int { return row.P999 },
			} {
				s, _ := r.each(w, peer, func(row row) (float64, bool) { return float64(quantile(row)) / 1000, true })
				fmt.Fprintf(b, " %s |", s.format("%.2f"))
			}
			fmt.Fprintf(b, " %s | %s | %s |\n", short(cpu.median), thousands(r.sent(w, peer)), thousands(r.failed(w, peer)))
		}
		b.WriteString("\n")
	}
}

func (r run) change(b *strings.Builder) {
	works := r.present(func(w work) bool { return w.kind == oneChange })
	if len(works) == 0 {
		return
	}
	fmt.Fprintf(b, "### One route added under load\n\n%s at %s requests/s. Live: until a request to the new route is answered by it; median [lowest–highest].\n\n",
		plural(changeConns, "connection"), thousands(changeRate))
	b.WriteString("| peer | routes | live, ms | requests | failed | connections closed |\n|---|--:|--:|--:|--:|--:|\n")
	for _, w := range works {
		for _, peer := range r.measured() {
			live, ok := r.each(w, peer, func(row row) (float64, bool) { return float64(row.Live.Microseconds()) / 1000, true })
			if !ok {
				continue
			}
			closed := 0
			for _, row := range r.of(w, peer) {
				closed += row.Closed
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", peer, thousands(w.routes), live.format("%.0f"),
				thousands(r.sent(w, peer)), thousands(r.failed(w, peer)), thousands(closed))
		}
	}
	b.WriteString("\n")
}

func (r run) idle(b *strings.Builder) {
	for _, w := range r.present(func(w work) bool { return w.kind == idleConns }) {
		fmt.Fprintf(b, "### Memory of %s idle connections\n\nGrowth of the resident set, each connection having had one request; median [lowest–highest].\n\n", thousands(w.conns))
		b.WriteString("| peer | KiB per connection | MiB before | failed |\n|---|--:|--:|--:|\n")
		for _, peer := range r.measured() {
			each, ok := r.each(w, peer, func(row row) (float64, bool) { return row.Idle / 1024, true })
			if !ok {
				continue
			}
			before, _ := r.each(w, peer, func(row row) (float64, bool) { return float64(row.Resident) / (1 << 20), true })
			fmt.Fprintf(b, "| %s | %s | %.0f | %s |\n", peer, each.format("%.2f"), before.median, thousands(r.failed(w, peer)))
		}
		b.WriteString("\n")
	}
}

func (r run) problems(b *strings.Builder) {
	heading := "### Without a figure\n\n"
	for _, row := range r.rows {
		if row.Problem != "" {
			line, _, _ := strings.Cut(row.Problem, "\n")
			fmt.Fprintf(b, "%s- %s, `%s`: %s\n", heading, row.Peer, row.Work, line)
			heading = ""
		}
	}
}

// short is a figure of three digits or so.
func short(f float64) string {
	if f < 100 {
		return fmt.Sprintf("%.1f", f)
	}
	return thousands(int(f + 0.5))
}

func thousands(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return thousands(n) + " " + what + "s"
}
