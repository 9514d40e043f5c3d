package spec

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
