package exchange

import (
	"bytes"
	"fmt"
	"iter"
)

// maxParameters is a tenth of where net/url stops reading a query, and where
// PHP's max_input_vars lets parameters fall silently.
const maxParameters = 1000

// Query is the query of a request which every server reads alike, as far as the
// grammar of application/x-www-form-urlencoded goes. It shares the memory of
// what it was parsed from. The zero Query has no parameters.
type Query struct{ raw []byte }

// Parameter is one piece of a query. Its slices are as sent.
type Parameter struct{ Raw, Name, Value []byte }

// QueryError is a query that servers may read in different ways.
type QueryError struct{ Problem string }

func (e *QueryError) Error() string { return "query: " + e.Problem }

// ParseQuery checks a raw query, with or without its question mark, for what
// servers differ on: ";" which some take for "&" (golang/go#25192), "%" without
// two hex digits, a NUL in any spelling, "#", controls and spaces, and more
// parameters than some read. The error is a *QueryError. A query that is taken
// costs no allocation.
func ParseQuery(raw []byte) (Query, error) {
	raw = bytes.TrimPrefix(raw, []byte("?"))
	if n := bytes.Count(raw, []byte("&")) + 1; n > maxParameters {
		return Query{}, refuseQuery("%d parameters are more than %d", n, maxParameters)
	}
	for i, c := range raw {
		if c > ' ' && c != ';' && c != '#' && c != '%' && c != 0x7f {
			continue
		}
		if c != '%' {
			return Query{}, refuseQuery("raw %q", c)
		}
		switch value, ok := unescape(raw[i:]); {
		case !ok:
			return Query{}, refuseQuery("%q is no escape", raw[i:min(i+3, len(raw))])
		case value == 0:
			return Query{}, refuseQuery("%s is an encoded NUL", raw[i:i+3])
		}
	}
	return Query{raw}, nil
}

func refuseQuery(problem string, args ...any) error {
	return &QueryError{fmt.Sprintf(problem, args...)}
}

// All yields the parameters in order. Empty pieces, as in a&&b, are skipped.
func (q Query) All() iter.Seq[Parameter] {
	return func(yield func(Parameter) bool) {
		for rest, more := q.raw, len(q.raw) > 0; more; {
			var piece []byte
			if piece, rest, more = bytes.Cut(rest, []byte("&")); len(piece) == 0 {
				continue
			}
			name, value, _ := bytes.Cut(piece, []byte("="))
			if !yield(Parameter{Raw: piece, Name: name, Value: value}) {
				return
			}
		}
	}
}

// Values yields each decoded value of name in order.
func (q Query) Values(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for p := range q.All() {
			if p.Named(name) && !yield(p.Decoded()) {
				return
			}
		}
	}
}

// Named tells whether the decoded name is name. Case matters.
func (p Parameter) Named(name string) bool {
	i := 0
	for raw := p.Name; len(raw) > 0; i++ {
		c, width := formByte(raw)
		if i >= len(name) || name[i] != c {
			return false
		}
		raw = raw[width:]
	}
	return i == len(name)
}

// Decoded is the value with its escapes decoded and "+" as a space.
func (p Parameter) Decoded() string {
	if bytes.IndexByte(p.Value, '%') < 0 && bytes.IndexByte(p.Value, '+') < 0 {
		return string(p.Value)
	}
	decoded := make([]byte, 0, len(p.Value))
	for raw := p.Value; len(raw) > 0; {
		c, width := formByte(raw)
		decoded, raw = append(decoded, c), raw[width:]
	}
	return string(decoded)
}

// formByte reads the first byte of a text that ParseQuery has taken.
func formByte(raw []byte) (c byte, width int) {
	switch raw[0] {
	case '+':
		return ' ', 1
	case '%':
		c, _ = unescape(raw)
		return c, 3
	default:
		return raw[0], 1
	}
}

// unescape reads the escape that raw begins with.
func unescape(raw []byte) (c byte, ok bool) {
	if len(raw) < 3 {
		return 0, false
	}
	high, low := unhex(raw[1]), unhex(raw[2])
	return byte(high<<4 | low), high >= 0 && low >= 0
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
