package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// The largest values that are taken, in bytes.
const (
	MaxValue          = 256 << 10 // of an operator's key
	MaxEphemeralValue = 4 << 10   // of a key that gossip carries
)

// Form is how a value is written.
type Form int

const (
	// FormAuto is the rule for an argument of the command line: what begins
	// with { [ or " is JSON, one line is shorthand, several are YAML.
	FormAuto Form = iota
	FormJSON
	// FormYAML takes JSON too, and shorthand if the document is one plain line.
	FormYAML
	FormShorthand
)

// Decoded is what a value means.
type Decoded struct {
	Key     string  // canonical
	Value   any     // *Route, *Cluster, *Maintenance, *Instance, *Tenant or a section such as *Timeouts; nil for a free key
	JSON    []byte  // canonical; for a free key the bytes as they came
	Notices []Fault // what a person should know although it is not wrong
}

// Decode reads and checks the value of a key, strictly and completely. The
// error is Faults; beside it Decoded has what could still be read, Key and
// Value by best effort, for whoever has to keep a bad value's place.
func Decode(key string, data []byte, form Form) (Decoded, error) {
	canonical, shape, fault := lookUp(key)
	if fault == nil {
		fault = tooLarge(canonical, data)
	}
	if fault != nil {
		return Decoded{Key: canonical}, Faults{*fault}
	}
	if shape == nil {
		return Decoded{Key: canonical, JSON: data}, nil
	}
	d := &decoder{key: canonical}
	t, faults := source{}.read(data, form)
	if faults != nil {
		return Decoded{Key: canonical}, faults.of(canonical)
	}
	d.foldNotice(key, t.at)
	readable := Decoded{Key: canonical, Value: d.shape(t, shape)}
	if faults := inOrder(d.faults); faults != nil {
		return readable, faults
	}
	return readable.complete(inOrder(d.notices))
}

// complete adds the canonical form, which may be longer than what was written.
func (d Decoded) complete(notices Faults) (Decoded, error) {
	d.JSON, d.Notices = Encode(d.Value), notices
	if fault := tooLarge(d.Key, d.JSON); fault != nil {
		return d, Faults{*fault}
	}
	return d, nil
}

func tooLarge(key string, data []byte) *Fault {
	most := MaxValue
	if Ephemeral(key) {
		most = MaxEphemeralValue
	}
	if len(data) <= most {
		return nil
	}
	fault := place{line: 1, column: 1}.fault("value of %d bytes is larger than %d", len(data), most)
	fault.Key = key
	return &fault
}

// foldNotice tells a person that an id was written in another case.
func (d *decoder) foldNotice(written string, at place) {
	if written != d.key {
		d.notices = append(d.notices, d.note(at, "", "", fmt.Sprintf("%s is folded to lower case", written)))
	}
}

// shape decodes a tree into a new value of the type of example.
func (d *decoder) shape(t *tree, example any) any {
	v := reflect.New(reflect.TypeOf(example))
	if t.kind == null {
		d.fault(t, "", "is empty")
	}
	d.value(t, v.Elem(), "", &field{})
	return v.Interface()
}

// of gives the key to faults that were found before anybody knew it.
func (fs Faults) of(key string) Faults {
	for i := range fs {
		if fs[i].Key == "" {
			fs[i].Key = key
		}
	}
	return fs
}

// read turns an input of any form into a tree.
func (s source) read(data []byte, form Form) (*tree, Faults) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as editors on Windows write
	if i := invalidUTF8(data); i >= 0 {
		at := (&cursor{place: place{s, 1, 1}}).seek(data, i)
		return nil, Faults{at.fault("is not UTF-8")}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &tree{kind: null, at: place{s, 1, 1}}, nil
	}
	switch form {
	case FormJSON:
		return s.json(data)
	case FormYAML:
		return s.anyYAML(data)
	case FormShorthand:
		return s.shorthand(data)
	default:
		return s.auto(data)
	}
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return -1
}

func (s source) auto(data []byte) (*tree, Faults) {
	text := bytes.TrimSpace(data)
	switch {
	case bytes.IndexByte([]byte(`{["`), text[0]) >= 0:
		return s.json(data)
	case bytes.IndexByte(text, '\n') >= 0:
		return s.anyYAML(data)
	default:
		return s.shorthand(data)
	}
}

// anyYAML reads YAML, and what is told apart from it in passing.
func (s source) anyYAML(data []byte) (*tree, Faults) {
	if json.Valid(data) {
		return s.json(data)
	}
	t, faults := s.yaml(data)
	if faults == nil && t.kind == plain && bytes.IndexByte(bytes.TrimSpace(data), '\n') < 0 {
		return s.shorthand(data)
	}
	return t, faults
}
