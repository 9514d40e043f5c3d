package gateway_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"grapevine/gateway"
)

// lint is what the live table's notices say, a line each.
func (f *fixture) lint() (lines []string) {
	for _, notice := range f.gateway.Table().Lint() {
		lines = append(lines, notice.Error())
	}
	return lines
}

func shadowedBy(id string) string {
	return `gets no request: route "` + id + `" comes first and takes all that this one would; change the order of one of them, or take one away`
}

// Each kind of notice, at its place in the file.
func TestLintOfFile(t *testing.T) {
	f := start(t, `
routes:
  all: {path: '/{**r}', order: -1, methods: [GET], hosts: [shop.test], backends: ['http://127.0.0.1:1']}
  shadowed:
    path: /a
    methods: [GET]
    hosts: [shop.test]
    backends: ['http://127.0.0.1:1']
  used: {path: /used, cluster: used}
  probe:
    order: 2
    path: /Health/Ready
    backends: ['http://127.0.0.1:1']
  hidden: {path: /hidden, backends: ['http://127.0.0.1:1']}
  empty: {path: /empty, cluster: none}
  zero: {path: /zero, cluster: zero}
  policy: {path: /policy, backends: ['http://127.0.0.1:1', 'http://127.0.0.1:2']}
clusters:
  used:
    destinations:
      a: http://127.0.0.1:1
      b: http://127.0.0.1:2
      c: {address: 'http://127.0.0.1:1', weight: 2}
      d: HTTP://127.0.0.1:1/
  unused: {destinations: {a: 'http://127.0.0.1:1'}}
  none: {destinations: {}}
  policy: {loadBalancing: random}
  zero:
    destinations:
      a: {address: 'http://127.0.0.1:1', weight: 0}
`)
	f.put("gateway/routes/hidden", `{"enabled":false}`)
	want := []string{
		`gateway.yaml:26:10: gateway/clusters/none: destinations: there are none, so every request gets 503`,
		`gateway.yaml:25:3: gateway/clusters/unused: no route uses this cluster`,
		`gateway.yaml:23:7: gateway/clusters/used: destinations.c "http://127.0.0.1:1": is the same address as a: it gets a double share`,
		`gateway.yaml:24:10: gateway/clusters/used: destinations.d "http://127.0.0.1:1": is the same address as a: it gets a double share`,
		`gateway.yaml:29:5: gateway/clusters/zero: destinations: all have weight 0, so every request gets 503`,
		`gateway.yaml:14:3: gateway/routes/hidden: the file's route of this id is hidden by one that is not enabled`,
		`gateway.yaml:12:11: gateway/routes/probe: path "/Health/Ready": gets no request: the gateway answers probes on this path itself, see paths in gateway/config/ready`,
		`gateway.yaml:4:3: gateway/routes/shadowed: ` + shadowedBy("all"),
	}
	if diff := cmp.Diff(want, f.lint()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, notice := range f.gateway.Table().Lint() {
		if notice.File != "gateway.yaml" || notice.Line == 0 || notice.Column == 0 {
			t.Errorf("%+v has no place", notice)
		}
	}
}

// Notices of the operator's keys have no place in the file, also when the file
// has a key of that name.
func TestLintOfKeys(t *testing.T) {
	f := start(t, `
routes: {r: {path: /r, backends: ['http://127.0.0.1:1']}}
clusters: {c: {destinations: {a: 'http://127.0.0.1:1', b: 'http://127.0.0.1:2'}}}
`)
	f.put("gateway/routes/all", forwarding(`"path":"/{**r}","order":-1`, "http://127.0.0.1:1"))
	f.put("gateway/routes/r", forwarding(`"path":"/other"`, "http://127.0.0.1:1"))
	f.put("gateway/clusters/c", `{"destinations":{"a":"http://127.0.0.1:1","b":"http://127.0.0.1:1"}}`)
	want := []string{
		`gateway/clusters/c: no route uses this cluster`,
		`gateway/clusters/c: destinations.b "http://127.0.0.1:1": is the same address as a: it gets a double share`,
		`gateway/routes/r: ` + shadowedBy("all"),
	}
	if diff := cmp.Diff(want, f.lint()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.put("gateway/routes/all", `{"path":"/all","cluster":"c"}`)
	if diff := cmp.Diff(want[1:2], f.lint()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.delete("gateway/routes/all")
	f.delete("gateway/clusters/c")
	if diff := cmp.Diff([]string{`gateway.yaml:3:12: gateway/clusters/c: no route uses this cluster`}, f.lint()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A cluster without destinations is the policy of the route of its id, unless a
// route names it.
func TestLintOfEmptyClusters(t *testing.T) {
	const to = "http://127.0.0.1:1"
	f := start(t, "")
	f.put("gateway/clusters/x", `{"loadBalancing":"random"}`)
	f.put("gateway/clusters/y", `{"destinations":{"a":"`+to+`"}}`)
	f.put("gateway/routes/x", forwarding(`"path":"/x"`, to))
	f.put("gateway/routes/y", `{"path":"/y","cluster":"y"}`)
	if got := f.lint(); got != nil {
		t.Errorf("notices %q", got)
	}
	empty := []string{"gateway/clusters/x: destinations: there are none, so every request gets 503"}
	f.put("gateway/routes/z", `{"path":"/z","cluster":"x"}`)
	f.get("/z").problem(t, 503, "no_destination")
	if got := f.lint(); !slices.Equal(got, empty) {
		t.Errorf("notices %q; want %q, for z", got, empty)
	}
	f.put("gateway/routes/x", `{"path":"/x","cluster":"y"}`)
	if got := f.lint(); !slices.Equal(got, empty) {
		t.Errorf("notices %q; want %q, for z alone", got, empty)
	}
}

func TestLintFindsNothing(t *testing.T) {
	const to = "http://127.0.0.1:1"
	f := start(t, `
routes:
  a: {path: '/a/{**r}', backends: ['http://127.0.0.1:1', 'http://127.0.0.1:2']}
  b: {path: '/a/b', cluster: c}
clusters:
  c: {destinations: {a: 'http://127.0.0.1:1', b: {address: 'http://127.0.0.1:2', weight: 0}}}
  a: {loadBalancing: random}
`)
	f.routes(map[string]string{
		"all":      forwarding(`"path":"/{**r}"`, to), // takes probes' paths too, and is meant to take the rest
		"health":   forwarding(`"path":"/health/{**r}"`, to),
		"healthy":  forwarding(`"path":"/healthy"`, to),
		"get":      forwarding(`"path":"/m","methods":["GET"]`, to),
		"any":      forwarding(`"path":"/m"`, to),
		"blocked":  `{"path":"/blocked","fromTheFuture":1}`,
		"redirect": `{"path":"/redirect","redirect":{"to":"/a"}}`,
		"off":      `{"enabled":false}`,
	})
	if got := f.lint(); got != nil {
		t.Errorf("notices %q", got)
	}
	f.put("gateway/config/ready", `{"paths":{"live":["/livez"],"ready":[],"startup":[]}}`)
	f.put("gateway/routes/alive", forwarding(`"path":"/alive"`, to))
	f.put("gateway/routes/livez", forwarding(`"path":"/LIVEZ/"`, to))
	if got := f.lint(); len(got) != 1 || !strings.Contains(got[0], `gateway/routes/livez: path "/LIVEZ": gets no request`) {
		t.Errorf("notices %q; want that of the probe's path", got)
	}
	if got := f.get("/livez"); got.StatusCode != 200 || got.body != "{\"status\":\"alive\"}\n" {
		t.Errorf("/livez: %d %s", got.StatusCode, got.body)
	}
}

// What one route takes from another, by all that a route says of its requests.
// Each that is said to get none is asked for, and gets none.
func TestShadowed(t *testing.T) {
	first, second := backend(t, "first"), backend(t, "second")
	for _, tt := range []struct {
		name, first, second string
		shadowed            bool
		request             string // one that second would take
	}{
		{"order", `"path":"/{**r}","order":-1`, `"path":"/a"`, true, "GET /a"},
		{"order, the other way", `"path":"/{**r}"`, `"path":"/a"`, false, ""},
		{"fewer conditions, sooner", `"path":"/a","order":-1`, `"path":"/a","methods":["GET"],"headers":[{"name":"X-A","value":"1"}]`, true, "GET /a\nX-A: 1"},
		{"more conditions", `"path":"/a","methods":["GET"]`, `"path":"/a"`, false, ""},
		{"same template", `"path":"/{x}"`, `"path":"/{y}"`, true, "GET /a"},
		{"same expression", `"pathRegex":"/a+"`, `"pathRegex":"/a+"`, true, "GET /aa"},
		{"an expression behind everything", `"path":"/{**r}"`, `"pathRegex":"/a+"`, true, "GET /aa"},
		{"host in front of any", `"path":"/{**r}","hosts":["h.test"]`, `"path":"/a"`, false, ""},
		{"any host in front of one", `"path":"/{**r}","order":-1`, `"path":"/a","hosts":["h.test","*.h.test"]`, true, "GET /a\nHost: x.h.test"},
		{"one of two hosts", `"path":"/a","hosts":["h.test"],"order":-1`, `"path":"/a","hosts":["h.test","i.test"]`, false, ""},
		{"wildcard over a longer one", `"path":"/a","hosts":["*.test"],"order":-1`, `"path":"/a","hosts":["*.h.test","x.test"]`, true, "GET /a\nHost: x.h.test"},
		{"wildcard and its own name", `"path":"/a","hosts":["*.h.test"],"order":-1`, `"path":"/a","hosts":["h.test"]`, false, ""},
		{"case", `"path":"/A/{x}","caseInsensitive":true,"order":-1`, `"path":"/a/B"`, true, "GET /a/B"},
		{"case, the other way", `"path":"/a/{x}","order":-1`, `"path":"/a/b","caseInsensitive":true`, false, ""},
		{"parameter over literal", `"path":"/{x}/{y}","order":-1`, `"path":"/a/b"`, true, "GET /a/b"},
		{"literal over parameter", `"path":"/a/{y}","order":-1`, `"path":"/{x}/b"`, false, ""},
		{"catch-all over its own root", `"path":"/a/{**r}","order":-1`, `"path":"/a"`, true, "GET /a/"},
		{"one segment over a catch-all", `"path":"/a/{x}","order":-1`, `"path":"/a/{**r}"`, false, ""},
		{"methods within", `"path":"/a","methods":["GET","PUT"],"order":-1`, `"path":"/a","methods":["PUT"]`, true, "PUT /a"},
		{"methods beyond", `"path":"/a","methods":["GET"],"order":-1`, `"path":"/a","methods":["GET","PUT"]`, false, ""},
		{"clients within", `"path":"/a","clients":["127.0.0.0/8"],"order":-1`, `"path":"/a","clients":["127.0.0.0/30"]`, true, "GET /a"},
		{"clients beyond", `"path":"/a","clients":["127.0.0.0/30"],"order":-1`, `"path":"/a","clients":["127.0.0.0/8"]`, false, ""},
		{"a value is there", `"path":"/a","headers":[{"name":"x-a","present":true}],"order":-1`, `"path":"/a","headers":[{"name":"X-A","values":["1","2"]}]`, true, "GET /a\nX-A: 2"},
		{"parameters have case", `"path":"/a","query":[{"name":"A","present":true}],"order":-1`, `"path":"/a","query":[{"name":"a","value":"1"}]`, false, ""},
		{"values within", `"path":"/a","query":[{"name":"a","values":["1","2","3"]}],"order":-1`, `"path":"/a","query":[{"name":"a","values":["3","1"]}]`, true, "GET /a?a=3"},
		{"values beyond", `"path":"/a","query":[{"name":"a","values":["1","2"]}],"order":-1`, `"path":"/a","query":[{"name":"a","values":["3","1"]}]`, false, ""},
	} {
		f := start(t, "")
		f.routes(map[string]string{"a": forwarding(tt.first, first), "b": forwarding(tt.second, second)})
		got := f.lint()
		switch {
		case tt.shadowed && !slices.Equal(got, []string{"gateway/routes/b: " + shadowedBy("a")}):
			t.Errorf("%s: notices %q; want that b is shadowed", tt.name, got)
		case !tt.shadowed && got != nil:
			t.Errorf("%s: notices %q", tt.name, got)
		}
		row := f.row(t, "b", "operator")
		switch {
		case tt.shadowed && (row.State != "shadowed" || row.Problem != `route "a" takes all its requests` || row.Hidden):
			t.Errorf("%s: row %+v; want shadowed", tt.name, row)
		case !tt.shadowed && (row.State != "live" || row.Problem != ""):
			t.Errorf("%s: row %+v; want live", tt.name, row)
		}
		if row := f.row(t, "a", "operator"); row.State != "live" {
			t.Errorf("%s: row %+v; want live", tt.name, row)
		}
		if tt.shadowed {
			if got := f.send(tt.request).outcome(t); got != "first" {
				t.Errorf("%s: %q went to %s", tt.name, tt.request, got)
			}
			f.delete("gateway/routes/a")
			if got := f.send(tt.request).outcome(t); got != "second" {
				t.Errorf("%s: %q went to %s, with b alone", tt.name, tt.request, got)
			}
		}
	}
}

// The list of routes tells a route whose id is taken from one whose requests are.
func TestRouteStates(t *testing.T) {
	const to = "http://127.0.0.1:1"
	f := start(t, static("r", "/r", to))
	f.put("gateway/routes/all", forwarding(`"path":"/{**r}","order":-1,"methods":["GET"]`, to))
	f.put("gateway/routes/r", forwarding(`"path":"/r","hosts":["h.test"],"methods":["GET"]`, to))
	f.put("gateway/routes/bad", forwarding(`"path":"/bad","fromTheFuture":1`, to))
	f.put("gateway/routes/redirect", `{"path":"/redirect","redirect":{"to":"/r"}}`)
	want := []gateway.RouteStatus{
		{ID: "all", Order: -1, Hosts: []string{}, Path: "/{**r}", Target: to, Source: "operator", Rev: "1.1", State: "live", ServingRev: "1.1"},
		{ID: "bad", Hosts: []string{}, Path: "/bad", Target: to, Source: "operator", Rev: "1.3", State: "invalid", Problem: `unknown field "fromTheFuture"`},
		{
			ID: "r", Hosts: []string{"h.test"}, Path: "/r", Target: to, Source: "operator", Rev: "1.2", State: "shadowed",
			Problem: `route "all" takes all its requests`, ServingRev: "1.2",
		},
		{ID: "r", Hosts: []string{}, Path: "/r", Target: to, Source: "static", State: "shadowed", Problem: "an operator's route has this id", Hidden: true},
		{ID: "redirect", Hosts: []string{}, Path: "/redirect", Target: "redirect /r", Source: "operator", Rev: "1.4", State: "live", ServingRev: "1.4"},
	}
	table := f.gateway.Table()
	if diff := cmp.Diff(want, table.Routes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if table.Len() != len(want) {
		t.Errorf("Len() = %d; want %d", table.Len(), len(want))
	}
	f.put("gateway/routes/r", `{"enabled":false}`)
	if row := f.row(t, "r", "static"); row.State != "shadowed" || !row.Hidden {
		t.Errorf("row %+v; want hidden", row)
	}
	f.delete("gateway/routes/r")
	if row := f.row(t, "r", "static"); row.State != "live" || row.Hidden || row.Problem != "" {
		t.Errorf("row %+v; want live", row)
	}
	if got := f.gateway.Table().Len(); got != len(f.gateway.Table().Routes()) {
		t.Errorf("Len() = %d of %d", got, len(f.gateway.Table().Routes()))
	}
}
