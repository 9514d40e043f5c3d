package announce

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"grapevine/announce/reach"
)

// DefaultDrain is how long a service that stops waits for the gateways.
const DefaultDrain = 5 * time.Second

// DefaultHeartbeat is the agent's own default.
const DefaultHeartbeat = 10 * time.Second

// Config says what is announced and to whom. Route, Path and Address are
// required; the zero value of every other field is its default.
type Config struct {
	// Agent is unix:///path/agent.sock or http://host:port. Empty: the
	// environment variable AGENT_ADDR, else the first of ./grapevine-data/agent.sock
	// and /run/grapevine/agent.sock that exists, else http://127.0.0.1:8500,
	// looked for anew at each attempt.
	Agent string

	// Route is the id of the route that all instances of the service share.
	Route string
	// Instance is this instance's own id: 1 to 64 of a-z, 0-9, '.', '_' and '-'.
	// Empty: the agent makes one, which the Announcer keeps. If another instance
	// of the route announces itself with the same id, that one takes its place.
	Instance string

	// Path is the template of the paths it serves, as /warehouse/{**catch-all}.
	Path string
	// PathRemovePrefix are leading segments of Path that it does not see.
	PathRemovePrefix string
	// Address is where the gateways reach it, as http://10.0.0.5:8080. It is
	// never guessed: in a container or behind a forwarded port a listener's own
	// address is not where others reach it. ListenAndServe and Serve put the
	// listener's port in the place of {port}.
	Address string
	// Version is what it runs, Region where.
	Version, Region string
	// Weight is its share of the requests, relative to the others. nil: 1; 0: it
	// gets none until SetWeight.
	Weight *int
	// RequireAuth refuses requests without a valid token, AllowAnonymous never
	// asks for one. Not both. An operator's route may ask for more.
	RequireAuth, AllowAnonymous bool
	// Token is what gateway/config/announce grants the announcement by. Empty:
	// none, which is enough on the unix socket and on loopback unless an operator
	// has decided otherwise.
	Token string
	// Labels are free names and values for tools.
	Labels map[string]string

	// Heartbeat is how often the instance says how it is, 100 ms to 10 minutes.
	// The agent takes an instance that stopped saying it for degraded after two
	// and for unhealthy after three heartbeats. 0: none until SetStatus is
	// called, and every 10 s from then on; the connection alone says that it
	// lives.
	Heartbeat time.Duration
	// Load is asked before each heartbeat. nil: no load is told. It must not block.
	Load func() Load

	// Drain bounds how long Close waits for the gateways. 0: 5 s; negative: Close
	// does not drain at all.
	Drain time.Duration

	// OnChange is told each change of the Status, one at a time and in order, the
	// first one before Start returns. It must not block, and must not call Close
	// or Drain.
	OnChange func(Status)
	// Logger gets a line for each change of the connection's state. nil: slog.Default().
	Logger *slog.Logger
}

// Load is what an instance has to do.
type Load struct {
	InFlight  int     // requests under way
	ErrorRate float64 // share of the latest requests that failed, 0 to 1
}

var instanceID = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// check reports all that is wrong at once. What a path or an id may look like
// is the agent's to say.
func (c *Config) check() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, fmt.Errorf("announce: %s%w", field, fmt.Errorf(format, args...)))
	}
	if _, err := reach.Locate("Agent", c.Agent); err != nil {
		faults = append(faults, fmt.Errorf("announce: %w", err))
	}
	if c.Route == "" {
		fault("Route", ": is missing: the id of the route that all instances of the service share")
	}
	if c.Instance != "" && !instanceID.MatchString(c.Instance) {
		fault("Instance", " %q: must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", c.Instance)
	}
	if c.Path == "" {
		fault("Path", ": is missing: the template of the paths it serves, as /warehouse/{**catch-all}")
	}
	if problem := checkAddress(c.Address); problem != "" {
		fault("Address", "%s", problem)
	}
	if c.Weight != nil && *c.Weight < 0 {
		fault("Weight", " %d: must not be negative", *c.Weight)
	}
	if c.RequireAuth && c.AllowAnonymous {
		fault("AllowAnonymous", ": cannot stand beside RequireAuth")
	}
	if c.Heartbeat != 0 && (c.Heartbeat < 100*time.Millisecond || c.Heartbeat > 10*time.Minute) {
		fault("Heartbeat", " %v: must be 100ms to 10m, or 0", c.Heartbeat)
	}
	return errors.Join(faults...)
}

// checkAddress says what is wrong with the address of an instance, in words that
// follow the field's name.
func checkAddress(address string) string {
	if address == "" {
		return ": is missing: where the gateways reach the instance, as http://10.0.0.5:8080"
	}
	if strings.Contains(address, "{port}") {
		return fmt.Sprintf(" %q: only ListenAndServe and Serve know a port to put in the place of {port}", address)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Sprintf(" %q: is not like http://10.0.0.5:8080", address)
	}
	if u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Sprintf(" %q: must be scheme, host and port alone", address)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() {
		return fmt.Sprintf(" %q: nobody can reach %s: write the address that the gateways use", address, u.Hostname())
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Sprintf(" %q: port %s is none that can be reached", address, port)
		}
	}
	return ""
}

// drain is how long Close drains; 0: not at all.
func (c *Config) drain() time.Duration {
	return max(0, cmp.Or(c.Drain, DefaultDrain))
}
