package spec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// Encode gives the canonical JSON of a value of this package, or of plain maps,
// slices and scalars: camelCase names, sorted; fields that hold nothing left
// out, unless they are required; texts without HTML escapes. Decode of it gives
// an equal value.
func Encode(value any) []byte {
	var e encoder
	e.texts = json.NewEncoder(&e.out)
	e.texts.SetEscapeHTML(false)
	e.value(reflect.ValueOf(value))
	return e.out.Bytes()
}

type encoder struct {
	out   bytes.Buffer
	texts *json.Encoder // writes to out
}

var marshalType = reflect.TypeFor[encoding.TextMarshaler]()

func (e *encoder) value(v reflect.Value) {
	switch {
	case !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil():
		e.out.WriteString("null")
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface:
		e.value(v.Elem())
	case v.Type().Implements(marshalType):
		text, _ := v.Interface().(encoding.TextMarshaler).MarshalText() // ours never fail
		e.leaf(string(text))
	case v.Kind() == reflect.Struct:
		e.structure(v)
	case v.Kind() == reflect.Map:
		e.mapping(v)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		e.list(v)
	default:
		e.leaf(v.Interface())
	}
}

// leaf writes a scalar, or JSON that is canonical already.
func (e *encoder) leaf(value any) {
	if raw, ok := value.(json.RawMessage); ok {
		e.out.Write(raw)
		return
	}
	if err := e.texts.Encode(value); err != nil {
		panic("spec: no canonical form: " + err.Error()) // a type that plan.go does not know either
	}
	e.out.Truncate(e.out.Len() - len("\n"))
}

func (e *encoder) structure(v reflect.Value) {
	members := newMembers(e)
	for _, f := range plans[v.Type()].sorted {
		if field := v.FieldByIndex(f.index); f.required || !field.IsZero() {
			members.add(f.name, field)
		}
	}
	if notes := v.FieldByName("Annotations"); notes.IsValid() {
		members.addAll(notes)
	}
	members.write()
}

func (e *encoder) mapping(v reflect.Value) {
	members := newMembers(e)
	members.addAll(v)
	members.write()
}

func (e *encoder) list(v reflect.Value) {
	e.out.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			e.out.WriteByte(',')
		}
		e.value(v.Index(i))
	}
	e.out.WriteByte(']')
}

// members are the names and values of a JSON object that is being written.
type members struct {
	e   *encoder
	all []member
}

type member struct {
	name  string
	value reflect.Value
}

func newMembers(e *encoder) *members { return &members{e: e} }

func (m *members) add(name string, value reflect.Value) {
	m.all = append(m.all, member{name, value})
}

func (m *members) addAll(v reflect.Value) {
	for it := v.MapRange(); it.Next(); {
		m.add(it.Key().String(), it.Value())
	}
}

func (m *members) write() {
	slices.SortFunc(m.all, func(a, b member) int { return strings.Compare(a.name, b.name) })
	m.e.out.WriteByte('{')
	for i, member := range m.all {
		if i > 0 {
			m.e.out.WriteByte(',')
		}
		m.e.leaf(member.name)
		m.e.out.WriteByte(':')
		m.e.value(member.value)
	}
	m.e.out.WriteByte('}')
}
