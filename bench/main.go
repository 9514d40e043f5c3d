//go:build linux

// Bench measures this gateway beside nginx, HAProxy, Caddy and a relay that
// parses nothing: on the same work, in turns, on the same two CPUs.
//
//	make bench-peers                            all of it; SWEEPS, DURATION, PEERS, WORK and UPDATE are taken
//	go run ./bench -sweeps 1 -duration 2s       a smoke run
//	go run ./bench -update                      and write the tables into docs/performance.md
//	go run ./bench -from bench/results/X/runs.jsonl -update    the tables of a run that was
//
// docs/performance.md says what the figures mean.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"grapevine/bench/wire"
)

func main() {
	if err := bench(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is the bench, or one of the programs that stand around a proxy.
func bench(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "backend", "relay", "load":
			return stand(args[0], args[1:], os.Stdin, stdout)
		}
	}
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if o.from != "" {
		found, err := readRun(o.from)
		if err != nil {
			return err
		}
		return show(found, o, stdout)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	found, err := measureAll(ctx, o, stderr)
	o.update = o.update && err == nil // half a run is printed, and changes no page
	if len(found.rows) > 0 {
		err = errors.Join(err, show(found, o, stdout))
	}
	return err
}

// stand runs a program of package wire, whose arguments only this program writes. A load says that it is warm by a line, and
// begins when it is given one.
func stand(what string, args []string, stdin io.Reader, stdout io.Writer) error {
	text := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(text(i))
		return v
	}
	switch what {
	case "backend":
		return wire.Backend(n(0))
	case "relay":
		return wire.Relay(n(0), n(1), n(2))
	}
	duration, err := time.ParseDuration(text(4))
	if err != nil {
		return err
	}
	var stop atomic.Bool
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		stop.Store(true)
	}()
	load := wire.Load{Port: n(0), Path: text(1), Conns: n(2), Rate: float64(n(3)), Duration: duration}
	load.Warm = func() error {
		_, err := fmt.Fprintln(stdout, `"warm"`)
		return errors.Join(err, readLine(stdin))
	}
	result, err := load.Run(&stop)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}

func readLine(in io.Reader) error {
	_, err := bufio.NewReader(in).ReadString('\n')
	return err
}

type options struct {
	agent    string
	sweeps   int
	duration time.Duration
	peers    string
	work     string
	client   string
	results  string
	from     string
	update   bool
	page     string
	command  string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{command: command(args)}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.agent, "agent", "bin/agent", "measure the gateway in `file`")
	flags.IntVar(&o.sweeps, "sweeps", 9, "repeat everything `n` times")
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "load each peer for `this long` at a time")
	flags.StringVar(&o.peers, "peers", "", "measure only these, `name,name`; nginx is what ratios refer to")
	flags.StringVar(&o.work, "work", "", "do only the work whose name matches a regular `expression`")
	flags.StringVar(&o.client, "client", "own", "load closed loops with `wrk`, as a check on the bench's own client")
	flags.StringVar(&o.results, "results", "bench/results", "keep raw results below `folder`")
	flags.StringVar(&o.from, "from", "", "measure nothing; make the tables from the raw results in `file`")
	flags.BoolVar(&o.update, "update", false, "write the tables into the page of -page, between its markers")
	flags.StringVar(&o.page, "page", "docs/performance.md", "`file` that -update changes")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.sweeps < 1:
		return o, fmt.Errorf("-sweeps %d: at least 1", o.sweeps)
	case o.duration <= 0:
		return o, fmt.Errorf("-duration %v: more than 0", o.duration)
	case o.client != "wrk" && o.client != "own":
		return o, fmt.Errorf("-client %q: wrk or own", o.client)
	}
	return o, nil
}

// command is what a person types to have the same again.
func command(args []string) string {
	words := []string{"go run ./bench"}
	for _, arg := range args {
		if strings.ContainsAny(arg, " |$()*?^[]") {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

func measureAll(ctx context.Context, o options, progress io.Writer) (run, error) {
	p, err := newPlan(o, progress)
	if err != nil {
		return run{}, err
	}
	defer os.RemoveAll(p.dir)
	folder := filepath.Join(o.results, p.run.Start.Format("20060102T150405"))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return run{}, err
	}
	file, err := os.Create(filepath.Join(folder, "runs.jsonl"))
	if err != nil {
		return run{}, err
	}
	defer file.Close()
	p.results = json.NewEncoder(file)
	fmt.Fprintf(progress, "raw results: %s\n", file.Name())
	err = p.measure(ctx)
	p.run.End = time.Now()
	return p.run, errors.Join(err, p.results.Encode(p.run))
}

func newPlan(o options, progress io.Writer) (*plan, error) {
	chosen, err := chosenWork(o.work)
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		return nil, fmt.Errorf("%w; to have it: apt-get install util-linux", err)
	}
	cpus, err := allowedCPUs()
	if err != nil {
		return nil, err
	}
	if len(cpus) < 2 {
		return nil, fmt.Errorf("%d CPU: the proxy needs one of its own beside that of the load", len(cpus))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := raiseFileLimit(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	p := &plan{
		work: chosen, sweeps: o.sweeps, duration: o.duration, dir: dir, self: self, progress: progress,
		load: strconv.Itoa(cpus[0]), proxies: strconv.Itoa(cpus[1]),
		run: run{Start: time.Now(), Command: o.command, Sweeps: o.sweeps, Each: o.duration, CPUs: len(cpus), Go: runtime.Version()},
	}
	if err := errors.Join(p.chooseClient(o), p.choosePeers(o)); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return p, nil
}

func (p *plan) chooseClient(o options) error {
	p.run.Client = o.client
	if o.client == "own" {
		return nil
	}
	var err error
	p.wrk, err = lookPath("wrk", "apt-get install wrk")
	return err
}

// choosePeers finds the programs. Those that are missing are reported, and not measured.
func (p *plan) choosePeers(o options) error {
	agent := filepath.Join(p.dir, "agent")
	if err := copyProgram(agent, o.agent); err != nil {
		return err
	}
	wanted := slices.DeleteFunc(strings.Split(o.peers, ","), func(name string) bool { return name == "" })
	for _, which := range allPeers(agent) {
		name := which.name()
		if i := slices.Index(wanted, strings.ReplaceAll(name, ",", "")); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
		} else if o.peers != "" {
			continue
		}
		facts := peerFacts{Name: name}
		if err := which.find(); err != nil {
			facts.Skipped = err.Error()
			fmt.Fprintf(p.progress, "%s is not measured: %v\n", name, err)
		} else {
			file, _ := which.binary()
			if facts.SHA256, err = sum(file); err != nil {
				return err
			}
			facts.Version = version(which)
			p.peers = append(p.peers, which)
		}
		p.run.Peers = append(p.run.Peers, facts)
	}
	if len(wanted) > 0 {
		var names []string
		for _, which := range allPeers("") {
			names = append(names, strings.ReplaceAll(which.name(), ",", ""))
		}
		return fmt.Errorf("-peers: no peer is named %q; there are: %s", wanted, strings.Join(names, ","))
	}
	return nil
}

// copyProgram keeps a build in the middle of a run from changing what is measured.
func copyProgram(to, from string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("%w; make build makes it", err)
	}
	return os.WriteFile(to, program, 0o755)
}

// readRun reads the raw results of a run: its rows, and the line with its facts at the end.
func readRun(name string) (run, error) {
	file, err := os.Open(name)
	if err != nil {
		return run{}, err
	}
	defer file.Close()
	var found run
	var rows []row
	lines := json.NewDecoder(file)
	for {
		var line struct {
			row
			Start time.Time `json:"start"`
			Raw   json.RawMessage
		}
		var raw json.RawMessage
		if err := lines.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return run{}, fmt.Errorf("%s: %w", name, err)
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			return run{}, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case line.Work != "":
			rows = append(rows, line.row)
		case !line.Start.IsZero():
			if err := json.Unmarshal(raw, &found); err != nil {
				return run{}, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if found.Start.IsZero() {
		return run{}, fmt.Errorf("%s does not end with the facts of its run", name)
	}
	found.rows = rows
	return found, nil
}
