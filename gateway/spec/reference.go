package spec

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Reference is the page of all keys and fields, in Markdown.
func Reference() []byte {
	var r referencePage
	r.line("# Keys and fields")
	r.line("")
	r.line("Generated from the code by `make generate`. Names are shown in their canonical spelling; PascalCase and snake_case are")
	r.line("accepted. Every value may also carry `description`, `labels`, `schema: 1` and fields that begin with `x-`. A duration is")
	r.line("written `5s` or `1m30s`, or as a number under the field's name with `Ms` or `Seconds` behind it. A size is `100MB`, `1KiB`")
	r.line("or a number of bytes.")
	r.keys()
	for _, s := range shapes() {
		r.shape(s)
	}
	r.section("Static file", "`agent run --config FILE`, YAML or JSON: `node`, `listeners`, and under `routes`, `clusters` and `config` the shapes above by their ids.")
	r.head()
	r.fields("node.", reflect.TypeFor[Node]())
	r.fields("listeners.", reflect.TypeFor[Listeners]())
	return r.out.Bytes()
}

type referencePage struct {
	out bytes.Buffer
}

func (r *referencePage) line(s string) { fmt.Fprintln(&r.out, s) }

func (r *referencePage) section(title, text string) {
	r.line("")
	r.line("## " + title)
	r.line("")
	r.line(text)
}

func (r *referencePage) keys() {
	r.section("Keys", "Any other key, as `app/greeting`, is free for you and holds any text. `_meta/` is the system's own.")
	r.line("")
	r.line("| key | value |")
	r.line("|---|---|")
	for _, k := range kinds {
		switch {
		case k.refusal != "":
			fmt.Fprintf(&r.out, "| `%s/%s` | %s |\n", root, k.name, k.refusal)
		case k.shape != nil:
			fmt.Fprintf(&r.out, "| `%s` | %s: [%s](#%s) |\n", k.form(), k.about, typeName(k.shape), strings.ToLower(typeName(k.shape)))
		}
	}
	for _, s := range sections {
		if s.shape != nil {
			fmt.Fprintf(&r.out, "| `%s/config/%s` | %s: [%s](#%s) |\n", root, s.name, s.about, typeName(s.shape), strings.ToLower(typeName(s.shape)))
		}
	}
}

func typeName(example any) string { return reflect.TypeOf(example).Name() }

func (r *referencePage) shape(s shape) {
	keys := make([]string, len(s.keys))
	for i, key := range s.keys {
		keys[i] = "`" + key + "`"
	}
	r.section(s.name, strings.Join(keys, ", ")+": "+s.about+".")
	r.head()
	r.fields("", reflect.TypeOf(s.example))
}

// head begins a table of fields.
func (r *referencePage) head() {
	r.line("")
	r.line("| field | value | default | meaning |")
	r.line("|---|---|---|---|")
}

// fields writes the rows of a struct, with those of nested structs behind
// their path.
func (r *referencePage) fields(prefix string, t reflect.Type) {
	for _, f := range plans[t].fields {
		if len(f.index) > 1 {
			continue // Meta's, which every value has
		}
		fmt.Fprintf(&r.out, "| `%s%s` | %s | %s | %s |\n", prefix, f.name, f.describe(), cell(f.missing), cell(f.doc))
		if inner, suffix := structIn(f.typ); inner != nil {
			r.fields(prefix+f.name+suffix+".", inner)
		}
	}
}

// structIn is the struct that a field holds, and how a path goes on to it.
func structIn(t reflect.Type) (inner reflect.Type, suffix string) {
	switch {
	case t.Kind() == reflect.Pointer:
		return structIn(t.Elem())
	case isText(t):
		return nil, ""
	case t.Kind() == reflect.Slice:
		inner, _ = structIn(t.Elem())
		return inner, "[]"
	case t.Kind() == reflect.Map:
		inner, _ = structIn(t.Elem())
		return inner, ".NAME"
	case t.Kind() == reflect.Struct:
		return t, ""
	}
	return nil, ""
}

// describe says what a field's value is.
func (f *field) describe() string {
	kind := typeWord(f.typ)
	if f.enum != nil {
		kind = strings.Replace(kind, "text", "`"+strings.Join(f.enum, "`, `")+"`", 1)
	}
	if b := f.bounds; b.least != "" || b.most != "" {
		kind += ", " + b.least + ".." + b.most
	}
	if f.required {
		kind += ", required"
	}
	return cell(kind)
}

func typeWord(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return typeWord(t.Elem())
	case t.Kind() == reflect.Slice:
		return "list of " + typeWord(t.Elem())
	case t.Kind() == reflect.Map:
		return "names with " + typeWord(t.Elem())
	case t == durationType:
		return "duration"
	case t == reflect.TypeFor[Size]():
		return "size"
	case t == reflect.TypeFor[Time]():
		return "time"
	case t.Kind() == reflect.Struct:
		return "fields"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	default:
		return "number"
	}
}

// cell makes a text fit into a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
