package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// folder holds all that the demo writes.
	folder = ".demo"
	// patience bounds each step of the start. On an idle machine a step takes a second or less.
	patience = 2 * time.Minute
)

// node is one of the three.
type node struct {
	*process
	name                 string
	proxy, admin, gossip string // host:port
}

// demo is what runs.
type demo struct {
	bin      string // the folder of agent and echo
	out      io.Writer
	backends []string // host:port
	echo     *process
	nodes    []*node
	leader   *node
	traffic  *traffic
	died     chan *process // has room for each, since none is started again before its end was read
}

func newDemo(host, bin string, out io.Writer) *demo {
	at := func(port int) string { return net.JoinHostPort(host, fmt.Sprint(port)) }
	d := &demo{bin: bin, out: out, backends: []string{at(9001), at(9002)}}
	d.echo = newProcess("echo", filepath.Join(bin, "echo"), d.backends...)
	for i := 1; i <= 3; i++ {
		n := &node{name: fmt.Sprintf("edge-%d", i), proxy: at(8080 + i), admin: at(8500 + i), gossip: at(7000 + i)}
		n.process = newProcess(n.name, filepath.Join(bin, "agent"), "run", "--node", n.name,
			"--data-dir", filepath.Join(folder, n.name), "--http", n.proxy, "--admin", n.admin, "--gossip", n.gossip)
		if i > 1 {
			n.args = append(n.args, "--token-file", tokenFile)
		}
		d.nodes = append(d.nodes, n)
	}
	d.traffic = newTraffic(d.nodes)
	d.died = make(chan *process, 1+len(d.nodes))
	return d
}

// tokenFile is the join token of edge-2 and edge-3.
var tokenFile = filepath.Join(folder, "token")

// free says which ports are taken, and by what they are needed.
func (d *demo) free() error {
	var taken []error
	need := func(what, network, address string) {
		if err := probe(network, address); err != nil {
			taken = append(taken, fmt.Errorf("%s needs %s %s: %w", what, network, address, err))
		}
	}
	for _, n := range d.nodes {
		need("the proxy of "+n.name, "tcp", n.proxy)
		need("the API of "+n.name, "tcp", n.admin)
		need("the gossip of "+n.name, "tcp", n.gossip)
		need("the gossip of "+n.name, "udp", n.gossip)
	}
	for _, address := range d.backends {
		need("a backend", "tcp", address)
	}
	if len(taken) > 0 {
		taken = append(taken, errors.New("does another demo run? Nothing was started"))
	}
	return errors.Join(taken...)
}

// probe listens for a moment.
func probe(network, address string) error {
	var (
		l   io.Closer
		err error
	)
	if network == "udp" {
		l, err = net.ListenPacket(network, address)
	} else {
		l, err = net.Listen(network, address)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return l.Close()
}

// start does what an operator would do, in the same order.
func (d *demo) start(ctx context.Context) error {
	first := d.nodes[0]
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return d.up(ctx, d.echo, d.backends...) },
		func(ctx context.Context) error { return d.up(ctx, first.process, first.proxy) },
		d.makeToken,
		func(ctx context.Context) error { return d.up(ctx, d.nodes[1].process, d.nodes[1].proxy) },
		func(ctx context.Context) error { return d.up(ctx, d.nodes[2].process, d.nodes[2].proxy) },
		d.awaitVoters,
		func(ctx context.Context) error { return d.route(ctx, "hello", d.backends...) },
		func(ctx context.Context) error { return d.route(ctx, "orders", d.backends[1]) },
	} {
		ctx, cancel := context.WithTimeout(ctx, patience)
		err := step(ctx)
		cancel()
		if err != nil {
			return err
		}
	}
	d.traffic.begin()
	return nil
}

// up starts a process and waits until it answers at its addresses.
func (d *demo) up(ctx context.Context, p *process, addresses ...string) error {
	if err := p.start(d.died); err != nil {
		return err
	}
	for _, address := range addresses {
		if err := await(ctx, p, func() bool { return isReady(ctx, address) }); err != nil {
			return fmt.Errorf("%s does not answer at %s: %w", p.name, address, err)
		}
	}
	return nil
}

// isReady asks a proxy whether it is; a backend answers every question.
func isReady(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/ready", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (d *demo) makeToken(ctx context.Context) error {
	token, err := d.agent(ctx, "token", "join", "--quiet")
	if err != nil {
		return err
	}
	return os.WriteFile(tokenFile, token, 0o600)
}

// awaitVoters waits until all three vote, so that any of them may be killed, and notes who leads.
func (d *demo) awaitVoters(ctx context.Context) error {
	return await(ctx, d.nodes[0].process, func() bool {
		text, err := d.agent(ctx, "raft", "list-peers", "--output", "json")
		var peers []struct {
			Node, Role string
			Leader     bool
		}
		if err != nil || json.Unmarshal(text, &peers) != nil {
			return false
		}
		voters := 0
		for _, p := range peers {
			if p.Role == "voter" {
				voters++
			}
			if i := slices.IndexFunc(d.nodes, func(n *node) bool { return n.name == p.Node }); p.Leader && i >= 0 {
				d.leader = d.nodes[i]
			}
		}
		return voters == len(d.nodes) && d.leader != nil
	})
}

func (d *demo) route(ctx context.Context, id string, backends ...string) error {
	value := fmt.Sprintf("path=/%s/{**catch-all},backends=http://%s", id, strings.Join(backends, ",backends=http://"))
	_, err := d.agent(ctx, "config", "set", "gateway/routes/"+id, value, "--wait", "all", "--quiet")
	return err
}

// agent runs a command on edge-1, and returns what it prints.
func (d *demo) agent(ctx context.Context, args ...string) ([]byte, error) {
	first := d.nodes[0]
	args = append(args, "--addr", "http://"+first.admin, "--timeout", patience.String())
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "agent"), args...)
	cmd.Env = environment()
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w\n%s", strings.Join(args, " "), err, &complaint)
	}
	return text, nil
}

// environment is this process's without the settings of another agent.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AGENT_") })
}

// watch tells of nodes that end, and starts them again when somebody says so, until ctx ends.
func (d *demo) watch(ctx context.Context, enter <-chan struct{}) {
	for {
		select {
		case p := <-d.died:
			d.say("%s has ended: %s. Enter starts it again.\n", p.name, p.result())
		case <-enter:
			d.startAgain()
		case <-ctx.Done():
			d.say("\n")
			return
		}
	}
}

func (d *demo) startAgain() {
	processes := []*process{d.echo}
	for _, n := range d.nodes {
		processes = append(processes, n.process)
	}
	for _, p := range processes {
		if p.running() {
			continue
		}
		if err := p.start(d.died); err != nil {
			d.say("%s: %v\n", p.name, err)
			continue
		}
		d.say("%s runs again, process %d.\n", p.name, p.pid())
	}
}

// stop ends all of it. The traffic goes first, then the nodes in turn, so that each can say goodbye to those that are left.
func (d *demo) stop() {
	d.traffic.end()
	for _, n := range slices.Backward(d.nodes) {
		n.stop()
	}
	d.echo.stop()
	if d.traffic.began() {
		d.say("%s", d.traffic)
	}
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }
