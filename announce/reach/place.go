// Package reach finds an agent, and says when to try it again. It is what those share who
// speak to an agent from another process: its command line, services that announce
// themselves, and gateways that follow one. The standard library alone.
package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// DefaultAgent is where an agent listens unless it is told otherwise.
const DefaultAgent = "http://127.0.0.1:8500"

// Place is where an agent is spoken to.
type Place struct {
	Network string // unix or tcp
	Address string // a path, or host:port
	Base    string // what URLs begin with
	// Missing are the sockets that were looked for before, and are not there.
	Missing []string
}

// String is the place as it is written.
func (p Place) String() string {
	if p.Network == "unix" {
		return "unix://" + p.Address
	}
	return p.Base
}

// Locate finds the agent at an address: unix:///path or http://host:port. Where it is empty
// that is the one that AGENT_ADDR names, else the first socket that exists of an agent on
// this host, else DefaultAgent. A socket is taken whether or not anybody listens: to go
// on to another agent could change the wrong one. An error is about the address, and
// begins with the field that has it.
func Locate(field, address string) (Place, error) {
	if address != "" {
		return parse(field, address)
	}
	if address = os.Getenv("AGENT_ADDR"); address != "" {
		return parse("AGENT_ADDR", address)
	}
	var missing []string
	for _, socket := range sockets() {
		if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
			p := onSocket(socket)
			p.Missing = missing
			return p, nil
		}
		missing = append(missing, socket)
	}
	p, err := parse(field, DefaultAgent)
	p.Missing = missing
	return p, err
}

// sockets are where agents on this host listen: one that was started in this directory, and
// one that systemd runs, or this process beside it. RUNTIME_DIRECTORY may be another
// service's, so it is not the only one; of several with colons between them the first
// is an agent's.
func sockets() []string {
	dirs := []string{"grapevine-data"}
	if first, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":"); first != "" {
		dirs = append(dirs, first)
	}
	var paths []string
	for _, dir := range append(dirs, "/run/grapevine") {
		if path := filepath.Join(dir, "agent.sock"); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func onSocket(path string) Place { return Place{Network: "unix", Address: path, Base: "http://agent"} }

func parse(field, address string) (Place, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok && path != "" {
		return onSocket(path), nil
	}
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Scheme == "https":
		return Place{}, fmt.Errorf("%s %q: the agent's API has no TLS; use unix:///path/agent.sock or http://", field, address)
	case err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return Place{}, fmt.Errorf("%s %q: not like unix:///path/agent.sock or %s", field, address, DefaultAgent)
	}
	return Place{Network: "tcp", Address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")), Base: "http://" + u.Host}, nil
}

// Dial connects to an agent; tests have their own.
type Dial func(context.Context, Place) (net.Conn, error)

// DialPlace is the Dial of the system.
func DialPlace(ctx context.Context, p Place) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, p.Network, p.Address)
}
