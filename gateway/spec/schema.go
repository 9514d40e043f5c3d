package spec

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
)

// Schema is a JSON Schema (2020-12) of the static file, whose $defs are the
// shapes: a value of gateway/routes/{routeId} is #/$defs/Route. It describes
// canonical names, the integer aliases of durations, and bare forms; that the
// decoder also takes other spellings of names is not said.
func Schema() []byte {
	defs := object{}
	for t := range plans {
		defs[t.Name()] = structSchema(t)
	}
	file := closed(fileProperties())
	file["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	file["title"] = "Static file of a Grapevine node"
	file["patternProperties"] = object{"^x-": object{}}
	file["$defs"] = defs

	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(file); err != nil {
		panic("spec: " + err.Error()) // maps of texts always encode
	}
	return out.Bytes()
}

// object is a JSON object; encoding/json sorts its names.
type object = map[string]any

func closed(properties object) object {
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

func fileProperties() object {
	config := object{}
	for _, s := range sections {
		if s.shape != nil {
			config[s.name] = reference(reflect.TypeOf(s.shape))
		}
	}
	properties := object{
		"node":      reference(reflect.TypeFor[Node]()),
		"listeners": reference(reflect.TypeFor[Listeners]()),
		"routes":    object{"type": "object", "additionalProperties": reference(reflect.TypeFor[Route]())},
		"clusters":  object{"type": "object", "additionalProperties": reference(reflect.TypeFor[Cluster]())},
		"config":    closed(config),
		"announce":  reference(reflect.TypeFor[Instance]()),
	}
	maps.Copy(properties, fieldSchemas(plans[reflect.TypeFor[Meta]()]))
	return properties
}

func reference(t reflect.Type) object { return object{"$ref": "#/$defs/" + t.Name()} }

// structSchema describes a struct, or what may stand for it alone.
func structSchema(t reflect.Type) object {
	p := plans[t]
	s := closed(fieldSchemas(p))
	if required := p.required(); len(required) > 0 {
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

func (p *plan) required() (names []string) {
	for _, f := range p.fields {
		if f.required {
			names = append(names, f.name)
		}
	}
	return names
}

func fieldSchemas(p *plan) object {
	properties := object{}
	for _, f := range p.fields {
		properties[f.name] = fieldSchema(f)
		if isDuration(f.typ) {
			properties[f.name+millis] = aliasSchema(f, "milliseconds")
			properties[f.name+seconds] = aliasSchema(f, "seconds")
		}
	}
	return properties
}

func aliasSchema(f *field, unit string) object {
	return object{"type": "integer", "minimum": 0, "description": f.name + " in " + unit}
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

// textSchema describes a type with a syntax of its own. One that is a number
// in Go may be written as a number, unless it is a duration, which needs a unit.
func textSchema(t reflect.Type) object {
	pattern := reflect.Zero(t).Interface().(interface{ pattern() string }).pattern()
	if t.Kind() == reflect.String || t.Kind() == reflect.Struct || isDuration(t) {
		return object{"type": "string", "pattern": pattern}
	}
	return object{"type": []string{"string", "integer"}, "pattern": pattern}
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
