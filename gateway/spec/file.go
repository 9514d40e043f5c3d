package spec

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// maxFile is the largest static file that is read, in bytes.
const maxFile = 64 << 20

// Input is one static file: its name, for messages and to tell JSON (.json) from
// YAML, and its content.
type Input struct {
	Name string
	Data []byte
}

// File is what one or several static files say.
type File struct {
	Node      Node
	Listeners Listeners
	Routes    map[string]*Route   // by route id
	Clusters  map[string]*Cluster // by cluster id
	Config    map[string]Decoded  // by section
	Announce  *Instance           // with its RouteID; nil if there is none
	Notices   []Fault

	places map[string]*tree // where the value of a key stands
}

// Node is what a node says of itself.
type Node struct {
	Name   Name `json:"name,omitzero" doc:"name of the node; default: the host's"`
	Region Name `json:"region,omitzero" doc:"where the node runs"`
}

// Listeners are the addresses that a node binds; empty means not said.
type Listeners struct {
	HTTP    ListenAddress `json:"http,omitzero" doc:"proxy"`
	HTTPS   ListenAddress `json:"https,omitzero" doc:"proxy over TLS"`
	Admin   ListenAddress `json:"admin,omitzero" doc:"API"`
	Socket  string        `json:"socket,omitzero" doc:"path of the API's unix socket"`
	Gossip  ListenAddress `json:"gossip,omitzero" doc:"membership and spreading"`
	Metrics ListenAddress `json:"metrics,omitzero" doc:"metrics, if not with the API"`
}

// The sections of a static file.
var fileSections = []string{"node", "listeners", "routes", "clusters", "config", "announce"}

// ParseFiles reads static files, in YAML or JSON, in our own form or that of
// the source documents (appsettings.go), as if they were one: an id or a
// listener that is there twice is a fault, in whichever files. The error is
// Faults, of all files, in their order.
func ParseFiles(inputs ...Input) (*File, error) {
	r := &fileReader{
		file: &File{
			Routes: map[string]*Route{}, Clusters: map[string]*Cluster{}, Config: map[string]Decoded{},
			places: map[string]*tree{},
		},
		sections: map[string]*tree{},
	}
	for i, input := range inputs {
		r.input(source{input.Name, i}, input.Data)
	}
	for _, name := range fileSections {
		r.section(name)
	}
	if faults := inOrder(r.faults); faults != nil {
		return nil, faults
	}
	r.file.Notices = inOrder(r.notices)
	return r.file, nil
}

// Locate adds the place where a fault's field stands in the files, and its
// value, to a fault that was found later. A fault on a key that is not in the
// files is returned as it is.
func (f *File) Locate(fault Fault) Fault {
	t, ok := f.places[fault.Key]
	if !ok {
		return fault
	}
	t = t.find(fault.Field)
	fault.File, fault.Line, fault.Column = t.at.file, t.at.line, t.at.column
	if fault.Value == "" && fault.Field != "" {
		fault.Value = t.written()
	}
	return fault
}

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
		case !slices.Contains(fileSections, name):
			about.entries = append(about.entries, e)
		case seen[name]:
			r.fault(e.at, "", "%q is given twice", shorten(e.name))
		default:
			seen[name] = true
			r.add(name, e)
		}
	}
	r.about(about)
}

// about decodes what a file may hold beside its sections: Meta.
func (r *fileReader) about(t *tree) {
	var m Meta
	p := plans[reflect.TypeFor[Meta]()]
	for _, e := range t.entries {
		if _, ok := p.byName[fold(e.name)]; !ok && !strings.HasPrefix(e.name, "x-") {
			r.fault(e.at, "", "unknown field %q%s", shorten(e.name), didYouMean(e.name, slices.Values(fileSections)))
		}
	}
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool {
		_, ok := p.byName[fold(e.name)]
		return !ok && !strings.HasPrefix(e.name, "x-")
	})
	r.value("", t, reflect.ValueOf(&m).Elem())
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
