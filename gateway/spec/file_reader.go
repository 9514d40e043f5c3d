package spec

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// fileReader gathers the sections of all inputs, and then decodes each.
type fileReader struct {
	file     *File
	sections map[string]*tree
	faults   []found
	notices  []found
}

func (r *fileReader) input(s source, data []byte) {
	form := FormYAML
	if filepath.Ext(s.file) == ".json" {
		form = FormJSON
	}
	if len(data) > maxFile {
		r.fault(place{s, 1, 1}, "", "file of %d bytes is larger than %d", len(data), maxFile)
		return
	}
	t, faults := s.read(data, form)
	for _, f := range faults {
		r.faults = append(r.faults, found{f, place{s, f.Line, f.Column}})
	}
	switch {
	case faults != nil || t.kind == null:
	case t.kind != dict:
		r.fault(t.at, "", "expected fields such as routes, not %s", t.kind)
	default:
		r.appSettings(t)
		r.gather(t)
	}
}

func (r *fileReader) fault(at place, key, problem string, args ...any) {
	f := at.fault(problem, args...)
	f.Key = key
	r.faults = append(r.faults, found{f, at})
}

// gather adds the sections of one file to those of the others.
func (r *fileReader) gather(t *tree) {
	about := &tree{kind: dict, at: t.at}
	seen := map[string]bool{}
	for _, e := range t.entries {
		name := fold(e.name)
		switch {
		case seen[name]:
			r.fault(e.at, "", "%q is given twice", shorten(e.name))
		case slices.Contains(fileSections, name):
			r.add(name, e)
		case isMeta(e.name):
			about.entries = append(about.entries, e)
		default:
			r.fault(e.at, "", "unknown field %q%s", shorten(e.name), DidYouMean(e.name, slices.Values(fileSections)))
		}
		seen[name] = true
	}
	r.value("", about, reflect.ValueOf(&Meta{}).Elem())
}

// isMeta says whether a name is that of a field that every value may carry.
func isMeta(name string) bool {
	_, known := plans[reflect.TypeFor[Meta]()].byName[fold(name)]
	return known || strings.HasPrefix(name, "x-")
}

func (r *fileReader) add(name string, e entry) {
	value := e.value
	if name == "routes" {
		value = r.byRouteID(value)
	}
	have, ok := r.sections[name]
	switch {
	case value.kind == null:
	case value.kind != dict:
		r.fault(value.at, name, "expected fields, not %s", value.kind)
	case !ok:
		r.sections[name] = &tree{kind: dict, at: e.at, entries: value.entries}
	default:
		have.entries = append(have.entries, value.entries...)
	}
}

func (r *fileReader) section(name string) {
	t, ok := r.sections[name]
	if !ok {
		return
	}
	switch name {
	case "node":
		r.place(name, t)
		r.value(name, t, reflect.ValueOf(&r.file.Node).Elem())
	case "listeners":
		r.place(name, t)
		r.value(name, t, reflect.ValueOf(&r.file.Listeners).Elem())
	case "announce":
		r.announce(t)
	default:
		r.keys(name, t)
	}
}

func (r *fileReader) place(key string, t *tree) { r.file.places[key] = t }

// value decodes a tree into v, and keeps the faults under a key.
func (r *fileReader) value(key string, t *tree, v reflect.Value) (ok bool) {
	d := &decoder{key: key}
	d.value(t, v, "", &field{})
	return r.take(d)
}

func (r *fileReader) take(d *decoder) (ok bool) {
	r.faults = append(r.faults, d.faults...)
	r.notices = append(r.notices, d.notices...)
	return len(d.faults) == 0
}

// announce decodes the announcement of a service, which names its route itself.
func (r *fileReader) announce(t *tree) {
	instance := &Instance{}
	r.place("announce", t)
	if r.value("announce", t, reflect.ValueOf(instance).Elem()) && instance.RouteID == "" {
		r.fault(t.at, "announce", "routeId is missing: the route that is announced")
	}
	r.file.Announce = instance
}

// keys decodes the entries of routes, clusters or config, each as the value of
// a key of its own.
func (r *fileReader) keys(name string, t *tree) {
	for _, e := range t.entries {
		written := strings.Join([]string{root, name, e.name}, "/")
		key, shape, fault := lookUp(written)
		if fault != nil {
			r.fault(e.at, written, "%s", fault.Problem)
			continue
		}
		if first, ok := r.file.places[key]; ok {
			r.fault(e.at, key, "is there twice; first at %s", first.at)
			continue
		}
		r.place(key, e.value)
		d := &decoder{key: key}
		d.foldNotice(written, e.at)
		value := d.shape(e.value, shape)
		if r.take(d) {
			r.keep(key, value)
		}
	}
}

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column) }

func (r *fileReader) keep(key string, value any) {
	id := key[strings.LastIndexByte(key, '/')+1:]
	switch value := value.(type) {
	case *Route:
		r.file.Routes[id] = value
	case *Cluster:
		r.file.Clusters[id] = value
	default:
		r.file.Config[id] = Decoded{Key: key, Value: value, JSON: Encode(value)}
	}
}
