//go:build linux

package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestWrkOutput(t *testing.T) {
	const good = `Running 2s test @ http://127.0.0.1:19001/bench/100
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.83ms    4.71ms  66.91ms   88.58%
    Req/Sec    42.31k     8.99k   55.10k    70.00%
  Latency Distribution
     50%    1.00ms
     75%    2.87ms
     90%    8.62ms
     99%    0.02s
  84930 requests in 2.02s, 31.75MB read
`
	const failures = "  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 5\nRequests/sec:  42043.12\n"
	tests := []struct {
		name, out string
		want      row
	}{
		{"good", good, row{Client: "wrk", Requests: 84930, Seconds: 2.02, P50: 1000, P99: 20000}},
		{"failures", good + failures, row{Client: "wrk", Requests: 84940, Failed: 15, Seconds: 2.02, P50: 1000, P99: 20000}},
	}
	for _, test := range tests {
		if got, err := parseWrk(test.out); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.name, got, err, test.want)
		}
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Error("output without a total is taken")
	}
}

func TestProcessStat(t *testing.T) {
	// The name of a process may hold spaces and parentheses.
	const line = "42 (a ) (b) S 7 42 42 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 1 0 500 1000000 77 18446744073709551615 1 1"

	pid, got, err := parseStat(line)

	want := stat{parent: 7, user: 11 + 33, system: 22 + 44, pages: 77}
	if pid != 42 || got != want || err != nil {
		t.Errorf("process %d: %+v, %v, want 42: %+v", pid, got, err, want)
	}
	if _, _, err := parseStat("42 (cut) S 7"); err == nil {
		t.Error("a line that was cut off is taken")
	}
}

func TestProcessTree(t *testing.T) {
	all := map[int]stat{1: {}, 10: {parent: 1}, 11: {parent: 10}, 12: {parent: 11}, 20: {parent: 1}}
	for pid, want := range map[int]bool{10: true, 11: true, 12: true, 20: false, 1: false} {
		if got := descends(all, pid, 10); got != want {
			t.Errorf("%d descends from 10: %v, want %v", pid, got, want)
		}
	}
}

func TestCPUList(t *testing.T) {
	got, err := parseCPUs("0-2,8")
	if want := []int{0, 1, 2, 8}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "0-", "x"} {
		if got, err := parseCPUs(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, got)
		}
	}
}

func TestSpread(t *testing.T) {
	tests := []struct {
		figures []float64
		want    spread
	}{
		{[]float64{3}, spread{3, 3, 3}},
		{[]float64{3, 1}, spread{1, 2, 3}},
		{[]float64{9, 1, 2}, spread{1, 2, 9}},
	}
	for _, test := range tests {
		if got := spreadOf(test.figures); got != test.want {
			t.Errorf("%v: %v, want %v", test.figures, got, test.want)
		}
	}
}

// TestRatio pairs the rows of one sweep, so that a disturbance of a whole sweep leaves the ratio alone.
func TestRatio(t *testing.T) {
	w := work{kind: closedLoop, body: "100", conns: 64, workers: 1}
	at := func(peer string, sweep int, cpu float64) row {
		return row{Work: w.String(), Peer: peer, Sweep: sweep, Requests: 2e6, Failed: 1e6, User: cpu / 2, System: cpu / 2}
	}
	r := run{rows: []row{
		at(nginxName, 0, 30), at(relayName, 0, 20),
		at(nginxName, 1, 60), at(relayName, 1, 40),
		at(relayName, 2, 1), // nginx has no figure in this sweep
		{Work: w.String(), Peer: nginxName, Sweep: 2, Problem: "it ended"},
	}}

	got, ok := r.ratio(w, relayName)

	if want := (spread{1.5, 1.5, 1.5}); !ok || got != want {
		t.Errorf("ratio %v, %v, want %v", got, ok, want)
	}
	if tables := r.tables(); !strings.Contains(tables, "- nginx, `closed/1w/64c/100`: it ended") {
		t.Errorf("a measurement that failed is not told:\n%s", tables)
	}
}

func TestPageWithoutMarks(t *testing.T) {
	for _, page := range []string{"", markBegin + "\n", markEnd + "\n"} {
		if got, err := between(page, "tables"); err == nil {
			t.Errorf("%q becomes %q", page, got)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-sweeps", "0"},
		{"-duration", "0s"},
		{"-client", "ab"},
		{"surplus"},
		{"-peers", "nobody"},
		{"-work", "nothing"},
		{"-work", "("},
		{"-agent", "no/such/file"},
		{"-from", "no/such/file"},
	} {
		if err := bench(append(args, "-results", t.TempDir()), io.Discard, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestWorkNames keeps every work apart from the others in the raw results.
func TestWorkNames(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range allWork() {
		if seen[w.String()] {
			t.Errorf("two works are named %s", w)
		}
		seen[w.String()] = true
	}
}
