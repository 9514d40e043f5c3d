package routing

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"grapevine/gateway/spec"
)

// Rule says which requests a route takes.
type Rule struct {
	ID spec.RouteID
	// Order comes before everything else; lower is tried first.
	Order int
	// Hosts are folded to lower case; none means any host.
	Hosts []string
	Path  spec.Template
	// Methods are compared exactly; none means any method.
	Methods []string
	// Never makes a rule that takes nothing, so that lists keep their indexes.
	Never bool
}

// Request is what a rule looks at. Host has no port and is in lower case; Path
// is canonical.
type Request struct {
	Method string
	Host   string
	Path   []byte
}

// candidate is a rule together with one of its hosts: what is ranked.
type candidate struct {
	Rule
	host host
	// index is the rule's place in the list that the matcher was made from.
	index int
}

// compare ranks candidates: the lower is tried first. It is total over rules
// with distinct ids.
func (c candidate) compare(d candidate) int {
	return cmp.Or(
		cmp.Compare(c.Order, d.Order),
		c.host.compare(d.host),
		-cmp.Compare(c.Path.Literals(), d.Path.Literals()),
		cmp.Compare(c.Path.Parameters(), d.Path.Parameters()),
		compareBool(c.Path.CatchAll(), d.Path.CatchAll()),
		-cmp.Compare(len(c.Path.Segments), len(d.Path.Segments)),
		-cmp.Compare(c.conditions(), d.conditions()),
		cmp.Compare(c.ID, d.ID),
		cmp.Compare(c.host.name, d.host.name),
	)
}

// conditions counts what must hold beside host and path.
func (r Rule) conditions() int {
	if len(r.Methods) > 0 {
		return 1
	}
	return 0
}

func (r Rule) takesMethod(method string) bool {
	return len(r.Methods) == 0 || slices.Contains(r.Methods, method)
}

// takesPath matches a canonical path. A trailing slash is ignored, and a
// catch-all also takes nothing.
func takesPath(template spec.Template, path []byte) bool {
	rest := bytes.TrimSuffix(path, []byte("/"))
	for _, segment := range template.Segments {
		if segment.Kind == spec.CatchAll {
			return true
		}
		if len(rest) == 0 {
			return false
		}
		var text []byte
		text, rest = firstSegment(rest)
		if segment.Kind == spec.Literal && string(text) != segment.Text {
			return false
		}
	}
	return len(rest) == 0
}

// firstSegment cuts "/a/b" into "a" and "/b".
func firstSegment(path []byte) (segment, rest []byte) {
	if end := bytes.IndexByte(path[1:], '/'); end >= 0 {
		return path[1 : 1+end], path[1+end:]
	}
	return path[1:], nil
}

// hostKind ranks the ways to name a host.
type hostKind int

const (
	exactHost hostKind = iota
	wildcardHost
	anyHost
)

// host is one host pattern of a rule.
type host struct {
	kind hostKind
	// name is the whole name, or what follows the star with its dot.
	name string
}

func parseHost(pattern string) host {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return host{wildcardHost, suffix}
	}
	return host{exactHost, pattern}
}

func (h host) compare(i host) int {
	return cmp.Or(cmp.Compare(h.kind, i.kind), h.compareWildcards(i))
}

// compareWildcards puts the longer suffix first; exact names can't both match.
func (h host) compareWildcards(i host) int {
	if h.kind != wildcardHost {
		return 0
	}
	return -cmp.Compare(len(h.name), len(i.name))
}

// takes matches name. A wildcard stands for one or more labels.
func (h host) takes(name string) bool {
	switch h.kind {
	case exactHost:
		return name == h.name
	case wildcardHost:
		return len(name) > len(h.name) && strings.HasSuffix(name, h.name)
	default:
		return true
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
