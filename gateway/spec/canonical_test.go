package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// keyOf is a key for each shape.
func keyOf(s shape) string {
	return strings.NewReplacer("{routeId}", "r", "{clusterId}", "c", "{tenantId}", "t", "{instanceId}", "I").Replace(s.keys[0])
}

func TestDecodeOfEncodeIsTheSameValue(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				value := random(t, s.example)
				text := Encode(value)
				got, err := Decode(keyOf(s), text, FormJSON)
				if err != nil {
					t.Fatalf("%s\n%v", text, err)
				}
				if diff := cmp.Diff(value, got.Value); diff != "" {
					t.Errorf("decoding %s (-want +got):\n%s", text, diff)
				}
				if !bytes.Equal(got.JSON, text) {
					t.Errorf("canonical form is no fixed point:\n%s\n%s", text, got.JSON)
				}
			})
		})
	}
}

func TestEveryFormOfAValueDecodesEqual(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := Encode(random(t, s.example))
				var tree any
				unmarshal(t, want, &tree)
				checkForm(t, keyOf(s), FormYAML, toYAML(t, tree, ""), want)
				if line, ok := toShorthand(t, "", tree); ok && line != "" {
					checkForm(t, keyOf(s), FormShorthand, line, want)
				}
			})
		})
	}
}

func checkForm(t *rapid.T, key string, form Form, text string, want []byte) {
	t.Helper()
	got, err := Decode(key, []byte(text), form)
	if err != nil {
		t.Fatalf("form %d\n%s\n%v", form, text, err)
	}
	if !bytes.Equal(got.JSON, want) {
		t.Errorf("form %d\n%s\ngot  %s\nwant %s", form, text, got.JSON, want)
	}
}

func unmarshal(t *rapid.T, data []byte, into any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// toYAML writes blocks, with the indent of the parent.
func toYAML(t *rapid.T, value any, indent string) string {
	var b strings.Builder
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return "{}"
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&b, "\n%s%s: %s", indent, yamlText(t, name), toYAML(t, v[name], indent+"  "))
		}
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		for _, item := range v {
			fmt.Fprintf(&b, "\n%s- %s", indent, toYAML(t, item, indent+"  "))
		}
	case string:
		return yamlText(t, v)
	default:
		return string(Encode(v))
	}
	return b.String()
}

// yamlText is quoted, unless it cannot be mistaken for anything else.
func yamlText(t *rapid.T, s string) string {
	letters := strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	words := []string{"", "null", "true", "false", "Null", "True", "False", "NULL", "TRUE", "FALSE"}
	switch {
	case letters && !slices.Contains(words, s):
		return s
	case rapid.Bool().Draw(t, "single") && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	default:
		return asciiJSON(s)
	}
}

// asciiJSON writes what YAML may not hold as itself as escapes.
func asciiJSON(s string) string {
	var b strings.Builder
	for _, r := range string(Encode(s)) {
		if r > '~' && r <= 0xffff {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// toShorthand writes fields, unless there is something that shorthand cannot
// say: a list of fields, no fields at all, null, a line
// break, a name with a separator.
func toShorthand(t *rapid.T, name string, value any) (line string, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		return fieldsShorthand(t, name, v)
	case []any:
		return listShorthand(t, name, v)
	case string:
		return name + "=" + shorthandText(v), !strings.Contains(v, "\n")
	case nil:
		return "", false
	default:
		return fmt.Sprintf("%s:%s", name, Encode(v)), true
	}
}

func fieldsShorthand(t *rapid.T, name string, fields map[string]any) (string, bool) {
	var lines []string
	for _, inner := range slices.Sorted(maps.Keys(fields)) {
		plain := strings.TrimLeft(inner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
		line, ok := toShorthand(t, join(name, inner), fields[inner])
		if !ok || !plain || strings.HasPrefix(inner, "x-") {
			return "", false
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", "), len(lines) > 0
}

func listShorthand(t *rapid.T, name string, items []any) (string, bool) {
	var texts []string
	for _, item := range items {
		text, isText := item.(string)
		if !isText || strings.Contains(text, "\n") {
			return "", false
		}
		texts = append(texts, shorthandText(text))
	}
	if len(texts) > 0 && rapid.Bool().Draw(t, "repeated") {
		return name + "=" + strings.Join(texts, ","+name+":"), true
	}
	return name + "=[" + strings.Join(texts, ", ") + "]", true
}

func shorthandText(s string) string {
	if strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz:/.[]{}*<>+~$^|") == "" && !strings.HasPrefix(s, "[") &&
		strings.Count(s, "[") == strings.Count(s, "]") && s != "" {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func TestSchemaAcceptsEveryCanonicalForm(t *testing.T) {
	for _, s := range shapes() {
		schema := compileSchema(t, "#/$defs/"+s.name)
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := Encode(random(t, s.example))
				value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				if err := schema.Validate(value); err != nil {
					t.Errorf("%s\n%v", text, err)
				}
			})
		})
	}
}

// compileSchema also holds the schema against that of JSON Schema itself.
func compileSchema(t *testing.T, fragment string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("grapevine.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("grapevine.json" + fragment)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaOfTheStaticFile(t *testing.T) {
	schema := compileSchema(t, "")
	for text, want := range map[string]bool{
		`{"node":{"name":"edge-1"},"listeners":{"http":":8080"},"routes":{"b":{"path":"/b","backends":["http://a"]}},"x-a":1}`: true,
		`{"clusters":{"c":{"destinations":{"b1":"http://a"},"resilience":{"timeoutMs":5000}}},"config":{"timeouts":{}}}`:       true,
		`{"routes":{"b":{"path":"/b","limits":{"maxBodyBytes":1000}}}}`:                                                        true,
		`{"route":{}}`: false,
		`{"routes":{"b":{"path":"/b","backend":["http://a"]}}}`:                     false,
		`{"routes":{"b":{"path":"/b","backends":["ftp://a"]}}}`:                     false,
		`{"routes":{"b":{"path":"/b","timeout":5}}}`:                                false,
		`{"clusters":{"c":{"loadBalancing":"best"}}}`:                               false,
		`{"clusters":{"c":{"destinations":{"b1":{"weight":1}}}}}`:                   false,
		`{"config":{"identity":{}}}`:                                                false,
		`{"clusters":{"c":{"health":{"active":{"path":"/a","healthyAfter":101}}}}}`: false,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != want {
			t.Errorf("%s: got %v, want valid: %v", text, err, want)
		}
	}
}

func TestGeneratedPagesAreCurrent(t *testing.T) {
	for name, want := range map[string][]byte{"schema.json": Schema(), "keys.md": Reference()} {
		got, err := os.ReadFile("../../docs/reference/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("docs/reference/%s is not current, run go generate ./gateway/spec (-want +got):\n%s", name, diff)
		}
	}
}
