package routing

import (
	"bytes"
	"net/netip"
	"regexp"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Rule says which requests a route takes. It must not change once it is in a
// Trie.
type Rule struct {
	ID spec.RouteID
	// Order comes before everything else; lower is tried first.
	Order int
	// Hosts are folded to lower case; none means any host.
	Hosts []string
	Path  spec.Template
	// Regex stands instead of Path when it is set. It is anchored.
	Regex *regexp.Regexp
	// Fold matches the path without regard to ASCII case.
	Fold bool
	// Conditions are nil when there are none.
	Conditions *Conditions
	// Value is the caller's.
	Value any
}

// NewRule makes the rule of a route. A route that has neither path nor
// pathRegex takes nothing and has none.
func NewRule(id string, r *spec.Route, value any) *Rule {
	if r.Path == "" && r.PathRegex == "" {
		return nil
	}
	rule := &Rule{
		ID: spec.RouteID(id), Order: r.Order, Path: r.Path.Template(), Fold: r.CaseInsensitive,
		Conditions: NewConditions(r), Value: value,
	}
	if r.PathRegex != "" {
		whole := r.PathRegex
		if r.CaseInsensitive {
			whole = "(?i:" + whole + ")"
		}
		rule.Regex = whole.Whole()
	}
	for _, host := range r.Hosts {
		rule.Hosts = append(rule.Hosts, string(host))
	}
	return rule
}

// Request is what a rule looks at.
type Request struct {
	Method string
	Host   []byte // see Hostname
	Path   []byte // canonical
	Query  []byte // raw, empty or with its question mark
	Fields exchange.Fields
	Client netip.Addr // the zero Addr is unknown
}

// takesRegex matches a canonical path. A trailing slash is ignored.
func (r *Rule) takesRegex(path []byte) bool {
	return r.Regex.Match(path) || len(path) > 1 && path[len(path)-1] == '/' && r.Regex.Match(path[:len(path)-1])
}

// firstSegment cuts "/a/b" into "a" and "/b".
func firstSegment(path []byte) (segment, rest []byte) {
	if end := bytes.IndexByte(path[1:], '/'); end >= 0 {
		return path[1 : 1+end], path[1+end:]
	}
	return path[1:], nil
}
