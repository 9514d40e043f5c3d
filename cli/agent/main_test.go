package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// freeGossip keeps the agents of tests that run side by side apart.
const freeGossip = "127.0.0.1:0"

// atOnce is how many tests run side by side that mostly wait: for elections, deaths, and times that are over.
const atOnce = "6"

// TestMain makes this test binary stand in for the program, with the race detector in it: a script of the long tests that
// calls agent calls main.
func TestMain(m *testing.M) {
	if address := os.Getenv(serviceVariable); address != "" && len(os.Args) == 1 {
		runService(address)
	}
	os.Setenv("AGENT_GOSSIP", freeGossip)
	if err := flag.Set("test.parallel", atOnce); err != nil { // the command line has the last word
		panic(err)
	}
	testscript.Main(runner{m}, map[string]func(){"agent": main})
}

// TestScripts plays the sessions under testdata/script. Beside agent they may call echo, a backend of ours, and
//
//	exits CODE COMMAND...   run a command that must end with this exit code
//	await COMMAND...        run a command again and again until it succeeds
//	keep VARIABLE           put what the last command printed into the environment
func TestScripts(t *testing.T) {
	dir := programs(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// The race detector would wait a second at each exit.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("AGENT_GOSSIP", freeGossip)
			path := []string{dir, env.Getenv("PATH")}
			if long { // the stand-in is found first; it takes six times as long to start
				slices.Reverse(path)
			}
			env.Setenv("PATH", strings.Join(path, string(os.PathListSeparator)))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "await": await, "keep": keep},
	})
}

// runner removes the programs behind all tests.
type runner struct{ *testing.M }

func (r runner) Run() int {
	code := r.M.Run()
	os.RemoveAll(builtIn)
	return code
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s\nstdout:\n%sstderr:\n%s", code, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keep VARIABLE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: await COMMAND...")
	}
	for deadline := time.Now().Add(patience); ts.Exec(args[0], args[1:]...) != nil; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("never succeeded\nstdout:\n%sstderr:\n%s", ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}
