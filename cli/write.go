package cli

import (
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
func writeRequest(c *urfave.Context, method string) (r request, wait string, err error) {
	key := c.Args().First()
	if err := checkKey(key); err != nil {
		return request{}, "", err
	}
	r = request{
		method: method, path: "/v1/kv/" + key, key: key,
		query: url.Values{}, header: http.Header{},
		next: "agent config get " + key + " --detail",
	}
	if wait, err = parseWait(c.String("wait")); err != nil {
		return request{}, "", err
	}
	r.query.Set("wait", wait)
	if wait != "none" {
		r.patience = api.DefaultWaitBound
	}
	if c.Bool("dry-run") {
		r.query.Set("dryRun", "1")
	}
	if cas := c.String("cas"); cas != "" {
		err = compare(r.header, cas)
	}
	return r, wait, err
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

// parseWait reads --wait. A node that stands alone is all the live nodes there are, and so any share of them.
func parseWait(word string) (string, error) {
	switch word {
	case "none", "local":
		return word, nil
	case "all":
		return "local", nil
	}
	share, percent := strings.CutSuffix(word, "%")
	n, err := strconv.Atoi(share)
	if !percent || err != nil || n < 1 || n > 100 {
		return "", usageError("--wait %q: not none, local, all or a share from 1%% to 100%%", word)
	}
	return "local", nil
}

// receipt says which revision a write made and where it is live.
func (s *session) receipt(rev string, applied api.Applied, wait string) error {
	number := shortRev(rev)
	switch {
	case wait == "none":
		s.say("revision %s, committed", number)
	case applied.Nodes < applied.Of:
		return &failure{
			code: exitWait, outcome: written, next: "agent status",
			problem: "revision " + number + ": not live on this node in time",
		}
	case applied.Of == 1:
		s.say("revision %s, live on this node in %d ms", number, applied.Ms)
	default:
		s.say("revision %s, applied by %d/%d nodes in %d ms", number, applied.Nodes, applied.Of, applied.Ms)
	}
	return nil
}

func (s *session) sayFaults(kind string, faults []spec.Fault) {
	for _, fault := range faults {
		s.say("%s: %s", kind, fault.Error())
	}
}
