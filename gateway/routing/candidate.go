package routing

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"grapevine/gateway/spec"
)

// candidate is a rule together with one of its host patterns: what is ranked. It
// holds what a match reads, and fits into one cache line.
type candidate struct {
	rank       rank
	conditions *Conditions
	rule       *Rule
	pattern    string // of the path, see patternOf
	host       host
}

func candidates(r *Rule) []*candidate {
	c := candidate{rank: rankOf(r), conditions: r.Conditions, rule: r, pattern: patternOf(r)}
	if len(r.Hosts) == 0 {
		return []*candidate{&c}
	}
	all := make([]*candidate, 0, len(r.Hosts))
	for _, pattern := range r.Hosts {
		each := c
		each.host = host(strings.TrimPrefix(pattern, "*"))
		all = append(all, &each)
	}
	return all
}

// The bytes in a pattern that stand for a segment; no path holds them.
const (
	anySegment = 0
	anyRest    = 1
)

// patternOf is the template as one text, in the case in which it is compared.
func patternOf(r *Rule) string {
	var b strings.Builder
	for _, segment := range r.Path.Segments {
		b.WriteByte('/')
		switch segment.Kind {
		case spec.Parameter:
			b.WriteByte(anySegment)
		case spec.CatchAll:
			b.WriteByte(anyRest)
		default:
			b.WriteString(segment.Text)
		}
	}
	if r.Fold {
		return string(lower([]byte(b.String()), nil))
	}
	return b.String()
}

// takes compares a canonical path without a trailing slash.
func (c *candidate) takes(path []byte) bool {
	pattern := c.pattern
	at := 0
	for i := 0; i < len(pattern); i++ {
		switch {
		case at < len(path) && pattern[i] == path[at]:
			at++
		case pattern[i] == anySegment && at < len(path) && path[at] != '/':
			if end := bytes.IndexByte(path[at:], '/'); end >= 0 {
				at += end
			} else {
				at = len(path)
			}
		case pattern[i] == anyRest:
			return true
		default: // a catch-all takes nothing, too
			return at == len(path) && pattern[i] == '/' && i+1 < len(pattern) && pattern[i+1] == anyRest
		}
	}
	return at == len(path)
}

// segment gives the one at depth; ended when the template has no more.
func (c *candidate) segment(depth int) (segment spec.Segment, ended bool) {
	if segments := c.rule.Path.Segments; depth < len(segments) {
		return segments[depth], false
	}
	return segment, true
}

// hash of a literal segment, in the case in which it is compared.
func (c *candidate) hash(s spec.Segment) uint64 {
	text := []byte(s.Text)
	if c.rule.Fold {
		text = lower(text, nil)
	}
	return hashOf(text)
}

// compare ranks candidates of any host: the lower is tried first. It is total
// over candidates of rules with distinct ids.
func (c *candidate) compare(d *candidate) int {
	return cmp.Or(
		cmp.Compare(c.rule.Order, d.rule.Order),
		c.host.compare(d.host),
		c.compareWithin(d),
		cmp.Compare(c.host, d.host),
	)
}

// compareWithin ranks candidates of one host pattern.
func (c *candidate) compareWithin(d *candidate) int {
	return cmp.Or(cmp.Compare(c.rank, d.rank), cmp.Compare(c.rule.ID, d.rule.ID))
}

// rank is all that decides between rules of one host but their ids: the lower is
// tried first. From the highest bits down: order, template before expression, more
// literal segments, no catch-all, more segments, more conditions. So of two
// templates of which one takes a part of what the other takes, that one is first.
type rank uint64

const (
	lastRank rank = 1<<64 - 1
	// The bits of each part. A template has at most 64 segments, an order lies
	// within ±1,000,000, and a value is too small for more conditions.
	conditionBits, segmentBits = 20, 7
	orderShift                 = 64 - 21
)

func rankOf(r *Rule) rank {
	most := rank(1<<conditionBits - 1)
	conditions := most - min(most, rank(r.Conditions.count()))
	if r.Regex != nil {
		return firstOf(r.Order) | 1<<(orderShift-1) | conditions
	}
	n := rank(1<<segmentBits-1-r.Path.Literals()) << 1
	if r.Path.CatchAll() {
		n |= 1
	}
	n = n<<segmentBits | rank(1<<segmentBits-1-len(r.Path.Segments))
	return firstOf(r.Order) | n<<conditionBits | conditions
}

// firstOf is the lowest rank that a rule of this order can have.
func firstOf(order int) rank { return rank(order+1<<20) << orderShift }

// behind says why c comes after d, which must be so.
func (c *candidate) behind(d *candidate) string {
	p, q := c.rule.Path, d.rule.Path
	has, had := c.conditions.count(), d.conditions.count()
	switch {
	case c.rule.Order != d.rule.Order:
		return fmt.Sprintf("order %d comes after %d", c.rule.Order, d.rule.Order)
	case c.host.kind() != d.host.kind():
		return fmt.Sprintf("%s comes after %s", c.host.kind(), d.host.kind())
	case c.host.compare(d.host) != 0:
		return "its wildcard host is shorter"
	case (c.rule.Regex == nil) != (d.rule.Regex == nil):
		return "pathRegex comes after every path"
	case p.Literals() != q.Literals():
		return against(p.Literals(), q.Literals(), "literal segment")
	case p.CatchAll() != q.CatchAll():
		return "a catch-all comes after none"
	case len(p.Segments) != len(q.Segments):
		return against(len(p.Segments), len(q.Segments), "segment")
	case has != had:
		return against(has, had, "condition")
	default:
		return fmt.Sprintf("its id comes after %q", d.rule.ID)
	}
}

func against(n, other int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s against %d", n, what, other)
}

// host is a host pattern: a whole name, or what follows the star of a wildcard
// with its dot, or empty for any host.
type host string

// hostKind ranks the ways to name a host.
type hostKind int

const (
	exactHost hostKind = iota
	wildcardHost
	anyHost
)

func (k hostKind) String() string {
	return [...]string{"an exact host", "a wildcard host", "any host"}[k]
}

func (h host) kind() hostKind {
	switch {
	case h == "":
		return anyHost
	case h[0] == '.':
		return wildcardHost
	default:
		return exactHost
	}
}

// String is the pattern as it was written.
func (h host) String() string {
	if h.kind() == wildcardHost {
		return "*" + string(h)
	}
	return string(h)
}

// compare puts exact names first, then the longer wildcards. Two exact names
// can't both match.
func (h host) compare(i host) int {
	if h.kind() == wildcardHost && i.kind() == wildcardHost {
		return -cmp.Compare(len(h), len(i))
	}
	return cmp.Compare(h.kind(), i.kind())
}
