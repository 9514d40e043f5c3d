package spec

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep maps and lists may nest; the deepest shape needs six.
const maxDepth = 32

// tree is one value of an input, whatever form it was written in, with the
// place where it stands.
type tree struct {
	kind    kind
	text    string  // of a scalar: what was written, without quotes and escapes
	entries []entry // of a dict, in the order written, duplicates and all
	items   []*tree // of a list or a series
	at      place
}

// entry is one field of a dict.
type entry struct {
	name  string
	at    place
	value *tree
}

type kind uint8

const (
	null    kind = iota // the same as not written
	quoted              // certainly text
	plain               // text, number or truth, as the schema says
	number              // certainly a number
	boolean             // certainly a truth
	list
	dict
	series // what one shorthand field was given, once or several times
)

func (k kind) String() string {
	switch k {
	case null:
		return "nothing"
	case number:
		return "a number"
	case boolean:
		return "true or false"
	case list:
		return "a list"
	case dict:
		return "fields"
	default:
		return "text"
	}
}

// place is where something stands in one of several inputs. Line and column
// count from 1, the column in characters.
type place struct {
	source
	line, column int
}

// source is one input: its name, empty unless it is a file, and its number
// among those that are read together.
type source struct {
	file   string
	number int
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.number, q.number), cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

func (p place) fault(problem string, args ...any) Fault {
	return Fault{Problem: fmt.Sprintf(problem, args...), File: p.file, Line: p.line, Column: p.column}
}

// written is the value as a person wrote it, short enough for a message; a
// dict and a list are not repeated.
func (t *tree) written() string {
	if t.kind == series && len(t.items) == 1 {
		return t.items[0].written()
	}
	return shorten(t.text)
}

// shorten makes a text fit for a message: not too long, and without the
// password that somebody wrote into a URL.
func shorten(s string) string {
	const most = 64
	s = credentials.ReplaceAllString(s, "://***@")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

var credentials = regexp.MustCompile(`://[^/@\s]*@`)

// find follows a path such as resilience.timeout or backends[1] as far as the
// input goes, whatever the spelling of the names in it.
func (t *tree) find(path string) *tree {
	if i, rest, ok := index(path); ok {
		if item := t.item(i); item != nil {
			return item.find(rest)
		}
	}
	for _, e := range t.entries {
		for _, name := range t.names(e, path) {
			if rest, ok := after(path, name); ok {
				return e.value.find(rest)
			}
		}
	}
	return t
}

// index is the number that a path such as [1].name begins with, and what
// follows.
func index(path string) (i int, rest string, ok bool) {
	digits, opened := strings.CutPrefix(path, "[")
	digits, rest, closed := strings.Cut(digits, "]")
	i, err := strconv.Atoi(digits)
	return i, strings.TrimPrefix(rest, "."), opened && closed && err == nil
}

// item is one item of a list or a series, nil if there is none. It is found
// directly: a list may be as long as the input and have a fault in every item.
func (t *tree) item(i int) *tree {
	items := t.items
	if t.kind == series {
		items = flatten(items)
	}
	if i < 0 || i >= len(items) {
		return nil
	}
	return items[i]
}

// names are the beginnings of a path that an entry may stand for: its own
// name, and a field that it is another spelling or an alias of.
func (t *tree) names(e entry, path string) []string {
	first, _, _ := strings.Cut(path, ".")
	first, _, _ = strings.Cut(first, "[")
	if n := fold(e.name); n == fold(first) || n == fold(first+millis) || n == fold(first+seconds) {
		return []string{e.name, first}
	}
	return []string{e.name}
}

// after is what follows a step in a path, if the path begins with it.
func after(path, step string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, step)
	switch {
	case !ok || step == "":
		return "", false
	case rest == "" || rest[0] == '[':
		return rest, true
	default:
		return strings.CutPrefix(rest, ".")
	}
}
