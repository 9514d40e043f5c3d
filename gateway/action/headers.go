package action

import (
	"maps"
	"slices"
	"strings"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// Headers changes the fields of a request or a response. A nil Headers changes
// nothing.
type Headers struct {
	// Authority is what the backend is to see as Host, for the caller to put into
	// Request.Authority; nil leaves the client's.
	Authority []byte

	remove   []string
	set, add exchange.Fields
}

// NewHeaders reads changes; nil are none.
func NewHeaders(s *spec.HeaderChanges) *Headers {
	if s == nil {
		return nil
	}
	h := new(Headers)
	for _, name := range s.Remove {
		h.remove = append(h.remove, string(name))
	}
	h.set, h.add = fieldsOf(s.Set), fieldsOf(s.Append)
	h.set.DelFunc(func(name []byte) bool { return exchange.EqualName(name, "Host") })
	for name, value := range s.Set {
		if strings.EqualFold(string(name), "Host") {
			h.Authority = shared(string(value))
		}
	}
	return h
}

// fieldsOf are in the order of their names.
func fieldsOf(values map[spec.HeaderName]spec.HeaderValue) (fields exchange.Fields) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fields = append(fields, exchange.Field{Name: shared(string(name)), Value: shared(string(values[name]))})
	}
	return fields
}

// shared are bytes that many requests hold: their memory ends where they do, so
// that to append to them copies them.
func shared(s string) []byte { return slices.Clip([]byte(s)) }

// Apply removes, then sets, then appends. What is removed or set is so in every
// spelling that a backend may take for the same field: without case, and with
// "_" for "-" (CGI, RFC 3875 §4.1.18). The fields share the memory of h, whose
// bytes nobody may change.
func (h *Headers) Apply(fields *exchange.Fields) {
	if h == nil {
		return
	}
	if len(h.remove) > 0 {
		fields.DelFunc(h.removes)
	}
	for i := range h.set {
		set(fields, h.set[i])
	}
	*fields = append(*fields, h.add...)
}

func (h *Headers) removes(name []byte) bool {
	for _, r := range h.remove {
		if sameField(name, r) {
			return true
		}
	}
	return false
}

// set puts field in the place of the first that is the same, or at the end.
func set(fields *exchange.Fields, field exchange.Field) {
	kept, placed := (*fields)[:0], false
	for _, f := range *fields {
		switch {
		case !sameField(f.Name, field.Name):
			kept = append(kept, f)
		case !placed:
			kept, placed = append(kept, field), true
		}
	}
	if !placed {
		kept = append(kept, field)
	}
	*fields = kept
}

// sameField compares names as CGI does.
func sameField[T string | []byte](name []byte, to T) bool {
	if len(name) != len(to) {
		return false
	}
	for i := range name {
		if foldName(name[i]) != foldName(to[i]) {
			return false
		}
	}
	return true
}

func foldName(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c + ('a' - 'A')
	case c == '_':
		return '-'
	}
	return c
}
