package spec

import (
	"fmt"
	"slices"
	"strings"
)

// The first segments of keys that are not free for users.
const (
	root = "gateway"
	meta = "_meta"
)

// keyKind is one kind of key below gateway/: its second segment, the names of
// the segments that follow, and what its values look like.
type keyKind struct {
	name      string
	rest      []string
	shape     any    // example of the Go type of its values
	about     string // for the reference page
	refusal   string // why nobody may write it, empty if one may
	ephemeral bool   // lives with the session or the node that wrote it
}

const (
	laterVersion = "is reserved for a later version"
	byNodes      = "is written by each node itself"
)

// kinds are all kinds of keys, in the order of the reference page.
var kinds = []keyKind{
	{name: "routes", rest: []string{"routeId"}, shape: Route{}, about: "a route"},
	{name: "clusters", rest: []string{"clusterId"}, shape: Cluster{}, about: "a cluster of destinations"},
	{name: "maintenance", shape: Maintenance{}, about: "maintenance of the whole gateway"},
	{name: "maintenance", rest: []string{"clusterId"}, shape: Maintenance{}, about: "maintenance of one cluster"},
	{name: "instances", rest: []string{"routeId", "instanceId"}, shape: Instance{}, about: "an announced instance", ephemeral: true},
	{name: "tenants", rest: []string{"tenantId"}, shape: Tenant{}, about: "a tenant"},
	{name: "config", rest: []string{"section"}, about: "options of all routes, one key a section"},
	{name: "policies", refusal: laterVersion},
	{name: "certs", refusal: laterVersion},
	{name: "secrets", refusal: laterVersion},
	{name: "acme", refusal: laterVersion},
	{name: "jwks", refusal: laterVersion},
	{name: "nodes", refusal: byNodes, ephemeral: true},
	{name: "health", refusal: byNodes, ephemeral: true},
	{name: "breakers", refusal: byNodes, ephemeral: true},
	{name: "shares", refusal: byNodes, ephemeral: true},
	{name: "tunnels", refusal: byNodes, ephemeral: true},
}

// section is one key below gateway/config/.
type section struct {
	name  string
	shape any // nil: reserved for a later version
	about string
}

var sections = []section{
	{"announce", Announce{}, "who may announce what"},
	{"auth", Auth{}, "issuers of tokens"},
	{"compression", Compression{}, "compression of responses"},
	{"cors", CORS{}, "answers to browsers of other origins"},
	{"edge", Edge{}, "limits in front of all routes"},
	{"headers", Headers{}, "whose forwarding headers are believed"},
	{"identity", nil, ""},
	{"limits", nil, ""},
	{"logging", Logging{}, "what is logged, and how"},
	{"ready", Ready{}, "when a node takes traffic, and where probes ask"},
	{"tenancy", Tenancy{}, "how the tenant of a request is found"},
	{"timeouts", Timeouts{}, "timeouts where routes and clusters say nothing"},
}

// CanonicalKey folds the ids in a key below gateway/ to lower case and refuses a
// key there that has no meaning, naming the ones it may have been. All other
// keys but _meta/ are free and pass as they are. The error is a Fault.
func CanonicalKey(key string) (string, error) {
	canonical, _, fault := lookUp(key)
	if fault != nil {
		return "", *fault
	}
	return canonical, nil
}

// Ephemeral says whether a key lives only as long as the session or the node
// that wrote it.
func Ephemeral(key string) bool {
	steps := strings.Split(key, "/")
	return len(steps) > 2 && steps[0] == root &&
		slices.ContainsFunc(kinds, func(k keyKind) bool { return k.name == steps[1] && k.ephemeral })
}

// lookUp is the canonical key and the shape of its values, nil for a free key.
func lookUp(key string) (canonical string, shape any, fault *Fault) {
	steps := strings.Split(key, "/")
	switch {
	case steps[0] == meta:
		return "", nil, &Fault{Key: key, Problem: "_meta is read-only: the system writes it"}
	case steps[0] != root && strings.EqualFold(steps[0], root):
		return "", nil, &Fault{Key: key, Problem: fmt.Sprintf("keys of the gateway begin with %q, in lower case", root)}
	case steps[0] != root:
		return key, nil, nil
	case len(steps) == 1:
		return "", nil, &Fault{Key: key, Problem: "is not a key but the beginning of many: " + kindNames()}
	}
	kind, fault := findKind(key, steps[1], steps[2:])
	if fault != nil {
		return "", nil, fault
	}
	if kind.name == "config" {
		return findSection(key, steps[2])
	}
	ids, fault := kind.ids(key, steps[2:])
	if fault != nil {
		return "", nil, fault
	}
	return strings.Join(append(steps[:2:2], ids...), "/"), kind.shape, nil
}

func findKind(key, name string, rest []string) (keyKind, *Fault) {
	var forms []string
	for _, k := range kinds {
		switch {
		case k.name != name:
		case k.refusal != "":
			return k, &Fault{Key: key, Problem: fmt.Sprintf("%s/%s %s", root, name, k.refusal)}
		case len(k.rest) == len(rest):
			return k, nil
		default:
			forms = append(forms, k.form())
		}
	}
	if forms != nil {
		return keyKind{}, &Fault{Key: key, Problem: "is not of the form " + strings.Join(forms, " or ")}
	}
	hint := DidYouMean(name, kindSeq)
	return keyKind{}, &Fault{Key: key, Problem: fmt.Sprintf("unknown kind %q%s; there are %s", shorten(name), hint, kindNames())}
}

// form is the key with names for its segments: gateway/routes/{routeId}.
func (k keyKind) form() string {
	form := root + "/" + k.name
	for _, name := range k.rest {
		form += "/{" + name + "}"
	}
	return form
}

func kindSeq(yield func(string) bool) {
	last := ""
	for _, k := range kinds {
		if k.refusal == "" && k.name != last && !yield(k.name) {
			return
		}
		last = k.name
	}
}

func kindNames() string { return strings.Join(slices.Collect(kindSeq), ", ") }

// ids are the segments of a key that name things, folded but for an instance's.
func (k keyKind) ids(key string, steps []string) ([]string, *Fault) {
	var ids []string
	for i, name := range k.rest {
		read := foldID
		if name == "instanceId" {
			read = parseID
		}
		id, err := read([]byte(steps[i]))
		if err != nil {
			return nil, &Fault{Key: key, Problem: fmt.Sprintf("%s %q %v", name, shorten(steps[i]), err)}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func findSection(key, name string) (canonical string, shape any, fault *Fault) {
	var names []string
	for _, s := range sections {
		switch {
		case s.name == name && s.shape == nil:
			return "", nil, &Fault{Key: key, Problem: fmt.Sprintf("section %q %s", name, laterVersion)}
		case s.name == name:
			return key, s.shape, nil
		case s.shape != nil:
			names = append(names, s.name)
		}
	}
	hint := DidYouMean(name, slices.Values(names))
	return "", nil, &Fault{Key: key, Problem: fmt.Sprintf("unknown section %q%s; there are %s", shorten(name), hint, strings.Join(names, ", "))}
}
