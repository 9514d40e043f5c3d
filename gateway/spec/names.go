package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// CanonicalNames gives the fields of a value, or of a patch for one, the names
// that the canonical form has, so that the two can be merged: pathRemovePrefix
// for PathRemovePrefix, and timeout "3s" for timeoutMs 3000. Names that are no
// fields of the key's shape, as labels, stay as they are, and so does all of a
// free key's value. The error is Faults: two names for one field.
//
// value is what encoding/json makes of a document, with json.Number; it is not
// changed.
func CanonicalNames(key string, value any) (any, error) {
	canonical, shape, fault := lookUp(key)
	if fault != nil {
		return nil, Faults{*fault}
	}
	if shape == nil {
		return value, nil
	}
	n := namer{key: canonical}
	renamed := n.value(value, reflect.TypeOf(shape), "")
	if len(n.faults) > 0 {
		return nil, n.faults
	}
	return renamed, nil
}

type namer struct {
	key    string
	faults Faults
}

func (n *namer) value(value any, t reflect.Type, path string) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	object, isObject := value.(map[string]any)
	items, isList := value.([]any)
	switch {
	case isObject && plans[t] != nil && !isText(t):
		return n.structure(object, plans[t], path)
	case isObject && t.Kind() == reflect.Map:
		renamed := make(map[string]any, len(object))
		for name, inner := range object {
			renamed[name] = n.value(inner, t.Elem(), join(path, name))
		}
		return renamed
	case isList && t.Kind() == reflect.Slice:
		renamed := make([]any, len(items))
		for i, inner := range items {
			renamed[i] = n.value(inner, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
		return renamed
	}
	return value
}

func (n *namer) structure(object map[string]any, p *plan, path string) any {
	renamed, written := make(map[string]any, len(object)), map[string]string{}
	for name, inner := range object {
		canonical := name
		if s, known := p.byName[fold(name)]; known {
			canonical, inner = s.name, inUnit(inner, s.unit)
			inner = n.value(inner, s.typ, join(path, canonical))
		}
		if first, twice := written[canonical]; twice {
			n.faults = append(n.faults, Fault{Key: n.key, Field: path, Problem: twiceInOrder(first, name)})
		}
		written[canonical], renamed[canonical] = name, inner
	}
	return renamed
}

// inUnit makes a duration of the whole number that an alias has. What is none is
// left for the decoder to refuse.
func inUnit(value any, unit time.Duration) any {
	number, ok := value.(json.Number)
	if unit == 0 || !ok {
		return value
	}
	count, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil || count < 0 || count > int64(maxDuration/unit) {
		return value
	}
	return Duration(time.Duration(count) * unit).String()
}

// twiceInOrder names two spellings in one order, whatever that of a map was.
func twiceInOrder(a, b string) string {
	if a > b {
		a, b = b, a
	}
	return fmt.Sprintf("%q and %q say the same: give one of them", shorten(a), shorten(b))
}
