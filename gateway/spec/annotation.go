package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// annotation keeps a field x-*, for which there is no schema.
func (d *decoder) annotation(e entry, v reflect.Value, path string) {
	raw, problem := e.value.raw()
	name := reflect.ValueOf(e.name)
	switch {
	case problem != "":
		d.faultName(e, path, "%q: %s", shorten(e.name), problem)
		return
	case v.IsNil():
		v.Set(reflect.ValueOf(map[string]json.RawMessage{}))
	case v.MapIndex(name).IsValid():
		d.faultName(e, path, "%q is given twice", shorten(e.name))
		return
	}
	v.SetMapIndex(name, reflect.ValueOf(raw))
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
