package spec

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// Schema is a JSON Schema (2020-12) of all shapes and of the static file. Its
// $defs are named after the shapes; a value of gateway/routes/{routeId} is
// #/$defs/Route. It describes the canonical spelling.
func Schema() []byte {
	defs := object{}
	for _, t := range slices.Collect(maps.Keys(plans)) {
		defs[t.Name()] = structSchema(t)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(object{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "Grapevine's values and static file",
		"description": "The root is the static file; $defs has the value of each key.",
		"$defs":       defs,
		"type":        "object",
		"properties":  fileProperties(),
	}); err != nil {
		panic("spec: " + err.Error()) // maps of texts always encode
	}
	return out.Bytes()
}

// object is a JSON object; encoding/json sorts its names.
type object = map[string]any

func fileProperties() object {
	sectionsOf := object{}
	for _, s := range sections {
		if s.shape != nil {
			sectionsOf[s.name] = reference(reflect.TypeOf(s.shape))
		}
	}
	return object{
		"node":      reference(reflect.TypeFor[Node]()),
		"listeners": reference(reflect.TypeFor[Listeners]()),
		"routes":    object{"type": "object", "additionalProperties": reference(reflect.TypeFor[Route]())},
		"clusters":  object{"type": "object", "additionalProperties": reference(reflect.TypeFor[Cluster]())},
		"config":    object{"type": "object", "properties": sectionsOf, "additionalProperties": false},
	}
}

func reference(t reflect.Type) object { return object{"$ref": "#/$defs/" + t.Name()} }

// structSchema describes a struct, or what may stand for it alone.
func structSchema(t reflect.Type) object {
	p := plans[t]
	properties, required := object{}, []string{}
	for _, f := range p.fields {
		properties[f.name] = fieldSchema(f)
		if f.required {
			required = append(required, f.name)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	if p.freeXes {
		s["patternProperties"] = object{"^x-": object{}}
	}
	if p.bare != nil {
		return object{"anyOf": []object{s, fieldSchema(p.bare)}}
	}
	return s
}

func fieldSchema(f *field) object {
	s := object{}
	maps.Copy(s, typeSchema(f.typ, f))
	s["description"] = f.doc
	if f.missing != "" {
		s["description"] = f.doc + " (default: " + f.missing + ")"
	}
	return s
}

func typeSchema(t reflect.Type, f *field) object {
	switch {
	case t.Kind() == reflect.Pointer:
		return typeSchema(t.Elem(), f)
	case isText(t):
		return textSchema(t)
	case t.Kind() == reflect.Struct:
		return reference(t)
	case t.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": typeSchema(t.Elem(), &field{})}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": typeSchema(t.Elem(), f)}
	case t.Kind() == reflect.String && f.enum != nil:
		return object{"type": "string", "enum": f.enum}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return f.bounds.schema("number")
	default:
		return f.bounds.schema("integer")
	}
}

// patterned are the types with a syntax of their own that a regular expression
// can outline.
var patterned = []interface{ pattern() string }{
	Address(""), URL(""), Origin(""), Target(""), CIDR(""), TrustedProxy(""), Duration(0), Time{}, HashOn(""), HeaderName(""), HeaderValue(""), MediaType(""), Method(""), Host(""), RouteID(""), ClusterID(""), DestinationID(""), Name(""), ListenAddress(""), Path(""), Prefix(""), Size(0), Status(0), RetryOn(""), TLSRef(""), Pin(""),
}

// textSchema describes a type with a syntax of its own.
func textSchema(t reflect.Type) object {
	s := object{"type": "string"}
	for _, p := range patterned {
		if reflect.TypeOf(p) == t {
			s["pattern"] = p.pattern()
		}
	}
	return s
}

func (b bounds) schema(kind string) object {
	s := object{"type": kind}
	if b.least != "" {
		s["minimum"] = b.leastAt
	}
	if b.most != "" {
		s["maximum"] = b.mostAt
	}
	return s
}
