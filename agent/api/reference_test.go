package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/agent/announcing"
)

//go:generate go test -run ^TestReferenceIsCurrent$ -update

var update = flag.Bool("update", false, "write docs/reference/api.md anew")

const referencePath = "../../docs/reference/api.md"

func TestReferenceIsCurrent(t *testing.T) {
	want := reference(operations(true))
	if *update {
		if err := os.MkdirAll(filepath.Dir(referencePath), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(referencePath, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go generate ./agent/api", referencePath)
	}
}

const referenceHead = `# HTTP API

<!-- Generated from the table in agent/api/operations.go by "go generate ./agent/api". Do not edit. -->

Each node serves the API on a unix socket (mode 0660) and on TCP, by default at 127.0.0.1:8500. The agent describes it itself,
as OpenAPI 3.1, at ` + "`/v1/openapi.json`" + `.

- A revision is ` + "`epoch.number`" + `, as ` + "`1.1842`" + `; where one is taken, ` + "`1842`" + ` means the present epoch. It is the ETag of a value.
- A key stands in a path as it is, with its slashes.
- ` + "`?node=`" + ` lets another node of the cluster answer, as if it had been asked itself.
- An unknown query parameter is refused: a misspelt dry run must not write.
- A problem is a document of RFC 9457 (` + "`application/problem+json`" + `). Programs go by ` + "`code`" + `; ` + "`nothingWritten`" + ` says whether the store is as it was.
- On TCP a request must name a loopback ` + "`Host`" + `, must not come from another site (` + "`Origin`, `Sec-Fetch-Site`" + `; 403), and a body must
  have one of the content types below (415). The unix socket asks for none of these, so that ` + "`curl -d`" + ` works there.
- An answer carries ` + "`X-Correlation-ID`" + `; the log has the same id where something went wrong.

`

// reference is the page of operations.
func reference(ops []operation) []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	b.WriteString("## Operations\n\n| request | |\n|---|---|\n")
	for _, op := range ops {
		fmt.Fprintf(&b, "| `%s %s` | %s |\n", op.method, pathOf(op), op.summary)
	}
	for _, op := range ops {
		writeOperation(&b, op)
	}
	b.WriteString("\n## Documents\n")
	for _, t := range documentTypes(ops) {
		writeDocument(&b, t)
	}
	return b.Bytes()
}

func writeOperation(b *bytes.Buffer, op operation) {
	fmt.Fprintf(b, "\n### %s %s\n\n%s.", op.method, pathOf(op), op.summary)
	if op.text != "" {
		fmt.Fprintf(b, " %s", op.text)
	}
	b.WriteString("\n")
	if op.body != nil {
		fmt.Fprintf(b, "\nBody: `%s`%s, at most %d KiB.\n", strings.Join(op.body.types, "`, `"), named(" of ", op.body.document), op.body.limit>>10)
	}
	if len(op.params) > 0 {
		b.WriteString("\n| parameter | in | |\n|---|---|---|\n")
	}
	for _, p := range op.params {
		in := "query"
		if p.header {
			in = "header"
		}
		text := p.text
		if p.required {
			text = "required; " + text
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.name, in, text)
	}
	b.WriteString("\n| status | answer | |\n|---|---|---|\n")
	for _, a := range op.allAnswers() {
		fmt.Fprintf(b, "| %d | %s | %s |\n", a.status, named("", a.document), a.text)
	}
}

// named links to a document.
func named(before string, document any) string {
	if document == nil {
		return ""
	}
	name := reflect.TypeOf(document).Name()
	return fmt.Sprintf("%s[%s](#%s)", before, name, strings.ToLower(name))
}

// documentTypes are the documents of the operations and of the events, and all that they are made of, by name.
func documentTypes(ops []operation) []reflect.Type {
	found := map[string]reflect.Type{}
	for _, op := range ops {
		if op.body != nil {
			collect(found, op.body.document)
		}
		for _, a := range op.allAnswers() {
			collect(found, a.document)
		}
	}
	for _, event := range []any{
		Change{},
		State{},
		Sync{},
		Reset{},
		End{},
		announcing.Accepted{},
		announcing.Applied{},
		announcing.StatusChange{},
		announcing.Draining{},
		announcing.Drained{},
		announcing.Ended{},
		announcing.Alive{},
	} {
		collect(found, event)
	}
	types := slices.Collect(maps.Values(found))
	slices.SortFunc(types, func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) })
	return types
}

func collect(found map[string]reflect.Type, document any) {
	if document != nil {
		collectType(found, reflect.TypeOf(document))
	}
}

func collectType(found map[string]reflect.Type, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collectType(found, t.Elem())
	case reflect.Struct:
		if found[t.Name()] != nil || t == reflect.TypeFor[time.Time]() {
			return
		}
		found[t.Name()] = t
		for _, f := range fieldsOf(t) {
			collectType(found, f.typ)
		}
	}
}

func writeDocument(b *bytes.Buffer, t reflect.Type) {
	fmt.Fprintf(b, "\n### %s\n\n| field | type | |\n|---|---|---|\n", t.Name())
	for _, f := range fieldsOf(t) {
		doc := f.doc
		if f.optional {
			doc = strings.TrimSuffix("optional; "+doc, "; ")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.name, typeName(f.typ), doc)
	}
}

func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[json.RawMessage]():
		return "any"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "map of " + typeName(t.Elem())
	case reflect.Struct:
		return fmt.Sprintf("[%s](#%s)", t.Name(), strings.ToLower(t.Name()))
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "text"
	default:
		return "integer"
	}
}
