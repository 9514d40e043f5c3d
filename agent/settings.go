package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"grapevine/gateway/spec"
)

// settings are what a node can't change while it runs: flag over file over default.
type settings struct {
	dataDir              string // empty: in memory
	node, region         string
	http, admin, metrics setting
	gossip               setting // no value: the node is in no cluster
	socket               setting
	cluster              clusterSettings
}

// setting is a value and where it comes from.
type setting struct {
	name  string // of its field in the static file, and of its flag
	value string
	// refuse makes the error that names the place.
	refuse func(problem string) error
}

// resolver gathers everything that is wrong with the settings.
type resolver struct {
	file   *spec.File
	faults []error
	usage  []error
}

// resolve lays the configuration over the file.
func (c Config) resolve(file *spec.File) (settings, error) {
	r := &resolver{file: file}
	var s settings
	if !c.Dev {
		s.dataDir = cmp.Or(c.DataDir, DefaultDataDir())
	}
	s.node = cmp.Or(r.name("--node", c.Node), string(file.Node.Name), hostname())
	s.region = cmp.Or(r.name("--region", c.Region), string(file.Node.Region))

	l := file.Listeners
	if !c.NoGateway {
		s.http = r.address("http", c.HTTP, string(l.HTTP), c.defaultHTTP())
	}
	s.admin = r.address("admin", c.Admin, string(l.Admin), DefaultAdmin)
	s.metrics = r.address("metrics", c.Metrics, string(l.Metrics), "")
	s.gossip = r.address("gossip", c.Gossip, string(l.Gossip), c.defaultGossip())
	s.cluster = r.resolveCluster(c)
	s.socket = r.choose("socket", c.Socket, l.Socket, c.defaultSocket(s.dataDir))

	r.refuseWithoutGateway(c)
	r.refuse(c.Dev && c.DataDir != "", r.fromFlag("data-dir", c.DataDir), "--dev keeps everything in memory")
	r.refuse(l.HTTPS != "", r.fromFile("https", string(l.HTTPS)), "this version does not serve HTTPS yet")
	r.refuse(!isLoopback(s.admin.value), s.admin,
		"the API has no TLS and no tokens in this version, so it stays on loopback, as "+DefaultAdmin)
	r.refuse(c.Insecure && !isLoopback(s.gossip.value), s.gossip, "--insecure is for loopback, as "+DefaultGossip)
	for _, listener := range []setting{s.http, s.metrics, s.gossip} {
		r.refuse(c.Dev && !isLoopback(listener.value), listener, "--dev stays on loopback, as "+DevHTTP)
	}
	return s, r.err()
}

// refuseWithoutGateway refuses what only a gateway could do, on a node that has none.
func (r *resolver) refuseWithoutGateway(c Config) {
	if !c.NoGateway {
		return
	}
	r.refuse(c.Dev, r.fromFlag("no-gateway", "true"), "--dev is a node alone, and without a gateway nobody would serve")
	r.refuse(c.HTTP != "", r.fromFlag("http", c.HTTP), "--no-gateway has no proxy to listen there")
	r.refuse(c.Voter == VoterYes, r.fromFlag("voter", c.Voter), "a voter judges writes by its gateway, which --no-gateway leaves out")
	if n := len(r.file.Routes) + len(r.file.Clusters); n > 0 {
		r.usage = append(r.usage, fmt.Errorf("--no-gateway: the configuration files have %d routes and clusters, which nobody would serve", n))
	}
}

func (c Config) defaultHTTP() string {
	if c.Dev {
		return DevHTTP
	}
	return DefaultHTTP
}

func (c Config) defaultGossip() string {
	if c.Dev {
		return ""
	}
	return DefaultGossip
}

func (c Config) defaultSocket(dataDir string) string {
	if c.Dev {
		return ""
	}
	return DefaultSocket(dataDir)
}

// DefaultDataDir is where an agent keeps its data unless it is told otherwise.
func DefaultDataDir() string { return cmp.Or(systemDir("STATE_DIRECTORY"), "grapevine-data") }

// DefaultSocket is where the agent with this data directory has its unix socket unless it is told otherwise.
func DefaultSocket(dataDir string) string {
	return filepath.Join(cmp.Or(systemDir("RUNTIME_DIRECTORY"), dataDir), "agent.sock")
}

// systemDir is a directory that systemd made for the service: the first where there are several.
func systemDir(variable string) string {
	first, _, _ := strings.Cut(os.Getenv(variable), ":")
	return first
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || new(spec.Name).UnmarshalText([]byte(name)) != nil {
		return "node"
	}
	return name
}

// name checks the value of a flag that names something.
func (r *resolver) name(flag, value string) string {
	if value == "" {
		return ""
	}
	if err := new(spec.Name).UnmarshalText([]byte(value)); err != nil {
		r.usage = append(r.usage, fmt.Errorf("%s %q: %w", flag, value, err))
	}
	return value
}

// choose takes the flag, else the file, else the default.
func (r *resolver) choose(name, flag, file, otherwise string) setting {
	switch {
	case flag != "":
		return r.fromFlag(name, flag)
	case file != "":
		return r.fromFile(name, file)
	}
	return r.fromFlag(name, otherwise)
}

func (r *resolver) fromFlag(name, value string) setting {
	return setting{name, value, func(problem string) error {
		err := fmt.Errorf("--%s %q: %s", name, value, problem)
		r.usage = append(r.usage, err)
		return err
	}}
}

func (r *resolver) fromFile(name, value string) setting {
	return setting{name, value, func(problem string) error {
		err := r.file.Locate(spec.Fault{Key: "listeners", Field: name, Value: value, Problem: problem})
		r.faults = append(r.faults, err)
		return err
	}}
}

// address is choose for an address; a file's is checked already.
func (r *resolver) address(name, flag, file, otherwise string) setting {
	s := r.choose(name, flag, file, otherwise)
	if s.value == "" {
		return s
	}
	var address spec.ListenAddress
	if err := address.UnmarshalText([]byte(s.value)); err != nil {
		s.refuse(err.Error())
		s.value = "" // nothing further can be said of it
		return s
	}
	if strings.HasPrefix(s.value, "https://") {
		s.refuse("this version does not serve HTTPS yet")
	}
	s.value = string(address)
	return s
}

func (r *resolver) refuse(when bool, s setting, problem string) {
	if when {
		s.refuse(problem)
	}
}

// err is everything that is wrong; a fault in a file outranks one in a flag for the exit code.
func (r *resolver) err() error {
	all := errors.Join(append(r.faults, r.usage...)...)
	if len(r.faults) > 0 {
		return exit(exitInvalid, all)
	}
	return exit(exitUsage, all)
}

// isLoopback says whether an address can be reached from this machine only. A listener that is not there is.
func isLoopback(address string) bool {
	if address == "" {
		return true
	}
	host := address[:strings.LastIndexByte(address, ':')]
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}
