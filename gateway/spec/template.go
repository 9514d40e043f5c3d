package spec

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds on a template, far above what a path needs.
const (
	maxTemplate = 2048
	maxSegments = 64
)

// SegmentKind tells what a segment of a template matches.
type SegmentKind uint8

const (
	Literal   SegmentKind = iota // exactly its text
	Parameter                    // any one segment that is not empty
	CatchAll                     // all that is left, also nothing
)

// Segment is one step of a template: the text of a literal, or the name of a
// parameter or catch-all.
type Segment struct {
	Kind SegmentKind
	Text string
}

// Template is a path of segments, as /booking/{id}/{**rest}. The zero Template
// is that of "/": no segments.
//
// Literals stand in one encoding, in which a request's path is to be compared:
// unreserved characters, sub-delimiters, ":" and "@" (RFC 3986 §3.3) as
// themselves unless they were written as an escape that means something else
// (%2F, %2B), everything else as an upper-case escape.
type Template struct{ Segments []Segment }

// ParseTemplate reads a template. {*rest} is the same as {**rest}, and a
// trailing slash does not count.
func ParseTemplate(s string) (Template, error) {
	rest, ok := strings.CutPrefix(s, "/")
	switch {
	case !ok:
		return Template{}, errors.New("must begin with /")
	case rest == "":
		return Template{}, nil
	}
	t, err := parseSegments(strings.Split(strings.TrimSuffix(rest, "/"), "/"))
	if err == nil && max(len(s), len(t.String())) > maxTemplate { // escapes make it longer
		return Template{}, fmt.Errorf("is longer than %d characters", maxTemplate)
	}
	return t, err
}

func parseSegments(parts []string) (Template, error) {
	if len(parts) > maxSegments {
		return Template{}, fmt.Errorf("has more than %d segments", maxSegments)
	}
	var t Template
	for i, part := range parts {
		segment, err := parseSegment(part)
		switch {
		case err != nil:
			return Template{}, err
		case segment.Kind == CatchAll && i < len(parts)-1:
			return Template{}, fmt.Errorf("catch-all %s must be the last segment", part)
		case segment.Kind != Literal && t.names(segment.Text):
			return Template{}, fmt.Errorf("parameter %q is there twice", segment.Text)
		}
		t.Segments = append(t.Segments, segment)
	}
	return t, nil
}

// names says whether a parameter of this name is there already.
func (t Template) names(name string) bool {
	return slices.ContainsFunc(t.Segments, func(s Segment) bool { return s.Kind != Literal && s.Text == name })
}

func parseSegment(part string) (Segment, error) {
	switch {
	case part == "":
		return Segment{}, errors.New("has an empty segment (//)")
	case part == "*" || part == "**":
		return Segment{}, fmt.Errorf("segment %q: write {**rest} for everything below, {name} for one segment", part)
	case strings.ContainsAny(part, "{}"):
		return parseParameter(part)
	default:
		text, err := encodeLiteral(part)
		return Segment{Literal, text}, err
	}
}

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

func parseParameter(part string) (Segment, error) {
	name, opened := strings.CutPrefix(part, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || strings.ContainsAny(name, "{}") {
		return Segment{}, fmt.Errorf("segment %q: a {parameter} must be a whole segment", shorten(part))
	}
	kind := Parameter
	if rest, ok := strings.CutPrefix(name, "*"); ok {
		kind, name = CatchAll, strings.TrimPrefix(rest, "*")
	}
	switch {
	case name == "":
		return Segment{}, fmt.Errorf("segment %q: a parameter needs a name, as {id} or {**rest}", part)
	case strings.ContainsAny(name, ":=?"):
		return Segment{}, fmt.Errorf("segment %q: constraints, defaults and optional parameters are not supported", shorten(part))
	case !parameterName.MatchString(name):
		return Segment{}, fmt.Errorf("segment %q: a parameter's name is up to 64 letters, digits, _ and -", shorten(part))
	}
	return Segment{kind, name}, nil
}

// encodeLiteral brings a literal segment into the encoding of a Template.
func encodeLiteral(part string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		c := part[i]
		switch {
		case c == '%':
			if i+2 >= len(part) || unhex(part[i+1]) < 0 || unhex(part[i+2]) < 0 {
				return "", fmt.Errorf("segment %q: %% must be followed by two hex digits", shorten(part))
			}
			c = byte(unhex(part[i+1])<<4 | unhex(part[i+2]))
			i += 2
			writeByte(&b, c, isUnreserved(c))
		case c == '?' || c == '#':
			return "", fmt.Errorf("segment %q: a path does not hold %c", shorten(part), c)
		default:
			writeByte(&b, c, isPathByte(c))
		}
		if c < ' ' || c == 0x7f || c == '\\' {
			return "", fmt.Errorf("segment %q: control characters and backslashes are refused in paths", shorten(part))
		}
	}
	if text := b.String(); text != "." && text != ".." {
		return text, nil
	}
	return "", fmt.Errorf("segment %q: dot segments never reach a route", part)
}

func writeByte(b *strings.Builder, c byte, asItself bool) {
	if asItself {
		b.WriteByte(c)
		return
	}
	fmt.Fprintf(b, "%%%02X", c)
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// isPathByte says whether a byte may stand for itself in a path.
func isPathByte(c byte) bool {
	return isUnreserved(c) || strings.IndexByte("!$&'()*+,;=:@", c) >= 0
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// String is the canonical form, which parses to the same template.
func (t Template) String() string {
	var b strings.Builder
	for _, s := range t.Segments {
		b.WriteByte('/')
		switch s.Kind {
		case Parameter:
			b.WriteString("{" + s.Text + "}")
		case CatchAll:
			b.WriteString("{**" + s.Text + "}")
		default:
			b.WriteString(s.Text)
		}
	}
	return cmp.Or(b.String(), "/")
}

// HasPrefix says whether every path that t matches begins with as many segments
// as prefix has, each of which prefix matches in the same way: a literal the
// same literal, a parameter a parameter of any name. A catch-all is no prefix.
func (t Template) HasPrefix(prefix Template) bool {
	if len(prefix.Segments) > len(t.Segments) {
		return false
	}
	for i, p := range prefix.Segments {
		s := t.Segments[i]
		if p.Kind != s.Kind || p.Kind == CatchAll || p.Kind == Literal && p.Text != s.Text {
			return false
		}
	}
	return true
}

// Literals counts the literal segments.
func (t Template) Literals() int { return t.count(Literal) }

// Parameters counts the parameters, without a catch-all.
func (t Template) Parameters() int { return t.count(Parameter) }

// CatchAll says whether the last segment is a catch-all.
func (t Template) CatchAll() bool { return t.count(CatchAll) > 0 }

// begins says whether the first segment is of a kind. The root has none.
func (t Template) begins(k SegmentKind) bool { return len(t.Segments) > 0 && t.Segments[0].Kind == k }

// Shape is equal for templates that match the same paths: String without the names
// of parameters.
func (t Template) Shape() string {
	anonymous := Template{Segments: slices.Clone(t.Segments)}
	for i, s := range anonymous.Segments {
		if s.Kind != Literal {
			anonymous.Segments[i].Text = ""
		}
	}
	return anonymous.String()
}

// Overlaps says whether there is a path that both templates may match.
func (t Template) Overlaps(other Template) bool {
	a, b := t.Segments, other.Segments
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Kind == CatchAll || b[0].Kind == CatchAll:
			return true
		case a[0].Kind == Literal && b[0].Kind == Literal && !strings.EqualFold(a[0].Text, b[0].Text):
			return false
		}
		a, b = a[1:], b[1:]
	}
	rest := append(slices.Clone(a), b...)
	return len(rest) == 0 || rest[0].Kind == CatchAll
}

func (t Template) count(k SegmentKind) (n int) {
	for _, s := range t.Segments {
		if s.Kind == k {
			n++
		}
	}
	return n
}
