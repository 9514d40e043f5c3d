package spec

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// decoder turns a tree into the Go value of a shape. It never stops at a fault:
// it writes it down and goes on with the next field.
type decoder struct {
	key     string
	faults  []found
	notices []found
	meant   []string // paths that an unknown name was probably meant for
	begun   moment   // when the struct began that is being decoded
}

// moment is how much was found up to then. What is said about a struct is
// found after it began, and to look only there keeps the time of a long list of
// structs with faults from growing with its square.
type moment struct{ faults, meant int }

// found is a fault and where it stands, by which faults are put in order.
type found struct {
	Fault
	at place
}

// inOrder are the faults in the order in which they stand in the input.
func inOrder(all []found) Faults {
	slices.SortStableFunc(all, func(a, b found) int { return a.at.compare(b.at) })
	var faults Faults
	for _, f := range all {
		faults = append(faults, f.Fault)
	}
	return faults
}

func (d *decoder) note(at place, path, value, problem string) found {
	f := at.fault("%s", problem)
	f.Key, f.Field, f.Value = d.key, path, value
	return found{f, at}
}

// fault says what is wrong with the value at a path.
func (d *decoder) fault(n *tree, path, problem string, args ...any) {
	d.faults = append(d.faults, d.note(n.at, path, n.written(), fmt.Sprintf(problem, args...)))
}

// faultName says what is wrong with the name of an entry of the dict at a path.
func (d *decoder) faultName(e entry, path, problem string, args ...any) {
	d.faults = append(d.faults, d.note(e.at, path, "", fmt.Sprintf(problem, args...)))
}

// value decodes n into v. The field gives the rules for it, also for the items
// of a list and the values of a map.
func (d *decoder) value(n *tree, v reflect.Value, path string, f *field) {
	if n.kind == series && v.Kind() != reflect.Slice {
		if n = d.single(n, path); n == nil {
			return
		}
	}
	switch {
	case n.kind == null:
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, f)
	case isText(v.Type()):
		d.text(n, v, path, f)
	case v.Kind() == reflect.Struct:
		d.structure(n, v, path)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, path, f)
	case v.Kind() == reflect.Slice:
		d.list(n, v, path, f)
	default:
		d.scalar(n, v, path, f)
	}
}

// single is the one value of a series.
func (d *decoder) single(n *tree, path string) *tree {
	if len(n.items) > 1 {
		d.fault(n.items[1], path, "is given %d times, and takes one value", len(n.items))
		return nil
	}
	return n.items[0]
}

func (d *decoder) structure(n *tree, v reflect.Value, path string) {
	p := plans[v.Type()]
	if p.bare != nil && n.kind != dict && n.kind != list {
		d.value(n, v.FieldByIndex(p.bare.index), path, p.bare)
		return
	}
	if n.kind != dict {
		d.fault(n, path, "expected fields, not %s%s", n.kind, fieldsHint(n.kind))
		return
	}
	outer := d.begun
	d.begun = moment{len(d.faults), len(d.meant)}
	defer func() { d.begun = outer }()
	d.fields(n, v, path, p)
	if c, ok := v.Addr().Interface().(checked); ok {
		c.check(&checks{d, n, path})
	}
}

func fieldsHint(k kind) string {
	if k == plain {
		return ": write name=value"
	}
	return ""
}

// checked is a struct whose fields depend on each other.
type checked interface{ check(c *checks) }

func (d *decoder) fields(n *tree, v reflect.Value, path string, p *plan) {
	seen := map[*field]entry{}
	for _, e := range n.entries {
		s, ok := p.byName[fold(e.name)]
		switch {
		case ok && seen[s.field].value != nil:
			d.faultName(e, path, "%s", twice(seen[s.field].name, e.name))
		case ok:
			seen[s.field] = e
			d.field(e.value, v.FieldByIndex(s.index), join(path, s.name), s)
		case strings.HasPrefix(e.name, "x-") && p.freeXes:
			d.annotation(e, v.FieldByName("Annotations"), path)
		default:
			d.unknown(e, path, p)
		}
	}
	d.missing(n, path, p, seen)
}

// missing looks for required fields that were not given.
func (d *decoder) missing(n *tree, path string, p *plan, seen map[*field]entry) {
	for _, f := range p.fields {
		given := seen[f].value != nil && seen[f].value.kind != null
		if f.required && !given && !slices.Contains(d.meant[d.begun.meant:], join(path, f.name)) {
			d.fault(&tree{at: n.at}, join(path, f.name), "is missing: %s", f.doc)
		}
	}
}

// unknown refuses a field, and remembers which one was meant, so that it is not
// called missing as well.
func (d *decoder) unknown(e entry, path string, p *plan) {
	d.faultName(e, path, "unknown field %q%s", shorten(e.name), DidYouMean(e.name, p.names()))
	for _, name := range near(e.name, p.names()) {
		d.meant = append(d.meant, join(path, p.byName[fold(name)].name))
	}
}

// twice tells a repetition from two spellings and from an alias.
func twice(first, second string) string {
	switch {
	case first == second:
		return fmt.Sprintf("%q is given twice", shorten(second))
	case fold(first) == fold(second):
		return fmt.Sprintf("%q and %q are the same field", shorten(first), shorten(second))
	default:
		return fmt.Sprintf("%q and %q say the same: give one of them", shorten(first), shorten(second))
	}
}

func (d *decoder) field(n *tree, v reflect.Value, path string, s spelling) {
	switch {
	case s.unit != 0:
		d.alias(n, v, path, s)
	case n.empty() && isText(v.Type()) && !s.required:
	default:
		d.value(n, v, path, s.field)
	}
}

// empty says whether a text was written that holds nothing.
func (t *tree) empty() bool {
	if t.kind == series && len(t.items) == 1 {
		t = t.items[0]
	}
	return t.text == "" && (t.kind == quoted || t.kind == plain)
}

// alias decodes an integer of milliseconds or seconds into a duration.
func (d *decoder) alias(n *tree, v reflect.Value, path string, s spelling) {
	var count int64
	before := len(d.faults)
	d.value(n, reflect.ValueOf(&count).Elem(), path, &field{})
	if len(d.faults) > before || n.kind == null {
		return
	}
	switch {
	case count < 0:
		d.fault(n, path, "must not be negative")
		return
	case count > int64(maxDuration/s.unit):
		d.fault(n, path, "is out of range")
		return
	}
	length := Duration(time.Duration(count) * s.unit)
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(durationType))
		v = v.Elem()
	}
	v.SetInt(int64(length))
	d.within(n, float64(length), path, s.field)
}

func (d *decoder) mapping(n *tree, v reflect.Value, path string, f *field) {
	if n.kind != dict {
		d.fault(n, path, "expected names with values, not %s", n.kind)
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	seen := map[string]string{}
	for _, e := range n.entries {
		name := reflect.New(v.Type().Key()).Elem()
		if first, ok := seen[strings.ToLower(e.name)]; ok {
			d.faultName(e, path, "%s", sameName(first, e.name))
			continue
		}
		seen[strings.ToLower(e.name)] = e.name
		if !d.name(e, name, path) {
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, value, join(path, name.String()), &field{})
		if e.value.kind == null {
			continue
		}
		v.SetMapIndex(name, value)
	}
}

func sameName(first, second string) string {
	if first == second {
		return fmt.Sprintf("%q is given twice", shorten(second))
	}
	return fmt.Sprintf("%q and %q differ only in case", shorten(first), shorten(second))
}

// name decodes the name of a map's entry.
func (d *decoder) name(e entry, v reflect.Value, path string) bool {
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := t.UnmarshalText([]byte(e.name)); err != nil {
			d.faultName(e, path, "name %q: %v", shorten(e.name), err)
			return false
		}
		return true
	}
	if e.name == "" {
		d.faultName(e, path, "a name is empty")
		return false
	}
	v.SetString(e.name)
	return true
}

func (d *decoder) list(n *tree, v reflect.Value, path string, f *field) {
	items := n.items
	switch n.kind {
	case list:
	case series:
		items = flatten(items)
	default:
		d.fault(n, path, "expected a list, not %s", n.kind)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", path, i)
		if item.kind == null || f.enum != nil && item.empty() {
			d.fault(item, path, "is empty")
			continue
		}
		d.value(item, v.Index(i), path, f)
	}
}

// flatten makes one list of what a shorthand field was given.
func flatten(given []*tree) (items []*tree) {
	for _, t := range given {
		if t.kind == list {
			items = append(items, t.items...)
		} else {
			items = append(items, t)
		}
	}
	return items
}

// join is the path of a field below another, or the other alone.
func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}
