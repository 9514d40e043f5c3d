package routing

import (
	"slices"
	"strings"

	"grapevine/gateway/spec"
)

// Candidate is a rule whose host and path take a request.
type Candidate struct {
	Rule *Rule
	Host string // the pattern that took the host, empty for any

	candidate *candidate
}

// Candidates are all rules whose host and path take r, in the order in which
// they are tried. It is for people who ask, not for requests.
func (t *Trie) Candidates(r *Request) []Candidate {
	var all []Candidate
	for _, c := range t.every(r) {
		all = append(all, Candidate{c.rule, c.host.String(), c})
	}
	return all
}

// Fails says which condition does not hold for r; empty when all do. The request
// is refused, and no later candidate tried, when that can't be told.
func (c Candidate) Fails(r *Request) (why string, refused bool) {
	conditions := c.Rule.Conditions
	v := conditions.judge(r)
	if v.failed == holds {
		return "", false
	}
	return conditions.explain(v, r), v.err != nil
}

// Behind says why c is tried after d.
func (c Candidate) Behind(d Candidate) string { return c.candidate.behind(d.candidate) }

// Shadowing gives a rule that takes every request which r would take, before r
// is tried; nil when there is none that can be told without trying. When r has
// several hosts and each is shadowed, it is the one of the first.
func (t *Trie) Shadowing(r *Rule) *Rule {
	var first *Rule
	for _, c := range candidates(r) {
		d := t.shadowing(c)
		if d == nil {
			return nil
		}
		if first == nil {
			first = d.rule
		}
	}
	return first
}

func (t *Trie) shadowing(c *candidate) *candidate {
	for _, g := range t.covering(c.host) {
		if g == nil {
			continue
		}
		if d := g.shadowing(c); d != nil {
			return d
		}
	}
	return nil
}

// covering are the groups of all patterns that take every host which h takes.
func (t *Trie) covering(h host) []*group {
	groups := []*group{t.any}
	if h.kind() == exactHost {
		groups = append(groups, t.hosts.get(hashOf([]byte(h))))
	}
	for i := range len(h) {
		if h[i] == '.' {
			groups = append(groups, t.wildcards.get(hashOf([]byte(h[i:]))))
		}
	}
	return groups
}

func (g *group) shadowing(c *candidate) *candidate {
	root := spec.Template{Segments: []spec.Segment{{Kind: spec.CatchAll}}}
	templates := []spec.Template{root} // what takes any path shadows an expression
	if c.rule.Regex == nil {
		templates = []spec.Template{c.rule.Path, folded(c.rule.Path)}
	}
	for _, template := range templates {
		for _, tree := range []*node{g.exact, g.folded} {
			if d := tree.shadowing(template.Segments, c); d != nil {
				return d
			}
		}
	}
	return shadowing(g.expressions.all(), c)
}

// shadowing walks the templates that take every path which the segments take.
func (n *node) shadowing(segments []spec.Segment, c *candidate) *candidate {
	if n == nil {
		return nil
	}
	if n.isLeaf() {
		return shadowing([]*candidate{&n.only}, c)
	}
	for _, l := range []*list{n.rests, n.ends} {
		if d := shadowing(l.all(), c); d != nil {
			return d
		}
	}
	if len(segments) == 0 {
		return nil
	}
	if segments[0].Kind == spec.Literal {
		if d := n.literals.get(hashOf([]byte(segments[0].Text))).shadowing(segments[1:], c); d != nil {
			return d
		}
	}
	return n.param.shadowing(segments[1:], c)
}

// maxShadows bounds the look into one list, which would else take the square of
// the time for thousands of routes with one template.
const maxShadows = 256

// shadowing looks for one of a list that comes before d and takes whatever d
// takes.
func shadowing(candidates []*candidate, d *candidate) *candidate {
	for _, c := range candidates[:min(len(candidates), maxShadows)] {
		if c.rule != d.rule && c.compare(d) < 0 && c.host.covers(d.host) && c.rule.covers(d.rule) && d.conditions.implies(c.conditions) {
			return c
		}
	}
	return nil
}

func (h host) covers(i host) bool {
	switch h.kind() {
	case anyHost:
		return true
	case wildcardHost:
		return strings.HasSuffix(string(i), string(h)) // *.a.h within *.h, and itself
	default:
		return h == i
	}
}

// covers tells whether r takes every path that s takes, as far as that can be
// seen.
func (r *Rule) covers(s *Rule) bool {
	if r.Regex != nil {
		return s.Regex != nil && r.Regex.String() == s.Regex.String()
	}
	ours, theirs := r.Path, s.Path
	if s.Regex != nil {
		return len(ours.Segments) == 1 && ours.CatchAll()
	}
	if r.Fold {
		ours, theirs = folded(ours), folded(theirs)
	} else if s.Fold && theirs.Literals() > 0 {
		return false
	}
	for i, segment := range ours.Segments {
		switch {
		case segment.Kind == spec.CatchAll:
			return true
		case i == len(theirs.Segments) || theirs.Segments[i].Kind == spec.CatchAll:
			return false
		case segment.Kind == spec.Literal && segment != theirs.Segments[i]:
			return false
		}
	}
	return len(ours.Segments) == len(theirs.Segments)
}

// folded is a template in lower case.
func folded(t spec.Template) spec.Template {
	t.Segments = slices.Clone(t.Segments)
	for i := range t.Segments {
		t.Segments[i].Text = string(lower([]byte(t.Segments[i].Text), nil))
	}
	return t
}
