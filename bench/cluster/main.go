//go:build linux

// Cluster measures how long a change takes to be served everywhere.
//
//	go run ./bench/cluster                      both measurements
//	go run ./bench/cluster -processes 0         only that of many nodes
//	go run ./bench/cluster -nodes 0             only that of processes
//
// Processes are three agents on this host, with their disks: a write that waits for
// all nodes, by the API of the leader and of another node. Nodes are many in this
// process, over loopback sockets with TLS: from a write's acknowledgement until the
// last of them serves it. Beside each measurement the same payload goes to and fro
// over a TCP connection, so that a busy host shows.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the program's flags.
type options struct {
	processes, writes int
	nodes, changes    int
	pause             time.Duration
	payload           int
	seed              uint64
	disk              bool
	agent             string
	dir               string
	profile, log      string
	logger            *slog.Logger
}

func main() {
	if err := measure(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func measure(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	dir, err := os.MkdirTemp(o.dir, "bench-cluster")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	o.logger = slog.New(slog.DiscardHandler)
	if o.log != "" {
		file, err := os.Create(o.log)
		if err != nil {
			return err
		}
		defer file.Close()
		o.logger = slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	fmt.Fprintf(out, "seed %d, payload %d bytes, load average %s\n", o.seed, o.payload, loadAverage())
	if o.processes > 0 {
		if err := measureProcesses(ctx, o, out); err != nil {
			return fmt.Errorf("processes: %w", err)
		}
	}
	if o.nodes > 0 {
		if err := measureNodes(ctx, o, out); err != nil {
			return fmt.Errorf("nodes: %w", err)
		}
	}
	fmt.Fprintf(out, "load average %s\n", loadAverage())
	return nil
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.IntVar(&o.processes, "processes", 3, "agents of the first measurement; 0 leaves it out")
	flags.IntVar(&o.writes, "writes", 200, "writes by each way")
	flags.IntVar(&o.nodes, "nodes", 100, "nodes of the second measurement; 0 leaves it out")
	flags.IntVar(&o.changes, "changes", 300, "changes")
	flags.DurationVar(&o.pause, "pause", 100*time.Millisecond, "pause between two changes, or writes of an agent")
	flags.IntVar(&o.payload, "payload", 300, "bytes of a value, about")
	flags.Uint64Var(&o.seed, "seed", 1, "what values are drawn from")
	flags.BoolVar(&o.disk, "disk", false, "keep the nodes of the second measurement on disk, all on this one")
	flags.StringVar(&o.agent, "agent", "", "the agent's binary; empty builds it")
	flags.StringVar(&o.dir, "dir", "", "where to put data directories; empty is the system's place for temporary files")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of the second measurement to this file")
	flags.StringVar(&o.log, "log", "", "write the log of the nodes of the second measurement to this file")
	return o, flags.Parse(args)
}

// route is a route's value of about the payload's size, another one each time.
func (o options) route(random *rand.Rand, i int) string {
	body := fmt.Sprintf("%d-%016x", i, random.Uint64())
	body += strings.Repeat("x", max(0, o.payload-len(body)))
	return fmt.Sprintf(`{"path":"/bench","respond":{"status":200,"body":%q}}`, body)
}

func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
