package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// json reads a JSON document. encoding/json judges the grammar; what it lets
// pass in silence (two equal names, half a surrogate pair, any depth) is left
// to the tree, which keeps it, and to this reader, which refuses it.
func (s source) json(data []byte) (*tree, Faults) {
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data)), data: data, cursor: cursor{place: place{s, 1, 1}}}
	r.dec.UseNumber()
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		return nil, Faults{r.syntax(err)}
	}
	t := r.value(r.next(), 0)
	return t, r.faults
}

type jsonReader struct {
	dec    *json.Decoder
	data   []byte
	faults Faults
	cursor
}

func (r *jsonReader) syntax(err error) Fault {
	offset := len(r.data)
	if e := new(json.SyntaxError); errors.As(err, &e) && int(e.Offset) < len(r.data) {
		offset = max(0, int(e.Offset)-1)
	}
	problem := strings.TrimPrefix(err.Error(), "json: ")
	return r.seek(r.data, offset).fault("not valid JSON: %s", problem)
}

// next is the place of the token that comes next.
func (r *jsonReader) next() place {
	offset := int(r.dec.InputOffset())
	for offset < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[offset]) >= 0 {
		offset++
	}
	return r.seek(r.data, offset)
}

// value reads one value. A container stands where at says, so that one with a
// name stands where its name does.
func (r *jsonReader) value(at place, depth int) *tree {
	here := r.next()
	switch token := r.token(); token := token.(type) {
	case json.Delim:
		return r.container(token, at, depth+1)
	case string:
		return &tree{kind: quoted, text: token, at: here}
	case json.Number:
		return &tree{kind: number, text: token.String(), at: here}
	case bool:
		return &tree{kind: boolean, text: strconv.FormatBool(token), at: here}
	default:
		return &tree{kind: null, at: at}
	}
}

func (r *jsonReader) container(open json.Delim, at place, depth int) *tree {
	if depth > maxDepth {
		r.faults = append(r.faults, at.fault("nested deeper than %d levels", maxDepth))
		r.skip()
		return &tree{kind: null, at: at}
	}
	t := &tree{kind: list, at: at}
	if open == '{' {
		t.kind = dict
	}
	for r.dec.More() {
		here := r.next()
		if t.kind == list {
			t.items = append(t.items, r.value(here, depth))
			continue
		}
		name, _ := r.token().(string)
		t.entries = append(t.entries, entry{name, here, r.value(here, depth)})
	}
	r.token()
	return t
}

// skip reads to the end of the container that was just opened.
func (r *jsonReader) skip() {
	for open := 1; open > 0; {
		switch r.token() {
		case json.Delim('{'), json.Delim('['):
			open++
		case json.Delim('}'), json.Delim(']'):
			open--
		}
	}
}

// token reads one token of a document whose grammar was already judged.
func (r *jsonReader) token() json.Token {
	at, begin := r.next(), int(r.dec.InputOffset())
	token, _ := r.dec.Token()
	text, isText := token.(string)
	raw := r.data[begin:r.dec.InputOffset()]
	if isText && strings.ContainsRune(text, utf8.RuneError) && bytes.Contains(bytes.ToLower(raw), []byte(`\ud`)) {
		r.faults = append(r.faults, at.fault(`\u escape that is half of a surrogate pair`))
	}
	return token
}

// cursor turns growing offsets into places.
type cursor struct {
	place
	offset int
}

func (c *cursor) seek(data []byte, offset int) place {
	for passed := data[c.offset:offset]; len(passed) > 0; {
		r, size := utf8.DecodeRune(passed)
		c.column++
		if r == '\n' {
			c.line, c.column = c.line+1, 1
		}
		passed = passed[size:]
	}
	c.offset = offset
	return c.place
}
