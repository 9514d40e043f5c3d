package routing

import (
	"bytes"
	"math"
	"slices"
)

// Match is what a trie found.
type Match struct {
	// Rule takes the request; nil when none does.
	Rule *Rule
	// Allow is set when only the method was in the way: the methods, sorted,
	// with which the same request would be taken.
	Allow []string
	// Err wraps ErrAmbiguousQuery when the choice depends on a query that can be
	// read in two ways. Rule is the one whose condition does.
	Err error
}

// Match finds the first rule, in their order, that takes r. When the conditions
// of one fail, the next is tried.
func (t *Trie) Match(r *Request) Match {
	var s search
	s.begin(r)
	t.visit(&s)
	switch {
	case s.best != nil:
		return Match{Rule: s.best.rule, Err: s.err}
	case s.tried:
		return Match{Allow: t.allow(r)}
	default:
		return Match{}
	}
}

// search is a walk through a trie.
type search struct {
	*Request
	path []byte // without a trailing slash
	// What candidates are compared with: the part of the host that their pattern
	// names, and path in the case of their tree.
	host, compared []byte

	tried bool // whether conditions were all that was in the way
	best  *candidate
	err   error // what its conditions say, when they can't decide
	bound rank  // what has this rank or a higher one is too late

	// all, when set, collects every candidate whose host and path take the
	// request, and nothing is cut short.
	all *[]*candidate
}

func (s *search) begin(r *Request) {
	s.Request, s.bound = r, math.MaxUint64
	s.path = bytes.TrimSuffix(r.Path, []byte("/"))
}

// visit walks the groups of all patterns that take the host, in their order.
func (t *Trie) visit(s *search) {
	if t == nil {
		return
	}
	if t.hosts != nil {
		s.group(t.hosts.get(hashOf(s.Host)), s.Host)
	}
	if t.wildcards != nil {
		for i, c := range s.Host {
			if c == '.' && i > 0 {
				s.group(t.wildcards.get(hashOf(s.Host[i:])), s.Host[i:])
			}
		}
	}
	s.group(t.any, nil)
}

// group looks for a better candidate, among those of one host pattern. Those of
// an earlier group win unless their order is higher.
func (s *search) group(g *group, pattern []byte) {
	if g == nil {
		return
	}
	if s.best != nil {
		s.bound = firstOf(s.best.rule.Order)
	}
	s.host, s.compared = pattern, s.path
	s.node(g.exact, s.path)
	s.list(g.expressions)
	if g.folded != nil {
		var buffer [256]byte
		s.compared = lower(s.path, buffer[:0])
		s.node(g.folded, s.compared)
	}
}

// node walks what is below n. rest is what is left of the path.
func (s *search) node(n *node, rest []byte) {
	switch {
	case n == nil:
	case n.isLeaf(): // which is asked first, since it is in the same cache line
		s.one(&n.only)
	case n.least >= s.bound:
	case len(rest) == 0:
		s.list(n.ends)
		s.list(n.rests)
	default:
		segment, rest := firstSegment(rest)
		if n.literals != nil {
			s.node(n.literals.get(hashOf(segment)), rest)
		}
		s.node(n.param, rest)
		s.list(n.rests)
	}
}

// list tries candidates until one of them is better than the best.
func (s *search) list(l *list) {
	for _, c := range l.all() {
		if s.one(c) {
			return
		}
	}
}

// one tries a candidate, and tells whether it ends a ranked list.
func (s *search) one(c *candidate) bool {
	return s.late(c) || s.takes(c) && s.try(c)
}

// late tells whether c comes after what was found.
func (s *search) late(c *candidate) bool {
	return c.rank >= s.bound || s.best != nil && c.compareWithin(s.best) > 0
}

// takes compares the candidate with host and path: the walk has compared hashes
// alone.
func (s *search) takes(c *candidate) bool {
	if string(c.host) != string(s.host) {
		return false
	}
	if c.rule.Regex != nil {
		return c.rule.takesRegex(s.Path)
	}
	return c.takes(s.compared)
}

// try takes c if its conditions hold, or can't decide.
func (s *search) try(c *candidate) bool {
	s.tried = true
	if s.all != nil {
		*s.all = append(*s.all, c)
		return false
	}
	v := c.conditions.judge(s.Request)
	if v.failed != holds && v.err == nil {
		return false
	}
	// One more, since one of the same rank may still come first by its id.
	s.best, s.err, s.bound = c, v.err, c.rank+1
	return true
}

// every collects the candidates whose host and path take r, in their order.
func (t *Trie) every(r *Request) []*candidate {
	all := []*candidate{}
	s := search{all: &all}
	s.begin(r)
	t.visit(&s)
	slices.SortFunc(all, (*candidate).compare)
	return all
}

// allow are the methods with which r would be taken.
func (t *Trie) allow(r *Request) []string {
	var allow []string
	for _, c := range t.every(r) {
		if c.conditions.judge(r).failed == methodFailed && c.conditions.judgeRest(r) == (verdict{}) {
			allow = append(allow, c.conditions.Methods...)
		}
	}
	slices.Sort(allow)
	return slices.Compact(allow)
}
