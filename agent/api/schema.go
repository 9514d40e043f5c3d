package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// schemas gathers the JSON Schemas of the documents by their name.
type schemas map[string]any

// of is the schema of documents like v, which is a struct; of nil it is the schema of anything.
func (s schemas) of(v any) object {
	if v == nil {
		return object{}
	}
	return s.ofType(reflect.TypeOf(v))
}

func (s schemas) ofType(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[Encoding]():
		return object{"type": "string", "enum": []Encoding{EncodingText, EncodingBase64}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.ofType(t.Elem())
	case reflect.Struct:
		return s.reference(t)
	case reflect.Slice:
		return object{"type": "array", "items": s.ofType(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.ofType(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	default: // the documents have integers besides these, and nothing else
		return object{"type": "integer"}
	}
}

// reference adds the schema of a struct under its name.
func (s schemas) reference(t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + t.Name()}
	if s[t.Name()] != nil {
		return ref
	}
	properties, required := object{}, []string{}
	schema := object{"type": "object", "properties": properties, "additionalProperties": false}
	s[t.Name()] = schema
	for _, f := range fieldsOf(t) {
		property := s.ofType(f.typ)
		if f.doc != "" {
			property["description"] = f.doc
		}
		properties[f.name] = property
		if !f.optional {
			required = append(required, f.name)
		}
	}
	schema["required"] = required
	return ref
}

// documentField is a field of a document.
type documentField struct {
	name, doc string
	typ       reflect.Type
	optional  bool
}

func fieldsOf(t reflect.Type) []documentField {
	var fields []documentField
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue // an embedded struct, whose fields come by themselves
		}
		fields = append(fields, documentField{
			name: name, doc: f.Tag.Get("doc"), typ: f.Type,
			optional: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"),
		})
	}
	return fields
}
