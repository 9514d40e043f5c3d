package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (h *HeaderChanges) check(c *checks) {
	for name := range h.Set {
		checkHeader(c, "set."+string(name), name)
	}
	for name := range h.Append {
		checkHeader(c, "append."+string(name), name)
	}
	for i, name := range h.Remove {
		checkHeader(c, fmt.Sprintf("remove[%d]", i), name)
	}
	h.checkTwins(c)
}

func checkHeader(c *checks, field string, name HeaderName) {
	if isHopHeader(string(name)) {
		c.fault(field, "header %s belongs to the connection: the gateway alone decides on it", name)
	}
}

// checkTwins compares names as CGI does, for which X_Id and X-Id are one
// (RFC 3875 §4.1.18): what is set replaces both.
func (h *HeaderChanges) checkTwins(c *checks) {
	set := map[string]HeaderName{}
	for _, name := range slices.Sorted(maps.Keys(h.Set)) {
		if first, ok := set[twin(name)]; ok {
			c.fault("set."+string(name), "is the same header as %s to some backends: give one of them", first)
		}
		set[twin(name)] = name
	}
	for i, name := range h.Remove {
		if _, ok := set[twin(name)]; ok && !isHost(string(name)) {
			c.fault(fmt.Sprintf("remove[%d]", i), "is not needed beside set, which replaces the header")
		}
	}
}

func twin(name HeaderName) string {
	return strings.ToLower(strings.ReplaceAll(string(name), "_", "-"))
}

// check is about the host, which is no header to the gateway but can be set like
// one for the backend, and about Via, by which gateways find that a request goes
// in circles.
func (t *Transforms) check(c *checks) {
	if r := t.Request; r != nil {
		for name, value := range r.Set {
			checkAuthority(c, "request.set."+string(name), name, value)
		}
		refuse(c, "request", isHost, nil, r.Append, r.Remove, "the host can only be set")
		refuse(c, "request", isVia, r.Set, r.Append, r.Remove, "the gateway uses it to find loops")
	}
	if r := t.Response; r != nil {
		refuse(c, "response", isHost, r.Set, r.Append, r.Remove, "a response has no host")
	}
}

func checkAuthority(c *checks, field string, name HeaderName, value HeaderValue) {
	if !isHost(string(name)) || c.failed(field) {
		return
	}
	if _, err := parseHostPort(string(value)); err != nil {
		c.fault(field, "must be host or host:port: %v", err)
	}
}

// refuse gives every change of a header the same fault.
func refuse(
	c *checks, where string, is func(name string) bool,
	set, added map[HeaderName]HeaderValue, removed []HeaderName, problem string,
) {
	for name := range set {
		if is(string(name)) {
			c.fault(fmt.Sprintf("%s.set.%s", where, name), "%s", problem)
		}
	}
	for name := range added {
		if is(string(name)) {
			c.fault(fmt.Sprintf("%s.append.%s", where, name), "%s", problem)
		}
	}
	for i, name := range removed {
		if is(string(name)) {
			c.fault(fmt.Sprintf("%s.remove[%d]", where, i), "%s", problem)
		}
	}
}

func isHost(name string) bool { return strings.EqualFold(name, "host") }

func isVia(name string) bool { return strings.EqualFold(name, "via") }
