//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"grapevine/bench/wire"
)

// plan is one run of the bench.
type plan struct {
	work     []work
	peers    []peer
	sweeps   int
	duration time.Duration
	wrk      string // the program; empty: the client of package wire
	dir      string // for everything that is started
	load     string // CPU of the load and the backend
	proxies  string // CPU of the proxy, where it has one worker
	results  *json.Encoder
	progress io.Writer
	self     string // this program, for backend, relay and load
	backend  int    // its port
	run      run
}

// directName is the backend without a proxy, which shows that the backend and the client can do more than the proxies.
const directName = "no proxy"

// running is a peer that serves.
type running struct {
	peer    peer
	process *process
	setup   setup
}

func (p *plan) measure(ctx context.Context) error {
	backend, err := p.startBackend(ctx)
	if err != nil {
		return err
	}
	defer backend.stop()
	for len(p.work) > 0 && ctx.Err() == nil {
		first := p.work[0]
		same := 1
		for same < len(p.work) && !first.fresh() && !p.work[same].fresh() &&
			p.work[same].routes == first.routes && p.work[same].workers == first.workers {
			same++
		}
		group := p.work[:same]
		p.work = p.work[same:]
		if first.fresh() {
			p.measureFresh(ctx, first)
		} else {
			p.measureTogether(ctx, group)
		}
	}
	return ctx.Err()
}

func (p *plan) startBackend(ctx context.Context) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p.backend = port
	dir := filepath.Join(p.dir, "backend")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	backend, err := start(p.load, dir, []string{p.self, "backend", fmt.Sprint(port)})
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	if _, err := backend.awaitStatus(ctx, port, "/100", http.StatusOK); err != nil {
		backend.stop()
		return nil, fmt.Errorf("backend: %w", err)
	}
	return backend, nil
}

// start makes a peer serve work w.
func (p *plan) start(ctx context.Context, which peer, w work) (*running, error) {
	dir, err := os.MkdirTemp(p.dir, "peer")
	if err != nil {
		return nil, err
	}
	s := setup{dir: dir, upstream: p.backend, workers: w.workers, prefixes: prefixes(w.routes)}
	for _, port := range []*int{&s.port, &s.admin} {
		if *port, err = freePort(); err != nil {
			return nil, err
		}
	}
	command, config, err := which.configure(s)
	if err != nil {
		return nil, err
	}
	p.keepConfig(which.name(), w, config)
	cpus := p.proxies
	if w.workers > 1 {
		cpus = p.load + "," + p.proxies
	}
	process, err := start(cpus, dir, command)
	if err != nil {
		return nil, err
	}
	if _, err := process.awaitStatus(ctx, s.port, w.path(), http.StatusOK); err != nil {
		process.stop()
		return nil, err
	}
	return &running{peer: which, process: process, setup: s}, nil
}

// keepConfig records the configuration under test: the short ones whole, each of them by its sum.
func (p *plan) keepConfig(name string, w work, config string) {
	if config == "" {
		return
	}
	i := slices.IndexFunc(p.run.Peers, func(f peerFacts) bool { return f.Name == name })
	key := fmt.Sprintf("%d workers, %d routes", w.workers, w.routes)
	if p.run.Peers[i].Configs[key] != "" {
		return
	}
	if p.run.Peers[i].Configs == nil {
		p.run.Peers[i].Configs = map[string]string{}
	}
	p.run.Peers[i].Configs[key] = sumText(config)
	kept := map[string]string{"peer": name, "for": key, "configSha256": sumText(config)}
	if w.routes <= 10 {
		kept["config"] = config
	}
	p.results.Encode(kept)
}

func (p *plan) stopAll(all []*running) {
	for _, r := range all {
		r.process.stop()
		os.RemoveAll(r.setup.dir)
	}
}

// measureTogether runs all peers at once, and each work on one after the other, so that a disturbance strikes neighbours
// alike. Every other sweep goes backwards.
func (p *plan) measureTogether(ctx context.Context, group []work) {
	var all []*running
	defer func() { p.stopAll(all) }()
	for _, which := range p.peers {
		r, err := p.start(ctx, which, group[0])
		if err != nil {
			p.problem(which.name(), group, err)
			continue
		}
		all = append(all, r)
	}
	direct := &running{setup: setup{port: p.backend}}
	for sweep := range p.sweeps {
		for _, w := range group {
			order := slices.Clone(all)
			if sweep%2 == 1 {
				slices.Reverse(order)
			}
			if w.kind == closedLoop && w.routes == 0 {
				order = append(order, direct)
			}
			for _, r := range order {
				if ctx.Err() != nil {
					return
				}
				got := p.loadOn(ctx, r, w)
				if ctx.Err() != nil { // it was cut short
					return
				}
				p.record(w, r, sweep, got)
			}
		}
	}
}

func (p *plan) problem(name string, group []work, err error) {
	for _, w := range group {
		p.keep(row{Work: w.String(), Peer: name, Problem: err.Error()})
	}
}

func (p *plan) record(w work, r *running, sweep int, got row) {
	got.Work, got.Sweep = w.String(), sweep
	got.Peer = directName
	if r.peer != nil {
		got.Peer = r.peer.name()
	}
	p.keep(got)
}

func (p *plan) keep(got row) {
	got.Load = loadAverage()
	p.run.rows = append(p.run.rows, got)
	p.results.Encode(got)
	fmt.Fprintf(p.progress, "%s  %-24s %-21s sweep %d  %7d requests, %d failed, %.1f CPU s per million %s\n",
		time.Now().Format("15:04:05"), got.Work, got.Peer, got.Sweep+1, got.Requests, got.Failed, perMillion(got), got.Problem)
}

// loadOn loads a peer, whose CPU time counts from when the load is warm. That of wrk counts from its start: it does not tell.
func (p *plan) loadOn(ctx context.Context, r *running, w work) row {
	var before usage
	look := func() (err error) {
		if r.peer != nil {
			before, err = r.process.usage()
		}
		return err
	}
	var got row
	var err error
	if p.wrk != "" && w.kind == closedLoop {
		if err = look(); err == nil {
			got, err = p.runWrk(ctx, r.setup.port, w)
		}
	} else {
		got, err = p.runLoad(ctx, r.setup.port, w, p.duration, look, nil)
	}
	if err != nil {
		return row{Problem: err.Error()}
	}
	if r.peer == nil {
		return got
	}
	after, err := r.process.usage()
	if err != nil {
		return row{Problem: err.Error()}
	}
	used := after.since(before)
	got.User, got.System, got.Resident = used.user, used.system, used.resident
	return got
}

// runLoad runs this program's own client, and calls warm between what is not counted and what is; a stop that closes ends it before
// its time.
func (p *plan) runLoad(ctx context.Context, port int, w work, duration time.Duration, warm func() error, stop <-chan struct{}) (row, error) {
	cmd := exec.CommandContext(ctx, "taskset", "-c", p.load, p.self, "load",
		fmt.Sprint(port), w.path(), fmt.Sprint(w.conns), fmt.Sprint(w.rate), duration.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return row{}, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return row{}, err
	}
	if err := cmd.Start(); err != nil {
		return row{}, err
	}
	ended := make(chan struct{})
	defer close(ended)
	if stop != nil {
		go func() {
			select {
			case <-stop:
				cmd.Process.Signal(syscall.SIGTERM)
			case <-ended:
			}
		}()
	}
	result, err := listen(out, in, warm)
	err = errors.Join(err, cmd.Wait())
	if err != nil {
		return row{}, fmt.Errorf("load: %w: %s", err, said.String())
	}
	return row{
		Client: "own", Requests: result.Sent + result.Refused, Failed: result.Failed(), Seconds: result.Seconds,
		P50: result.P50, P99: result.P99, P999: result.P999, Closed: result.Closed, Detail: &result,
	}, nil
}

// listen follows what a load says: that it is warm, and its result.
func listen(out io.Reader, in io.WriteCloser, warm func() error) (result wire.Result, err error) {
	defer in.Close() // a load that waits ends
	said := json.NewDecoder(out)
	var word string
	if err := said.Decode(&word); err != nil {
		return result, err
	}
	if err := warm(); err != nil {
		return result, err
	}
	if _, err := fmt.Fprintln(in); err != nil {
		return result, err
	}
	return result, said.Decode(&result)
}
