//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestMain lets this binary be the backend, the relay and the load client that a bench starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "backend", "relay", "load":
			main()
			return
		}
	}
	os.Exit(m.Run())
}

// smokeOptions are the smallest run: this gateway and the relay, and no program that is not part of this repository.
func smokeOptions(t *testing.T, work string) options {
	t.Helper()
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skipf("%v: the bench can't bind processes to CPUs", err)
	}
	if cpus, err := allowedCPUs(); err != nil || len(cpus) < 2 {
		t.Skipf("CPUs %v, %v: the bench needs two", cpus, err)
	}
	agent := filepath.Join(t.TempDir(), "agent")
	if out, err := exec.Command("go", "build", "-o", agent, "grapevine/cli/agent").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Setenv("TMPDIR", t.TempDir())         // below which a bench keeps all that it makes, for checkNothingLeft
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would wait a second at each exit
	o, err := parseOptions([]string{
		"-agent", agent, "-peers", "grapevine,relay", "-sweeps", "1", "-duration", "100ms", "-client", "own",
		"-results", filepath.Join(t.TempDir(), "results"), "-work", work,
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSmoke(t *testing.T) {
	o := smokeOptions(t, "^closed/1w/64c/(100|1m)$|^open/|^change/1000r$")
	o.page = filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(o.page, []byte("before\n"+markBegin+"\nold\n"+markEnd+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	found, err := measureAll(t.Context(), o, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t)
	for _, w := range found.present(func(work) bool { return true }) {
		for _, peer := range []string{oursName, relayName} {
			rows := found.of(w, peer)
			if peer == relayName && w.kind == oneChange {
				continue
			}
			if len(rows) != o.sweeps {
				t.Errorf("%s on %s: %d rows, want %d", w, peer, len(rows), o.sweeps)
			}
			for _, row := range rows {
				if row.Requests == 0 || row.Failed > 0 {
					t.Errorf("%s on %s: %+v", w, peer, row)
				}
			}
		}
	}
	for _, row := range found.rows {
		if row.Problem != "" {
			t.Errorf("%s on %s: %s", row.Work, row.Peer, row.Problem)
		}
	}
	checkPage(t, o, found)
}

// checkPage makes the page from the raw results and compares it with the tables of the run.
func checkPage(t *testing.T, o options, found run) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(o.results, "*", "runs.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("raw results: %v, %v", files, err)
	}
	if err := bench([]string{"-from", files[0], "-update", "-page", o.page}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(o.page)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + markBegin + "\n\n" + found.tables() + "\n" + markEnd + "\nafter\n"; string(page) != want {
		t.Errorf("page made from the raw results:\n%s\nwant:\n%s", page, want)
	}
}

// TestInterrupted ends a run in its middle.
func TestInterrupted(t *testing.T) {
	o := smokeOptions(t, "^closed/1w/64c/100$")
	o.sweeps = 1000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	found, err := measureAll(ctx, o, &firstRow{seen: cancel})

	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if len(found.rows) == 0 {
		t.Error("what was measured before is lost")
	}
	checkNothingLeft(t)
}

// firstRow is a writer of progress that waits for the first measurement.
type firstRow struct {
	seen func()
	once sync.Once
}

func (f *firstRow) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "sweep 1") {
		f.once.Do(f.seen)
	}
	return len(line), nil
}

func checkNothingLeft(t *testing.T) {
	t.Helper()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	for pid, s := range all {
		if s.parent == os.Getpid() {
			t.Errorf("process %d still runs", pid)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
