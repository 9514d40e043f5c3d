package spec

import (
	"cmp"
	"encoding"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// plan is what the tags of a struct type say about its fields, in the order
// they are declared.
type plan struct {
	fields  []*field
	sorted  []*field            // by name, as the canonical form has them
	byName  map[string]spelling // by folded name
	bare    *field              // stands for the whole struct when a single value is given
	freeXes bool                // takes annotations, x-*
}

// field is one field of a shape and the rules for its value.
type field struct {
	name     string
	index    []int
	typ      reflect.Type
	doc      string
	missing  string // what holds when it is not written
	required bool
	enum     []string
	bounds   bounds
}

// spelling is one name by which a field may be written; unit is that of the
// integer aliases such as timeoutMs, and 0 for the field's own name.
type spelling struct {
	*field
	unit time.Duration
}

// The endings of the integer aliases that every duration has.
const (
	millis  = "Ms"
	seconds = "Seconds"
)

// fold takes the spelling style out of a name: pathRemovePrefix,
// PathRemovePrefix and path_remove_prefix are one.
func fold(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}

// plans holds the plan of every struct type that can be reached from a shape.
// It is built once and never changes.
var plans = makePlans()

func makePlans() map[reflect.Type]*plan {
	all := map[reflect.Type]*plan{}
	for _, k := range kinds {
		addPlans(all, reflect.TypeOf(k.shape))
	}
	for _, s := range sections {
		addPlans(all, reflect.TypeOf(s.shape))
	}
	addPlans(all, reflect.TypeFor[Node]())
	addPlans(all, reflect.TypeFor[Listeners]())
	addPlans(all, reflect.TypeFor[Meta]())
	return all
}

func addPlans(all map[reflect.Type]*plan, t reflect.Type) {
	switch {
	case t == nil || isText(t):
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map:
		addPlans(all, t.Elem())
	case t.Kind() == reflect.Struct && all[t] == nil:
		p := newPlan(t)
		all[t] = p
		for _, f := range p.fields {
			addPlans(all, f.typ)
		}
	}
}

func newPlan(t reflect.Type) *plan {
	p := &plan{byName: map[string]spelling{}}
	for _, sf := range reflect.VisibleFields(t) {
		p.freeXes = p.freeXes || sf.Name == "Annotations"
		if tag := sf.Tag.Get("json"); tag != "" && tag != "-" {
			p.add(newField(sf), sf.Tag.Get("bare") == "true")
		}
	}
	p.sorted = slices.SortedFunc(slices.Values(p.fields), func(a, b *field) int { return cmp.Compare(a.name, b.name) })
	return p
}

func (p *plan) add(f *field, bare bool) {
	p.fields = append(p.fields, f)
	p.byName[fold(f.name)] = spelling{field: f}
	if bare {
		p.bare = f
	}
	if isDuration(f.typ) {
		p.byName[fold(f.name+millis)] = spelling{f, time.Millisecond}
		p.byName[fold(f.name+seconds)] = spelling{f, time.Second}
	}
}

// names are the canonical names of all fields and their aliases.
func (p *plan) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range p.fields {
			if !yield(f.name) || isDuration(f.typ) && !(yield(f.name+millis) && yield(f.name+seconds)) {
				return
			}
		}
	}
}

func newField(sf reflect.StructField) *field {
	name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
	f := &field{
		name:     name,
		index:    sf.Index,
		typ:      sf.Type,
		doc:      sf.Tag.Get("doc"),
		missing:  sf.Tag.Get("default"),
		required: sf.Tag.Get("required") == "true",
		bounds:   parseBounds(sf.Tag.Get("range")),
	}
	if enum := sf.Tag.Get("enum"); enum != "" {
		f.enum = strings.Split(enum, "|")
	}
	return f
}

// bounds of a number, a size or a duration (then in nanoseconds). The texts are
// empty where there is no bound.
type bounds struct {
	least, most     string
	leastAt, mostAt float64
}

func parseBounds(tag string) (b bounds) {
	if tag == "" {
		return b
	}
	b.least, b.most, _ = strings.Cut(tag, "..")
	b.leastAt, b.mostAt = bound(b.least), bound(b.most)
	return b
}

// bound reads 5, 0.5 or 10ms.
func bound(s string) float64 {
	if d, err := time.ParseDuration(s); err == nil {
		return float64(d)
	}
	n, _ := strconv.ParseFloat(s, 64)
	return n
}

// problem says what is wrong with a number, or nothing.
func (b bounds) problem(n float64) string {
	low, high := b.least != "" && n < b.leastAt, b.most != "" && n > b.mostAt
	switch {
	case !low && !high:
		return ""
	case b.least == b.most:
		return "must be " + b.least
	case b.most == "":
		return "must be at least " + b.least
	case b.least == "":
		return "must be at most " + b.most
	default:
		return fmt.Sprintf("must be from %s to %s", b.least, b.most)
	}
}

var (
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	durationType = reflect.TypeFor[Duration]()
)

// isText says whether a type has a syntax of its own.
func isText(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textType)
}

func isDuration(t reflect.Type) bool {
	return t == durationType || t.Kind() == reflect.Pointer && t.Elem() == durationType
}
