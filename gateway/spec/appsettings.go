package spec

import (
	"slices"
	"strings"
)

// move says where a value of the source documents' form stands in ours. An
// empty destination means that it is refused, for the reason given.
type move struct {
	from, to string
	refusal  string
}

const noCookies = "sessions in cookies are not issued by the gateway: let a login service answer by forward-auth"

var moves = []move{
	{from: "Gateway.HttpUrl", to: "listeners.http"},
	{from: "Gateway.HttpsUrl", to: "listeners.https"},
	{from: "Gateway.AgentSocketPath", to: "listeners.socket"},
	{from: "Gateway.Routes", to: "routes"},
	{from: "Gateway.Clusters", to: "clusters"},
	{from: "Gateway.TenantResolver", to: "config.tenancy"},
	{from: "Gateway.Authentication.JwtBearer", to: "config.auth.providers.main"},
	{from: "Gateway.Authentication.Cookie", refusal: noCookies},
	{from: "Gateway.Authentication.Cookies", refusal: noCookies},
	{from: "AgentSocketPath", to: "listeners.socket"},
	{from: "TenantResolver", to: "config.tenancy"},
	{from: "Authentication.JwtBearer", to: "config.auth.providers.main"},
	{from: "Authentication.Cookie", refusal: noCookies},
	{from: "Authentication.Cookies", refusal: noCookies},
	{from: "Pragmatic.Agent.Announce", to: "announce"},
}

// appSettings moves what a file says in the form of the source documents to
// where it stands in ours. Every value keeps the place where it was written.
func (r *fileReader) appSettings(t *tree) {
	for _, m := range moves {
		r.move(t, m)
	}
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool { return r.leftOver(e, "") })
}

func (r *fileReader) move(t *tree, m move) {
	e, ok := t.takeOut(strings.Split(m.from, "."))
	switch {
	case !ok:
	case m.refusal != "":
		r.fault(e.at, m.from, "%s", m.refusal)
	default:
		t.putAt(strings.Split(m.to, "."), e)
	}
}

// takeOut removes the entry at a path of names.
func (t *tree) takeOut(path []string) (entry, bool) {
	i := slices.IndexFunc(t.entries, func(e entry) bool { return fold(e.name) == fold(path[0]) })
	switch {
	case i < 0:
		return entry{}, false
	case len(path) > 1:
		return t.entries[i].value.takeOut(path[1:])
	}
	e := t.entries[i]
	t.entries = slices.Delete(t.entries, i, i+1)
	return e, true
}

// putAt adds an entry at a path of names, whose dicts it makes as needed.
func (t *tree) putAt(path []string, e entry) {
	for _, name := range path[:len(path)-1] {
		t = t.own(name, e.at, dict)
	}
	t.entries = append(t.entries, entry{path[len(path)-1], e.at, e.value})
}

// leftOver says whether an entry is a dict that values were moved out of. What
// is still in it has no meaning to us.
func (r *fileReader) leftOver(e entry, above string) bool {
	path, below := join(above, e.name), []string{}
	for _, m := range moves {
		if rest, ok := after(fold(m.from), fold(path)); ok && rest != "" {
			name, _, _ := strings.Cut(m.from[len(m.from)-len(rest):], ".")
			below = append(below, name)
		}
	}
	if len(below) == 0 {
		return false
	}
	if e.value.kind != dict {
		r.fault(e.at, path, "expected fields, not %s", e.value.kind)
	}
	for _, inner := range e.value.entries {
		if !r.leftOver(inner, path) {
			hint := DidYouMean(inner.name, slices.Values(slices.Compact(below)))
			r.fault(inner.at, path, "unknown field %q%s", shorten(inner.name), hint)
		}
	}
	return true
}

// byRouteID turns a list of routes, each with its id inside, into fields.
func (r *fileReader) byRouteID(t *tree) *tree {
	if t.kind != list {
		return t
	}
	routes := &tree{kind: dict, at: t.at}
	for i, item := range t.items {
		id := item.find("routeId")
		if id == item || id.text == "" {
			r.fault(item.at, "routes", "[%d]: RouteId is missing", i)
			continue
		}
		routes.entries = append(routes.entries, entry{id.text, item.at, item})
	}
	return routes
}
