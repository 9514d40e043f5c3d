package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// place is where an agent is spoken to: on a unix socket or on a TCP address.
type place struct {
	network string // unix or tcp
	address string // a path, or host:port
	base    string // what URLs begin with
	tried   []string
}

// defaultAddress is where an agent listens unless it is told otherwise.
const defaultAddress = "http://127.0.0.1:8500"

func (p place) String() string {
	if p.network == "unix" {
		return "unix://" + p.address
	}
	return p.base
}

// findAgent reads an address, or where none is given looks for the socket of an agent on this host: first that of an
// agent started in this directory, then that of a service. A socket that exists is taken, whether or not anybody
// listens: to go on to another agent could change the wrong one.
func findAgent(address string) (place, error) {
	if address != "" {
		return parseAddress(address)
	}
	var missing []string
	for _, path := range socketPaths() {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return place{network: "unix", address: path, base: "http://agent", tried: missing}, nil
		}
		missing = append(missing, path)
	}
	p, err := parseAddress(defaultAddress)
	p.tried = missing
	return p, err
}

func socketPaths() []string {
	// systemd lists more than one directory with colons between them; the first is ours.
	first, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	runtime := cmp.Or(first, "/run/grapevine")
	return []string{filepath.Join("grapevine-data", "agent.sock"), filepath.Join(runtime, "agent.sock")}
}

func parseAddress(address string) (place, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok && path != "" {
		return place{network: "unix", address: path, base: "http://agent"}, nil
	}
	u, err := url.Parse(address)
	switch {
	case err == nil && u.Scheme == "https":
		return place{}, usageError("--addr %q: TLS is not in this version; use http:// or unix://", address)
	case err != nil || u.Scheme != "http" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return place{}, usageError("--addr %q: not like unix:///path/agent.sock or %s", address, defaultAddress)
	}
	return place{network: "tcp", address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")), base: "http://" + u.Host}, nil
}
