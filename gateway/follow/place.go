package follow

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

// place is where an agent is spoken to.
type place struct {
	network string // unix or tcp
	address string // a path, or host:port
	base    string // what URLs begin with
}

func (p place) String() string {
	if p.network == "unix" {
		return "unix://" + p.address
	}
	return p.base
}

// locate finds the agent as its command line and package announce do: the first socket
// that exists is taken, whether or not anybody listens.
func locate(address string) (place, error) {
	if address != "" {
		return parsePlace("Agent", address)
	}
	if address = os.Getenv("AGENT_ADDR"); address != "" {
		return parsePlace("AGENT_ADDR", address)
	}
	for _, dir := range []string{"grapevine-data", "/run/grapevine"} {
		socket := filepath.Join(dir, "agent.sock")
		if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
			return place{"unix", socket, "http://agent"}, nil
		}
	}
	return parsePlace("Agent", defaultAgent)
}

func parsePlace(field, address string) (place, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok && path != "" {
		return place{"unix", path, "http://agent"}, nil
	}
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Scheme == "https":
		return place{}, fmt.Errorf("%s %q: the agent's API has no TLS; use unix:///path/agent.sock or http://", field, address)
	case err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return place{}, fmt.Errorf("%s %q: is not like unix:///path/agent.sock or %s", field, address, defaultAgent)
	}
	return place{"tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")), "http://" + u.Host}, nil
}

// dial connects to an agent; tests have their own.
type dial func(context.Context, place) (net.Conn, error)

func dialPlace(ctx context.Context, p place) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, p.network, p.address)
}
