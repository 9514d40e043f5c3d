package routing

import (
	"slices"
)

// Match is what a matcher found.
type Match struct {
	// Index of the rule in the list that the matcher was made from; -1 when no
	// rule takes the request.
	Index int
	// Allow is set when only the method was in the way: the methods, sorted,
	// with which the same request would be taken.
	Allow []string
}

// Linear tries one candidate after the other in their order.
type Linear struct {
	candidates []candidate
}

// NewLinear ranks the rules. It keeps rules' slices, which must not change.
func NewLinear(rules []Rule) *Linear {
	var all []candidate
	for i, rule := range rules {
		if rule.Never {
			continue
		}
		if len(rule.Hosts) == 0 {
			all = append(all, candidate{rule, host{kind: anyHost}, i})
		}
		for _, pattern := range rule.Hosts {
			all = append(all, candidate{rule, parseHost(pattern), i})
		}
	}
	slices.SortFunc(all, candidate.compare)
	return &Linear{all}
}

// Match finds the first candidate that takes r. When the conditions of one
// fail, the next is tried.
func (l *Linear) Match(r Request) Match {
	var allow []string
	for _, c := range l.candidates {
		if !c.host.takes(r.Host) || !takesPath(c.Path, r.Path) {
			continue
		}
		if c.takesMethod(r.Method) {
			return Match{Index: c.index}
		}
		allow = append(allow, c.Methods...)
	}
	slices.Sort(allow)
	return Match{Index: -1, Allow: slices.Compact(allow)}
}
