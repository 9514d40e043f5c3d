// Package reach finds an agent, in the way that its command line does, and says when to
// try it again. It is what those share who speak to an agent from another process: services
// that announce themselves, and gateways that follow one. The standard library alone.
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
	"strings"
)

// defaultAgent is where an agent listens unless it is told otherwise.
const defaultAgent = "http://127.0.0.1:8500"

// Place is where an agent is spoken to.
type Place struct {
	Network string // unix or tcp
	Address string // a path, or host:port
	Base    string // what URLs begin with
}

// String is the place as it is written.
func (p Place) String() string {
	if p.Network == "unix" {
		return "unix://" + p.Address
	}
	return p.Base
}

// Locate finds the agent at an address: unix:///path or http://host:port. Where it is empty
// that is the one that AGENT_ADDR names, else the first socket that exists of
// ./grapevine-data/agent.sock and /run/grapevine/agent.sock, whether or not anybody
// listens, else http://127.0.0.1:8500. An error is about the address.
func Locate(address string) (Place, error) {
	if address != "" {
		return parse("Agent", address)
	}
	if address = os.Getenv("AGENT_ADDR"); address != "" {
		return parse("AGENT_ADDR", address)
	}
	for _, dir := range []string{"grapevine-data", "/run/grapevine"} {
		socket := filepath.Join(dir, "agent.sock")
		if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
			return Place{"unix", socket, "http://agent"}, nil
		}
	}
	return parse("Agent", defaultAgent)
}

func parse(field, address string) (Place, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok && path != "" {
		return Place{"unix", path, "http://agent"}, nil
	}
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Scheme == "https":
		return Place{}, fmt.Errorf("%s %q: the agent's API has no TLS; use unix:///path/agent.sock or http://", field, address)
	case err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return Place{}, fmt.Errorf("%s %q: is not like unix:///path/agent.sock or %s", field, address, defaultAgent)
	}
	return Place{"tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")), "http://" + u.Host}, nil
}

// Dial connects to an agent; tests have their own.
type Dial func(context.Context, Place) (net.Conn, error)

// DialPlace is the Dial of the system.
func DialPlace(ctx context.Context, p Place) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, p.Network, p.Address)
}
