package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"grapevine/agent/api"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// writeFlags are the flags of every command that writes. A command that has --dry-run counts as one.
func writeFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.BoolFlag{Name: "dry-run", Usage: "check everything, --cas too, and write nothing"},
		&urfave.StringFlag{Name: "cas", Usage: "only if the key still has revision `REV`; 0: only if it is absent"},
		&urfave.StringFlag{
			Name: "wait", Value: "local",
			Usage: "return when `WHERE` serves the change: none, local (this node), 50% or all of the live nodes",
		},
	}
}

// writeRequest makes the request of a command that writes the key in its first argument.
func writeRequest(c *urfave.Context, method string) (r request, share api.Share, err error) {
	key := c.Args().First()
	if err := checkKey(key); err != nil {
		return request{}, share, err
	}
	r = request{
		method: method, path: "/v1/kv/" + key, key: key,
		query: url.Values{}, header: http.Header{},
		next: "agent config get " + key + " --detail", bounded: true,
	}
	if share, err = api.ParseShare(c.String("wait")); err != nil {
		return request{}, share, usageError("--wait %v", err)
	}
	r.query.Set("wait", share.String())
	r.waits = share != api.Nobody
	if c.Bool("dry-run") {
		r.query.Set("dryRun", "1")
	}
	if cas := c.String("cas"); cas != "" {
		err = compare(r.header, cas)
	}
	return r, share, err
}

// compare makes a write depend on the revision of its key.
func compare(h http.Header, cas string) error {
	if cas == "0" {
		h.Set("If-None-Match", "*")
		return nil
	}
	if _, err := kv.ParseRev(cas, 0); err != nil {
		return usageError("--cas: %v", err)
	}
	h.Set("If-Match", strconv.Quote(cas))
	return nil
}

// receipt says which revision a write made and where it is live.
func (s *session) receipt(rev string, applied api.Applied, share api.Share) error {
	number, nodes := shortRev(rev), fmt.Sprintf("%d/%d nodes", applied.Nodes, applied.Of)
	switch {
	case share == api.Nobody:
		s.say("revision %s, committed", number)
	case share == api.Local && applied.Nodes == 0:
		return &failure{
			code: exitWait, outcome: written, next: "agent status",
			problem: fmt.Sprintf("revision %s: not %s %s in time", number, becomes(applied), s.place()),
		}
	case applied.Nodes < share.Of(applied.Of):
		return &failure{
			code: exitWait, outcome: written, next: "agent members",
			problem: fmt.Sprintf("revision %s, applied by %s after %s; not yet: %s",
				number, nodes, span(applied.Ms), cmp.Or(strings.Join(applied.Missing, ", "), "unknown")),
		}
	case share == api.Local && applied.NoGateway:
		s.say("revision %s, held by %s in %s; it runs no gateway, and others serve the change", number, s.place(), span(applied.Ms))
	case share == api.Local || applied.Of == 1 && !applied.NoGateway:
		s.say("revision %s, live on %s in %s", number, s.place(), span(applied.Ms))
	default:
		s.say("revision %s, applied by %s in %s (slowest: %s)", number, nodes, span(applied.Ms), cmp.Or(applied.Slowest, "unknown"))
	}
	return nil
}

// becomes is what a change is at the node that answers.
func becomes(applied api.Applied) string {
	if applied.NoGateway {
		return "held by"
	}
	return "live on"
}

// place is the node that answers.
func (s *session) place() string { return cmp.Or(s.agent.node, "this node") }

func (s *session) sayFaults(kind string, faults []spec.Fault) {
	for _, fault := range faults {
		s.say("%s: %s", kind, fault.Error())
	}
}
