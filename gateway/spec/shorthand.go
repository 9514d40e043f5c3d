package spec

import (
	"strings"
	"unicode/utf8"
)

// maxShorthand bounds what people write on one line, in bytes, because the
// reader's time grows with its square.
const maxShorthand = 16 << 10

// shorthand reads one line of fields:
//
//	path=/booking/{**catch-all},backends=http://a:80,resilience.timeout:5s,methods=[GET,POST]
//
// A field ends at a comma, and its name at the first : or =. Dots nest. A field
// given twice, or one in brackets, is a list. Quotes of either kind protect
// everything; within them, and for a comma outside of them, a backslash
// protects the next character. A line without : and = is one plain value.
func (s source) shorthand(data []byte) (*tree, Faults) {
	r := shorthandReader{source: s, text: strings.TrimSpace(string(data))}
	if faults := r.refuse(); faults != nil {
		return nil, faults
	}
	if !strings.ContainsAny(r.text, ":=,") {
		return &tree{kind: plain, text: r.text, at: r.place(0)}, nil
	}
	root := &tree{kind: dict, at: r.place(0)}
	for more := true; more; more = r.take(',') {
		r.field(root)
	}
	return root, r.faults
}

type shorthandReader struct {
	source
	text   string
	pos    int
	faults Faults
}

func (r *shorthandReader) place(pos int) place {
	return place{r.source, 1, 1 + utf8.RuneCountInString(r.text[:pos])}
}

func (r *shorthandReader) fault(pos int, problem string, args ...any) {
	r.faults = append(r.faults, r.place(pos).fault(problem, args...))
}

// refuse looks for what is not shorthand at all.
func (r *shorthandReader) refuse() Faults {
	i := strings.IndexByte(r.text, '\n')
	switch {
	case i >= 0:
		return Faults{r.place(i).fault("shorthand is one line: write YAML or JSON instead")}
	case strings.HasPrefix(r.text, "{"):
		return Faults{r.place(0).fault("is JSON, and was given as shorthand: name=value,name=value")}
	case len(r.text) > maxShorthand:
		return Faults{r.place(0).fault("shorthand of %d bytes is longer than %d: write JSON instead", len(r.text), maxShorthand)}
	default:
		return nil
	}
}

// rest is what was not read yet.
func (r *shorthandReader) rest() string { return r.text[r.pos:] }

func (r *shorthandReader) spaces() {
	r.pos = len(r.text) - len(strings.TrimLeft(r.rest(), " \t"))
}

func (r *shorthandReader) take(c byte) bool {
	if r.pos < len(r.text) && r.text[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

// field reads name=value, up to the comma that ends it.
func (r *shorthandReader) field(root *tree) {
	r.spaces()
	start := r.pos
	end := strings.IndexAny(r.rest(), ":=,")
	if end < 0 || r.rest()[end] == ',' {
		r.skip()
		r.fault(start, "expected name=value, not %q", shorten(r.text[start:r.pos]))
		return
	}
	name := strings.TrimRight(r.rest()[:end], " \t")
	r.pos += end + 1
	r.spaces()
	r.put(root, name, start, r.value(",", ""))
}

// skip goes to the next comma.
func (r *shorthandReader) skip() {
	if i := strings.IndexByte(r.rest(), ','); i >= 0 {
		r.pos += i
		return
	}
	r.pos = len(r.text)
}

// value reads one value up to a character of end; outside of brackets a value
// in brackets is a list.
func (r *shorthandReader) value(end, inside string) *tree {
	switch {
	case r.pos == len(r.text):
		return &tree{kind: plain, at: r.place(r.pos)}
	case r.text[r.pos] == '[' && inside == "":
		return r.list()
	case r.text[r.pos] == '"' || r.text[r.pos] == '\'':
		return r.quoted(end)
	default:
		return r.plain(end)
	}
}

func (r *shorthandReader) list() *tree {
	t := &tree{kind: list, at: r.place(r.pos)}
	start := r.pos
	r.pos++
	r.spaces()
	if r.take(']') {
		r.ends("]", ",")
		return t
	}
	for more := true; more; more = r.take(',') {
		r.spaces()
		t.items = append(t.items, r.value(",]", "["))
	}
	if !r.take(']') {
		r.fault(start, "list without its closing ]")
		return t
	}
	r.ends("]", ",")
	return t
}

// quoted reads a text in quotes.
func (r *shorthandReader) quoted(end string) *tree {
	start, quote := r.pos, r.text[r.pos]
	var b strings.Builder
	for r.pos++; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; {
		case c == quote:
			r.pos++
			r.ends("closing quote", end)
			return &tree{kind: quoted, text: b.String(), at: r.place(start)}
		case c == '\\' && r.pos+1 < len(r.text) && (r.text[r.pos+1] == quote || r.text[r.pos+1] == '\\'):
			r.pos++
			b.WriteByte(r.text[r.pos])
		default:
			b.WriteByte(c)
		}
	}
	r.fault(start, "text without its closing %c", quote)
	return &tree{kind: quoted, at: r.place(start)}
}

// ends makes sure that nothing follows a closing bracket or quote but the end
// of the value.
func (r *shorthandReader) ends(what, end string) {
	r.spaces()
	if r.pos < len(r.text) && !strings.ContainsRune(end, rune(r.text[r.pos])) {
		r.fault(r.pos, "expected a comma after the %s", what)
		r.skip()
	}
}

// plain reads an unquoted text. Brackets within it, as of an IPv6 address,
// belong to it.
func (r *shorthandReader) plain(end string) *tree {
	start, open := r.pos, 0
	var b strings.Builder
	for ; r.pos < len(r.text); r.pos++ {
		c := r.text[r.pos]
		if c == '\\' && strings.HasPrefix(r.text[r.pos+1:], ",") {
			r.pos++
			b.WriteByte(',')
			continue
		}
		if open == 0 && strings.IndexByte(end, c) >= 0 || c == ',' {
			break
		}
		switch c {
		case '[':
			open++
		case ']':
			open--
		}
		b.WriteByte(c)
	}
	return &tree{kind: plain, text: strings.TrimRight(b.String(), " \t"), at: r.place(start)}
}

// put hangs a value into the tree under its dotted name.
func (r *shorthandReader) put(root *tree, name string, pos int, value *tree) {
	steps := strings.Split(name, ".")
	if len(steps) > maxDepth {
		r.fault(pos, "nested deeper than %d levels", maxDepth)
		return
	}
	at, parent := r.place(pos), root
	for _, step := range steps[:len(steps)-1] {
		e := parent.own(step, at, dict)
		if e.kind != dict {
			r.fault(pos, "%q cannot have fields of its own: it was given a value before", step)
			return
		}
		parent = e
	}
	leaf := parent.own(steps[len(steps)-1], at, series)
	if leaf.kind != series {
		r.fault(pos, "%q cannot be a value: it was given fields before", name)
		return
	}
	leaf.items = append(leaf.items, value)
}

// own is the value of the entry with this very name, which is made if there is
// none.
func (t *tree) own(name string, at place, k kind) *tree {
	for _, e := range t.entries {
		if e.name == name {
			return e.value
		}
	}
	value := &tree{kind: k, at: at}
	t.entries = append(t.entries, entry{name, at, value})
	return value
}
