package spec

import (
	"encoding/json"
	"fmt"
	"strings"
)

// checks is what a check method reports to. Its fields are paths below the
// struct that is checked.
type checks struct {
	d    *decoder
	n    *tree
	path string
}

// fault says what is wrong with a field, at the place where it was written, or
// else where the value stands that lacks it.
func (c *checks) fault(field, problem string, args ...any) {
	c.d.fault(c.n.find(field), join(c.path, field), problem, args...)
}

// notice says what a person should know although it is not wrong.
func (c *checks) notice(field, problem string, args ...any) {
	n := c.n.find(field)
	c.d.notices = append(c.d.notices, c.d.note(n.at, join(c.path, field), n.written(), fmt.Sprintf(problem, args...)))
}

// failed says whether a field already has a fault, so that what follows from it
// need not be said as well.
func (c *checks) failed(field string) bool {
	path := join(c.path, field)
	for _, f := range c.d.faults {
		if _, below := after(f.Field, path); below && f.Key == c.d.key {
			return true
		}
	}
	return false
}

// exclusive makes sure that at most one of several fields is given, and says
// how many are.
func (c *checks) exclusive(fields ...choice) (given int) {
	first := ""
	for _, f := range fields {
		if !f.given && !c.failed(f.name) {
			continue
		}
		if given++; given == 1 {
			first = f.name
			continue
		}
		c.fault(f.name, "cannot stand beside %s: give one of %s", first, names(fields))
	}
	return given
}

// choice is a field that excludes others.
type choice struct {
	name  string
	given bool
}

func names(fields []choice) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// unique makes sure that no item of a list is there twice.
func unique[T ~string](c *checks, field string, items []T) {
	seen := map[T]int{}
	for i, item := range items {
		if first, ok := seen[item]; ok && item != "" {
			c.fault(fmt.Sprintf("%s[%d]", field, i), "is the same as %s[%d]", field, first)
			continue
		}
		seen[item] = i
	}
}

// raw is the canonical JSON of a value without a schema.
func (t *tree) raw() (raw json.RawMessage, problem string) {
	value, problem := t.any()
	if problem != "" {
		return nil, problem
	}
	return Encode(value), ""
}

func (t *tree) any() (value any, problem string) {
	switch t.kind {
	case null:
		return nil, ""
	case boolean:
		return t.text == "true", ""
	case number:
		return json.Number(t.text), ""
	case plain:
		return guess(t.text), ""
	case dict:
		return t.object()
	case list:
		return array(t.items)
	case series:
		return t.words()
	default:
		return t.text, ""
	}
}

// guess reads a plain YAML scalar for which there is no schema.
func guess(text string) any {
	switch {
	case text == "true" || text == "false":
		return text == "true"
	case isJSONNumber(text):
		return json.Number(text)
	default:
		return text
	}
}

func (t *tree) object() (any, string) {
	object := map[string]any{}
	for _, e := range t.entries {
		if _, ok := object[e.name]; ok {
			return nil, fmt.Sprintf("%q is given twice", shorten(e.name))
		}
		value, problem := e.value.any()
		if problem != "" {
			return nil, problem
		}
		object[e.name] = value
	}
	return object, ""
}

func array(items []*tree) (any, string) {
	values := make([]any, 0, len(items))
	for _, item := range items {
		value, problem := item.any()
		if problem != "" {
			return nil, problem
		}
		values = append(values, value)
	}
	return values, ""
}

// words are the values of a shorthand field; without a schema they are texts.
func (t *tree) words() (any, string) {
	var texts []any
	for _, item := range flatten(t.items) {
		texts = append(texts, item.text)
	}
	if len(t.items) == 1 && t.items[0].kind != list {
		return texts[0], ""
	}
	return texts, ""
}
