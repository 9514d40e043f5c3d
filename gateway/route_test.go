package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"grapevine/kv"
)

// routes puts routes by their ids, all in one change.
func (f *fixture) routes(values map[string]string) {
	f.t.Helper()
	var ops []kv.Op
	for _, id := range slices.Sorted(maps.Keys(values)) {
		ops = append(ops, kv.Put(kv.Key("gateway/routes/"+id), []byte(values[id])))
	}
	f.txn(ops...)
}

// forwarding is the value of a route with these fields of JSON and one backend.
func forwarding(fields, to string) string { return `{` + fields + `,"backends":["` + to + `"]}` }

// send asks for what a text says: method and target, then a field a line.
func (f *fixture) send(request string) answer {
	f.t.Helper()
	lines := strings.Split(request, "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	if method == "HEAD" {
		return f.head(target, lines[1:]...)
	}
	return f.ask(method, target, lines[1:]...)
}

// begin asks for a target, and end waits for the answer.
func (f *fixture) begin(target string, fields ...string) (end func() answer) {
	answered := make(chan answer, 1)
	go func() { answered <- f.get(target, fields...) }()
	return func() answer {
		f.t.Helper()
		select {
		case got := <-answered:
			return got
		case <-time.After(patience):
			f.t.Fatalf("GET %s was not answered", target)
			return answer{}
		}
	}
}

// head asks with HEAD, and wants the connection to end behind the head.
func (f *fixture) head(target string, fields ...string) answer {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	lines := append([]string{"HEAD " + target + " HTTP/1.1"}, fields...)
	if !slices.ContainsFunc(fields, func(field string) bool { return strings.HasPrefix(field, "Host:") }) {
		lines = append(lines, "Host: gateway.test")
	}
	io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\nConnection: close\r\n\r\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, &http.Request{Method: "HEAD"})
	if err != nil {
		f.t.Fatalf("HEAD %s: %v", target, err)
	}
	response.Body.Close()
	rest, err := io.ReadAll(reader)
	if err != nil {
		f.t.Fatalf("HEAD %s: %v", target, err)
	}
	return answer{response, string(rest)}
}

// outcome is the name of the backend that answered, or the status.
func (a answer) outcome(t *testing.T) string {
	t.Helper()
	if a.StatusCode != 200 {
		return fmt.Sprint(a.StatusCode)
	}
	return a.seen(t).Backend
}

// Each condition: what it takes, and what it leaves to the next candidate. A
// request of a stranger has the address of its connection, whatever it says.
func TestConditions(t *testing.T) {
	f := start(t, "config: {headers: {trustedProxies: [loopback]}}")
	chosen := backend(t, "chosen")
	f.put("gateway/routes/rest", route("/{**rest}", backend(t, "rest")))
	for _, tt := range []struct {
		conditions    string
		takes, leaves []string
	}{
		{
			`"headers":[{"name":"X-A","value":"1"}]`,
			[]string{"GET /c\nX-A: 1", "POST /c\nx-a: 1", "GET /c/\nX-A:   1  "},
			[]string{"GET /c", "GET /c\nX-A: 2", "GET /c\nX-A: 11", "GET /c\nX-A: 3\nX-A: 2", "GET /c\nX_A: 2", "GET /c\nX-A:"},
		},
		{
			`"headers":[{"name":"X-A","value":"1, 2"}]`,
			[]string{"GET /c\nX-A: 1, 2"},
			[]string{"GET /c\nX-A: 1", "GET /c\nX-A: 2\nX-A: 1"},
		},
		{
			`"headers":[{"name":"x-a","values":["1","two"]}]`,
			[]string{"GET /c\nX-A: 1", "GET /c\nX-A: two"},
			[]string{"GET /c\nX-A: Two", "GET /c\nX-A: 1,two"},
		},
		{
			`"headers":[{"name":"X-A","present":true}]`,
			[]string{"GET /c\nX-A: 1", "GET /c\nX-A:"},
			[]string{"GET /c", "GET /c\nX-A: 1\nConnection: X-A"},
		},
		{
			`"headers":[{"name":"X-A","present":false}]`,
			[]string{"GET /c", "GET /c\nX-B: 1"},
			[]string{"GET /c\nX-A: 1", "GET /c\nX-A:"},
		},
		{
			`"headers":[{"name":"X-A","regex":"a|b+"}]`,
			[]string{"GET /c\nX-A: a", "GET /c\nX-A: bbb"},
			[]string{"GET /c\nX-A: ab", "GET /c\nX-A: xa", "GET /c\nX-A: A", "GET /c"},
		},
		{
			`"headers":[{"name":"X-A","regex":"[0-9]*"}]`,
			[]string{"GET /c\nX-A: 12", "GET /c\nX-A:"},
			[]string{"GET /c", "GET /c\nX-A: x\nX-A: y"},
		},
		{
			`"headers":[{"name":"X-A","value":"1"},{"name":"X-B","present":true}],"methods":["GET"]`,
			[]string{"GET /c\nX-A: 1\nX-B: 2"},
			[]string{"GET /c\nX-A: 1", "GET /c\nX-B: 2", "POST /c\nX-A: 1\nX-B: 2"},
		},
		{
			`"query":[{"name":"a b","value":"x y"}]`,
			[]string{"GET /c?a+b=x+y", "GET /c?a%20b=x%20y", "GET /c?z&&%61+b=%78+y&z", "GET /c?a+b=x+y&a%20b=x%20y"},
			[]string{"GET /c", "GET /c?a+b", "GET /c?A+b=x+y", "GET /c?a+b=x", "GET /c?a%2Bb=x+y"},
		},
		{
			`"query":[{"name":"a","present":true}]`,
			[]string{"GET /c?a", "GET /c?a=", "GET /c?b&a=1&a=2"},
			[]string{"GET /c", "GET /c?", "GET /c?b=a", "GET /c?A"},
		},
		{
			`"query":[{"name":"a","present":false}]`,
			[]string{"GET /c", "GET /c?b"},
			[]string{"GET /c?a", "GET /c?%61=1"},
		},
		{
			`"query":[{"name":"a","regex":"[0-9]*"}]`,
			[]string{"GET /c?a=12", "GET /c?a=%31", "GET /c?a", "GET /c?a=1&a=2"},
			[]string{"GET /c?a=1x", "GET /c"},
		},
		{
			`"methods":["PUT","GET"]`,
			[]string{"GET /c", "PUT /c"},
			[]string{"POST /c", "DELETE /c", "PURGE /c"},
		},
		{
			`"clients":["10.1.0.0/16","2001:db8::/32","192.0.2.7"]`,
			[]string{
				"GET /c\nX-Forwarded-For: 10.1.2.3", "GET /c\nX-Forwarded-For: 6.6.6.6, 10.1.0.1", "GET /c\nX-Forwarded-For: 2001:db8::1",
				"GET /c\nX-Forwarded-For: 192.0.2.7", "GET /c\nX-Forwarded-For: ::ffff:10.1.2.3",
			},
			[]string{"GET /c", "GET /c\nX-Forwarded-For: 10.2.0.1", "GET /c\nX-Forwarded-For: 10.1.2.3, 6.6.6.6", "GET /c\nX-Real-IP: 10.1.2.3"},
		},
	} {
		f.put("gateway/routes/chosen", forwarding(`"path":"/c",`+tt.conditions, chosen))
		for _, request := range tt.takes {
			if got := f.send(request).outcome(t); got != "chosen" {
				t.Errorf("%s: %q went to %s", tt.conditions, request, got)
			}
		}
		for _, request := range tt.leaves {
			if got := f.send(request).outcome(t); got != "rest" {
				t.Errorf("%s: %q went to %s; want the next candidate", tt.conditions, request, got)
			}
		}
	}
}

func TestClientsOfStrangers(t *testing.T) {
	f := start(t, "")
	f.routes(map[string]string{
		"inner": forwarding(`"path":"/c","clients":["10.0.0.0/8"]`, backend(t, "inner")),
		"local": forwarding(`"path":"/c","clients":["127.0.0.0/8"],"order":1`, backend(t, "local")),
	})
	for _, request := range []string{"GET /c", "GET /c\nX-Forwarded-For: 10.1.2.3", "GET /c\nX-Real-IP: 10.1.2.3", "GET /c\nForwarded: for=10.1.2.3"} {
		if got := f.send(request).outcome(t); got != "local" {
			t.Errorf("%q went to %s; want local", request, got)
		}
	}
	f.put("gateway/config/headers", `{"trustedProxies":["loopback"]}`)
	if got := f.send("GET /c\nX-Forwarded-For: 10.1.2.3").outcome(t); got != "inner" {
		t.Errorf("from a trusted proxy: went to %s; want inner", got)
	}
}

// 405 is for a request that only its method is wrong with.
func TestMethodNotAllowed(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	f.routes(map[string]string{
		"put":     forwarding(`"path":"/m","methods":["PUT","GET"]`, to),
		"patch":   forwarding(`"path":"/{x}","methods":["PATCH","GET"]`, to),
		"guarded": forwarding(`"path":"/m","methods":["DELETE"],"headers":[{"name":"X-A","present":true}]`, to),
		"other":   forwarding(`"path":"/h","headers":[{"name":"X-A","present":true}]`, to),
		"host":    forwarding(`"path":"/m","methods":["LINK"],"hosts":["other.test"]`, to),
	})
	for _, tt := range []struct{ request, allow string }{
		{"POST /m", "GET, PATCH, PUT"},
		{"POST /m\nX-A: 1", "DELETE, GET, PATCH, PUT"},
		{"POST /m\nHost: other.test", "GET, LINK, PATCH, PUT"},
		{"HEAD /x", "GET, PATCH"},
		{"get /m", "GET, PATCH, PUT"},
		{"GET /h/x", ""},
		{"POST /h/x", ""},
		{"OPTIONS /m/x", ""},
	} {
		got := f.send(tt.request)
		want := 405
		if tt.allow == "" {
			want = 404
		}
		if got.StatusCode != want || got.Header.Get("Allow") != tt.allow {
			t.Errorf("%q: %d with Allow %q; want %d with %q", tt.request, got.StatusCode, got.Header.Get("Allow"), want, tt.allow)
		}
	}
	f.send("DELETE /m").problem(t, 405, "method_not_allowed")
	f.send("DELETE /nowhere/m").problem(t, 404, "no_route")
}

// O14: the gateway decides on no query that a backend may read in another way,
// and one that it does not decide on is forwarded as it was sent.
func TestAmbiguousQuery(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	f.routes(map[string]string{
		"admin":   forwarding(`"path":"/{**r}","query":[{"name":"admin","value":"1"}]`, to),
		"rest":    forwarding(`"path":"/{**r}"`, to),
		"raw":     forwarding(`"path":"/raw/{**r}"`, to),
		"changed": forwarding(`"path":"/changed/{**r}","transforms":{"query":{"remove":["hidden"]}}`, to),
		"method":  forwarding(`"path":"/method/{**r}","methods":["POST"],"query":[{"name":"admin","value":"1"}]`, to),
	})
	many := strings.Repeat("p&", 3000) + "hidden=1"
	for _, query := range []string{
		"a=%zz&b=1", "a=1;admin=1", many, "a=%", "a=%2", "a=%00", "admin=1&b=%zz", "a;b", strings.Repeat("&", 1000),
	} {
		f.get("/?"+query).problem(t, 400, "ambiguous_query")
		f.get("/changed/?"+query).problem(t, 400, "ambiguous_query")
		f.get("/method/?"+query).problem(t, 400, "ambiguous_query") // of the next candidate, since the method came first
		if got := f.get("/raw/?" + query).seen(t).Target; got != "/raw/?"+query {
			t.Errorf("the backend got %.80q; want it as it was sent, %.80q", got, query)
		}
	}
	f.get("/?admin=1&admin=2").problem(t, 400, "ambiguous_query")
	f.get("/?admin=2&x&%61dmin=1").problem(t, 400, "ambiguous_query")
	for _, query := range []string{"admin=1", "admin=1&admin=%31", "x=1&x=2", "admin=2&admin=3", "", "&&", strings.Repeat("&", 999)} {
		if got := f.get("/?" + query).seen(t).Target; got != "/?"+query {
			t.Errorf("the backend got %q; want %q", got, query)
		}
	}
}

// An expression sees the canonical path, whole, after every template of its
// host; a path without regard to case is still cut by its segments.
func TestPathRegexAndCase(t *testing.T) {
	f := start(t, "")
	values := map[string]string{}
	for id, fields := range map[string]string{
		"version":  `"pathRegex":"/v[0-9]+/[a-z~]*"`,
		"escaped":  `"pathRegex":"/e/a(%2F|/)b"`,
		"template": `"path":"/v1/x"`,
		"anyhost":  `"path":"/h/{**r}"`,
		"hostexpr": `"pathRegex":"/h/.*","hosts":["h.test"]`,
		"folded":   `"path":"/Fold/{id}/{**r}","caseInsensitive":true,"pathRemovePrefix":"/Fold/{id}"`,
		"exprfold": `"pathRegex":"/expr/a+","caseInsensitive":true`,
		"exact":    `"path":"/Exact"`,
		"later":    `"pathRegex":"/v[0-9]+/a","order":1`,
		"sooner":   `"pathRegex":"/v9/.*","order":-1`,
	} {
		values[id] = forwarding(fields, backend(t, id))
	}
	f.routes(values)
	for _, tt := range []struct{ request, want, target string }{
		{"GET /v1/a", "version", "/v1/a"},
		{"GET /v1/a/", "version", "/v1/a/"},
		{"GET /%76%31/%7e", "version", "/%76%31/%7e"},
		{"GET /v1/x", "template", "/v1/x"},
		{"GET /v9/x", "sooner", "/v9/x"},
		{"GET /V1/a", "404", ""},
		{"GET /v1/a/b", "404", ""},
		{"GET /x/v1/a", "404", ""},
		{"GET /e/a%2fb", "escaped", "/e/a%2fb"},
		{"GET /e/a%252fb", "404", ""},
		{"GET /h/x", "anyhost", "/h/x"},
		{"GET /h/x\nHost: h.test", "hostexpr", "/h/x"},
		{"GET /fold/7/X", "folded", "/X"},
		{"GET /FOLD/7", "folded", "/"},
		{"GET /%46old/A%2Fb/C%2fd", "folded", "/C%2fd"},
		{"GET /EXPR/Aa", "exprfold", "/EXPR/Aa"},
		{"GET /exact", "404", ""},
		{"GET /Exact", "exact", "/Exact"},
	} {
		got := f.send(tt.request)
		if outcome := got.outcome(t); outcome != tt.want {
			t.Errorf("%q went to %s; want %s", tt.request, outcome, tt.want)
		} else if tt.target != "" && got.seen(t).Target != tt.target {
			t.Errorf("%q: the backend got %s; want %s", tt.request, got.seen(t).Target, tt.target)
		}
	}
}

func TestHosts(t *testing.T) {
	f := start(t, "")
	values := map[string]string{}
	for id, hosts := range map[string]string{
		"any": ``, "exact": `"shop.test"`, "wild": `"*.shop.test"`, "longer": `"*.eu.shop.test"`, "two": `"a.test","*.b.test"`, "six": `"[::1]"`,
	} {
		values[id] = forwarding(`"path":"/{**r}","hosts":[`+hosts+`]`, backend(t, id))
	}
	f.routes(values)
	for host, want := range map[string]string{
		"shop.test": "exact", "SHOP.Test": "exact", "shop.test.": "exact", "shop.test:8080": "exact", "Shop.test.:80": "exact",
		"x.shop.test": "wild", "x.y.shop.test": "wild", "eu.shop.test": "wild", "x.eu.shop.test": "longer", "X.EU.shop.test:1": "longer",
		"xshop.test": "any", "test": "any", "shop.test.evil": "any",
		"a.test": "two", "x.b.test": "two", "b.test": "any", "[::1]": "six", "[::1]:80": "six", "[::2]": "any",
	} {
		if got := f.get("/x", "Host: "+host).outcome(t); got != want {
			t.Errorf("host %q went to %s; want %s", host, got, want)
		}
	}
	if got := f.raw("GET /x HTTP/1.0\n\n").outcome(t); got != "any" {
		t.Errorf("without a host: %s; want any", got)
	}
	if got := f.raw("GET http://shop.test/x HTTP/1.1\nHost: shop.test\nConnection: close\n\n").outcome(t); got != "exact" {
		t.Errorf("absolute form: %s; want exact (RFC 9112 §3.2.2)", got)
	}
}

// O13: host first, then the more exact path, then more conditions, in whatever
// order the routes came.
func TestOrderOfRoutes(t *testing.T) {
	rows := []struct{ id, fields string }{
		{"foo-all", `"path":"/{**r}","hosts":["foo.test"]`},
		{"bar-sub", `"path":"/sub/{**r}","hosts":["bar.test"]`},
		{"bar-root", `"path":"/","hosts":["bar.test"]`},
		{"any-baz", `"path":"/baz"`},
		{"tree-get", `"path":"/collections/{**r}","methods":["GET"]`},
		{"tree", `"path":"/collections/{**r}"`},
		{"exact", `"path":"/collections"`},
		{"below", `"path":"/items/{id}/{**r}"`},
		{"item", `"path":"/items/{id}"`},
		{"item-a", `"path":"/items/{id}","headers":[{"name":"X-A","present":true}]`},
		{"w", `"path":"/{w}/b/c/d"`},
		{"ax", `"path":"/a/{x}/c/{y}"`},
		{"twin-b", `"path":"/twin/{x}"`},
		{"twin-a", `"path":"/twin/{y}"`},
	}
	forth, back := start(t, ""), start(t, "")
	to := map[string]string{}
	for _, row := range rows {
		to[row.id] = backend(t, row.id)
	}
	for i := range rows {
		first, last := rows[i], rows[len(rows)-1-i]
		forth.put("gateway/routes/"+first.id, forwarding(first.fields, to[first.id]))
		back.put("gateway/routes/"+last.id, forwarding(last.fields, to[last.id]))
	}
	for _, tt := range []struct{ request, want string }{
		{"GET /baz\nHost: foo.test", "foo-all"},
		{"GET /\nHost: foo.test", "foo-all"},
		{"GET /baz\nHost: bar.test", "any-baz"},
		{"GET /sub/x\nHost: bar.test", "bar-sub"},
		{"GET /\nHost: bar.test", "bar-root"},
		{"GET /nothing\nHost: bar.test", "404"},
		{"GET /sub/x", "404"},
		{"GET /collections/", "exact"},
		{"GET /collections", "exact"},
		{"POST /collections", "exact"},
		{"GET /items/1", "item"},
		{"GET /items/1\nX-A: 1", "item-a"},
		{"GET /items/1/2", "below"},
		{"GET /collections/1/2", "tree-get"},
		{"POST /collections/1/2", "tree"},
		{"GET /collections\nHost: foo.test", "foo-all"},
		{"GET /a/b/c/d", "w"},
		{"GET /a/b/c/e", "ax"},
		{"GET /twin/1", "twin-a"},
	} {
		if got := forth.send(tt.request).outcome(t); got != tt.want {
			t.Errorf("%q went to %s; want %s", tt.request, got, tt.want)
		}
		if got := back.send(tt.request).outcome(t); got != tt.want {
			t.Errorf("put the other way round: %q went to %s; want %s", tt.request, got, tt.want)
		}
	}
	if a, b := forth.gateway.Table().Hash(), back.gateway.Table().Hash(); a != b {
		t.Errorf("hashes %s and %s of the same routes", a, b)
	}
}

// What is refused unless the route allows it, word by word: others stay refused.
func TestPathPolicyAllow(t *testing.T) {
	spellings := []struct{ word, target, seen string }{
		{"backslash", `/p/a\b`, `/p/a\b`},
		{"backslash", "/p/a%5Cb%5c", "/p/a%5Cb%5c"},
		{"control", "/p/a%00b", "/p/a%00b"},
		{"control", "/p/%0d%0A%7F", "/p/%0d%0A%7F"},
		{"climb", "/../p/a", "/p/a"},
		{"climb", "/p/../../%70/a%2e", "/p/a."},
		{"pathParameter", "/p/..;x/a", "/p/..;x/a"},
		{"pathParameter", "/p/.;/a", "/p/.;/a"},
		{"pathParameter", "/p/%2e%2E%3bx", "/p/%2e%2E%3bx"},
		{"pathParameter", "/p/admin;x", "/p/admin;x"},
		{"pathParameter", "/p/admin%3B", "/p/admin%3B"},
		{"encodedSlash", "/p/a%2F..%2fb", "/p/a%2F..%2fb"},
		{"encodedSlash", "/p/a%2F%2e", "/p/a%2F%2e"},
		{"encodedSlash", "/p/admin%2fx", "/p/admin%2fx"},
	}
	f := start(t, "")
	to := backend(t, "p")
	f.put("gateway/routes/admin", route("/p/admin/{**r}", backend(t, "admin")))
	for _, word := range []string{"", "backslash", "control", "climb", "pathParameter", "encodedSlash"} {
		f.put("gateway/routes/p", forwarding(`"path":"/p/{**r}","pathPolicy":{"allow":["`+word+`"]}`, to))
		if word == "" {
			f.put("gateway/routes/p", forwarding(`"path":"/p/{**r}"`, to))
		}
		for _, tt := range spellings {
			got := f.get(tt.target)
			if tt.word != word {
				got.problem(t, 400, "bad_path")
			} else if s := got.seen(t); s.Backend != "p" || s.Target != tt.seen {
				t.Errorf("%s allowed: %s got %s; want %s at p", word, s.Backend, s.Target, tt.seen)
			}
		}
	}
}

// What is taken unless the route refuses it, word by word: others stay taken.
func TestPathPolicyRefuse(t *testing.T) {
	spellings := []struct{ word, target, seen string }{
		{"encodedSlash", "/a%2Fb", "/a%2Fb"},
		{"encodedSlash", "/%2fb/", "/%2fb/"},
		{"encodedPercent", "/a%252Fb", "/a%252Fb"},
		{"encodedQuestionMark", "/a%3Fb%3f", "/a%3Fb%3f"},
		{"encodedHash", "/a%23", "/a%23"},
		{"encodedSemicolon", "/a%3Bb%3b", "/a%3Bb%3b"},
		{"semicolon", "/a;b=1", "/a;b=1"},
		{"emptySegment", "//a", "/a"},
		{"emptySegment", "/a//", "/a/"},
		{"dotSegment", "/a/./b", "/a/b"},
		{"dotSegment", "/a/b/%2e%2E", "/a/"},
	}
	f := start(t, "")
	to := backend(t, "b")
	for _, word := range []string{
		"encodedSlash", "encodedPercent", "encodedQuestionMark", "encodedHash", "encodedSemicolon", "semicolon", "emptySegment", "dotSegment",
	} {
		f.put("gateway/routes/r", forwarding(`"path":"/{**r}","pathPolicy":{"refuse":["`+word+`"]}`, to))
		for _, tt := range spellings {
			got := f.get(tt.target)
			if tt.word == word {
				got.problem(t, 400, "bad_path")
			} else if seen := got.seen(t).Target; seen != tt.seen {
				t.Errorf("%s refused: %s came as %s; want %s", word, tt.target, seen, tt.seen)
			}
		}
		if got := f.get("/plain/%41?%2F;//..").seen(t).Target; got != "/plain/%41?%2F;//.." {
			t.Errorf("%s refused: the query counts: %s", word, got)
		}
	}
}

// No route can allow these.
func TestBrokenPaths(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", forwarding(
		`"path":"/{**r}","pathPolicy":{"allow":["backslash","control","climb","pathParameter","encodedSlash"]}`, backend(t, "b")))
	for _, target := range []string{"/a%zz", "/%", "/a%4", "/a#b", "/a?b#c"} {
		if got := f.get(target); got.StatusCode != 400 {
			t.Errorf("GET %s: %d %s; want 400", target, got.StatusCode, got.body)
		}
	}
}

// Escapes survive exactly, in whatever form the path goes on. Only a path with
// empty or dot segments goes on in its canonical form (O11).
func TestEscapesSurvive(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	f.routes(map[string]string{
		"raw":    forwarding(`"path":"/raw/{**r}"`, to),
		"strip":  forwarding(`"path":"/strip/me/{**r}","pathRemovePrefix":"/strip/me"`, to),
		"prefix": forwarding(`"path":"/prefix/{**r}","pathPrefix":"/in/front"`, to),
		"both":   forwarding(`"path":"/both/{**r}","pathRemovePrefix":"/both","pathPrefix":"/in%2Ffront"`, to),
		"write":  forwarding(`"path":"/write/{**r}","rewrite":{"regex":"^/write/(.*)$","to":"/re/$1"}`, to),
		"middle": forwarding(`"path":"/middle/{**r}","rewrite":{"regex":"iddl","to":""}`, to),
	})
	forms := []struct{ before, after string }{
		{"/raw/", "/raw/"},
		{"/strip/me/", "/"},
		{"/strip/%6De/", "/"},
		{"/prefix/", "/in/front/prefix/"},
		{"/both/", "/in%2Ffront/"},
		{"/write/", "/re/"},
		{"/middle/", "/me/"},
	}
	for _, tt := range []struct{ tail, seen string }{
		{"a", "a"},
		{"a/", "a/"},
		{"", ""},
		{"a%2Fb%20c", "a%2Fb%20c"},
		{"a%2fb", "a%2fb"},
		{"a%252Fb", "a%252Fb"},
		{"a%25252F%25", "a%25252F%25"},
		{"a%3Fb=1%3f", "a%3Fb=1%3f"},
		{"a%23b", "a%23b"},
		{"a;v=1/b;c", "a;v=1/b;c"},
		{"a%3Bv", "a%3Bv"},
		{"%41%7E~", "%41%7E~"},
		{"a+b%2B!$&'()*,:@", "a+b%2B!$&'()*,:@"},
		{"%E2%82%ac", "%E2%82%ac"},
		{`"<>[]^{|}`, `"<>[]^{|}`},
		{"a?b=%2F;c=%zz&//../?d", "a?b=%2F;c=%zz&//../?d"},
		{"?", "?"},
		{"a/?", "a/?"},
		// Restructured: the canonical form.
		{"a//b%2fc", "a/b%2Fc"},
		{"/a/%7e/", "a/~/"},
		{"x/../a%252f;b/./c?//..", "a%252f;b/c?//.."},
	} {
		for _, form := range forms {
			target, want := form.before+tt.tail, form.after+tt.seen
			if got := f.get(target).seen(t).Target; got != want {
				t.Errorf("GET %s: the backend got %s; want %s", target, got, want)
			}
		}
	}
}

func TestPathChanges(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	for _, tt := range []struct {
		name, fields string
		want         map[string]string // target sent: target seen; a number is a status
	}{
		{"rewrite with an escape is encoded once (O01)", `"path":"/e/{**r}","rewrite":{"regex":"/e/(..)/(..)","to":"/e/$1%2F$2"}`, map[string]string{
			"/e/aa/bb": "/e/aa%2Fbb", "/e/aa/bb?c=/e/aa/bb": "/e/aa%2Fbb?c=/e/aa/bb", "/e/a%2F/b": "/e/a%2F/b",
		}},
		{"rewrite of one segment with an escape (O01)", `"path":"/e/{a}/{b}","rewrite":{"regex":"^/e/([^/]+)/([^/]+)$","to":"/e/$1%2F$2"}`, map[string]string{
			"/e/a/b": "/e/a%2Fb", "/e/a%252F/b%2F": "/e/a%252F%2Fb%2F",
		}},
		{"prefix with an escape (O01)", `"path":"/e/{**r}","pathRemovePrefix":"/e","pathPrefix":"/x%2Fy"`, map[string]string{
			"/e/a/b": "/x%2Fy/a/b", "/e": "/x%2Fy", "/e/": "/x%2Fy/",
		}},
		{"a parameter is cut anew for each request (O04)", `"path":"/{id}/events","pathRemovePrefix":"/{id}/events"`, map[string]string{
			"/1/events": "/", "/2/events": "/", "/a%2Fb/events/": "/",
		}},
		{"a parameter with a slash", `"path":"/{id}/events","pathRemovePrefix":"/{id}/events","pathPolicy":{"allow":["encodedSlash"]}`, map[string]string{
			"/a%2Fb/events/": "/", "/a%2Fb/events?c": "/?c",
		}},
		{"the path is cut as it was sent (O11)", `"path":"/some/{**r}","pathRemovePrefix":"/some"`, map[string]string{
			"/some/a%2Fb%20c": "/a%2Fb%20c", "/%73ome/a%2Fb%20c": "/a%2Fb%20c", "/some/a%2fb%20c/": "/a%2fb%20c/",
		}},
		{"some of the segments", `"path":"/{a}/b/{c}/{**r}","pathRemovePrefix":"/{a}/b"`, map[string]string{
			"/1/b/2": "/2", "/1/b/2/": "/2/", "/1%2F/b/2%2F/3": "/2%2F/3",
		}},
		{"prefix alone", `"path":"/a","pathPrefix":"/p"`, map[string]string{"/a": "/p/a", "/a/": "/p/a/"}},
		{"every match", `"path":"/{**r}","rewrite":{"regex":"a","to":"$0$0"}`, map[string]string{"/a/ba": "/aa/baa", "/": "/", "/%61": "/%61%61"}},
		{"named group and dollar", `"path":"/{**r}","rewrite":{"regex":"^/(?P<first>[^/]*)","to":"/$$/${first}x"}`, map[string]string{"/a/b": "/$/ax/b"}},
		{"nothing is left", `"path":"/x/{**r}","rewrite":{"regex":"^/x"}`, map[string]string{"/x": "/", "/x/": "/", "/x//a": "/a"}},
		{"a dot segment is made", `"path":"/x/{**r}","rewrite":{"regex":"^/x/(.)-","to":"/$1."}`, map[string]string{"/x/.-/a": "400", "/x/a-/b": "/a./b"}},
		{"an escape is made", `"path":"/x/{**r}","rewrite":{"regex":"-","to":""}`, map[string]string{
			"/x/%25-2e": "/x/%252e", "/x/%25-zz": "/x/%25zz", "/x/-%-41": "400",
		}},
	} {
		f.put("gateway/routes/r", forwarding(tt.fields, to))
		for _, target := range slices.Sorted(maps.Keys(tt.want)) {
			got := f.get(target)
			outcome := fmt.Sprint(got.StatusCode)
			if got.StatusCode == 200 {
				outcome = got.seen(t).Target
			}
			if outcome != tt.want[target] {
				t.Errorf("%s: GET %s gave %s; want %s", tt.name, target, outcome, tt.want[target])
			}
		}
	}
}

const headerChanges = `{"set":{"X-Set":"new","X-Empty":""},"append":{"X-List":"b","X-Added":"1"},"remove":["X-Gone","X_Lost"]}`

func TestRequestHeaders(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	f.routes(map[string]string{
		"r":    forwarding(`"path":"/r","transforms":{"request":`+headerChanges+`}`, to),
		"host": forwarding(`"path":"/host","transforms":{"request":{"set":{"host":"inner.test:81","X-Forwarded-Host":"outer.test"},"remove":["X-Real-IP","User-Agent"]}}`, to),
	})
	got := f.send("GET /r\nHost: shop.test\nX-Set: old\nx_set: old\nX-SET: older\nX-List: a\nX_List: u\nX-Gone: 1\nX_GONE: 1\nX-Lost: 1\nX_Lost: 1\nX-Kept: 1\nX-Kept: 2").seen(t)
	for name, want := range map[string][]string{
		"X-Set": {"new"}, "X_set": nil, "X-Empty": {""}, "X-List": {"a", "b"}, "X_list": {"u"}, "X-Added": {"1"},
		"X-Gone": nil, "X_gone": nil, "X-Lost": nil, "X_lost": nil, "X-Kept": {"1", "2"},
	} {
		if !slices.Equal(got.Header[name], want) {
			t.Errorf("%s = %q; want %q", name, got.Header[name], want)
		}
	}
	if got.Host != "shop.test" {
		t.Errorf("host %s; want the client's", got.Host)
	}
	got = f.send("GET /host\nHost: shop.test\nUser-Agent: curl").seen(t)
	if got.Host != "inner.test:81" || got.Header.Get("X-Forwarded-Host") != "outer.test" || got.Header.Get("X-Real-Ip") != "" || got.Header.Get("User-Agent") != "" {
		t.Errorf("host %s with %v", got.Host, got.Header)
	}
	f.put("gateway/routes/host", forwarding(`"path":"/host","transforms":{"request":{"set":{"Host":"inner.test"}}}`, to))
	got = f.send("GET /host\nHost: shop.test:8080").seen(t)
	if got.Host != "inner.test" || got.Header.Get("X-Forwarded-Host") != "shop.test:8080" || got.Header.Get("X-Forwarded-Port") != "8080" {
		t.Errorf("host %s with %v", got.Host, got.Header)
	}
}

// Changes of the response show in whatever the route answers with.
func TestResponseHeaders(t *testing.T) {
	f := start(t, "")
	changes := `"transforms":{"query":{"remove":["q"]},"response":` + headerChanges + `}`
	f.put("gateway/clusters/none", `{"destinations":{}}`)
	f.routes(map[string]string{
		"up": forwarding(`"path":"/up",`+changes, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"X-Set", "X_Set", "X-Gone", "X_GONE", "X-Lost", "X-List", "X-Kept"} {
				w.Header()[name] = []string{"a"}
			}
		})),
		"down":     forwarding(`"path":"/down",`+changes, unused(t)),
		"none":     `{"path":"/none","cluster":"none",` + changes + `}`,
		"redirect": `{"path":"/redirect","redirect":{"to":"/up"},"transforms":{"response":` + headerChanges + `}}`,
		"respond":  `{"path":"/respond","respond":{"body":"hi","headers":{"X-Set":"a","X-Gone":"a","X-List":"a","X-Kept":"a"}},"transforms":{"response":` + headerChanges + `}}`,
		"location": `{"path":"/location","redirect":{"to":"/up"},"transforms":{"response":{"set":{"Location":"/elsewhere","X-Correlation-ID":"mine"}}}}`,
	})
	for request, status := range map[string]int{
		"GET /up": 200, "GET /down": 502, "GET /none": 503, "GET /redirect": 308, "GET /respond": 200, "HEAD /respond": 200, "GET /up?a=%zz": 400,
	} {
		got := f.send(request)
		if got.StatusCode != status {
			t.Errorf("%s: %d; want %d", request, got.StatusCode, status)
		}
		list := []string{"b"}
		if status == 200 {
			list = []string{"a", "b"}
		}
		for name, want := range map[string][]string{
			"X-Set": {"new"}, "X_set": nil, "X_Set": nil, "X-Empty": {""}, "X-List": list, "X-Added": {"1"}, "X-Gone": nil, "X_GONE": nil, "X_gone": nil, "X-Lost": nil,
		} {
			if !slices.Equal(got.Header[name], want) {
				t.Errorf("%s: %s = %q; want %q", request, name, got.Header[name], want)
			}
		}
		if status == 200 != (got.Header.Get("X-Kept") == "a") {
			t.Errorf("%s: X-Kept %q", request, got.Header.Get("X-Kept"))
		}
	}
	f.get("/down").problem(t, 502, "connect_failed")
	got := f.get("/location", "X-Correlation-ID: theirs").Header
	if got.Get("Location") != "/elsewhere" || !slices.Equal(got["X-Correlation-Id"], []string{"theirs"}) {
		t.Errorf("got %v; want the set Location and the client's own id", got)
	}
}

func TestQueryChanges(t *testing.T) {
	f := start(t, "")
	to := backend(t, "b")
	for _, tt := range []struct {
		changes string
		want    map[string]string
	}{
		{`{"set":{"a":"1 &","b":"é"}}`, map[string]string{
			"": "?a=1+%26&b=%C3%A9", "?": "?a=1+%26&b=%C3%A9", "?a=0&c=%2f&a=2": "?a=1+%26&c=%2f&b=%C3%A9", "?x;y": "400", "?%61=0": "?a=1+%26&b=%C3%A9",
		}},
		{`{"remove":["a","d e"]}`, map[string]string{
			"?a=1&b=%2f&&a&d+e=1&d%20e": "?b=%2f", "?a": "", "?b&&c": "?b&&c", "?A=1": "?A=1", "?": "?", "": "", "?b=%": "400", "?aa=1": "?aa=1",
		}},
		{`{"set":{"a":"2"},"remove":["a"]}`, map[string]string{"?a=1&b": "?b&a=2", "": "?a=2"}},
	} {
		f.put("gateway/routes/r", forwarding(`"path":"/r/{**r}","pathRemovePrefix":"/r","transforms":{"query":`+tt.changes+`}`, to))
		for query, want := range tt.want {
			got := f.get("/r/x%2F" + query)
			switch {
			case want == "400":
				got.problem(t, 400, "ambiguous_query")
			case got.seen(t).Target != "/x%2F"+want:
				t.Errorf("%s: %q came as %s; want %s", tt.changes, query, got.seen(t).Target, want)
			}
		}
	}
}

func TestRedirect(t *testing.T) {
	f := start(t, "")
	for i, tt := range []struct {
		path, redirect string
		want           map[string]string
	}{
		{"/a", `"to":"/b"`, map[string]string{"/a": "/b", "/a/": "/b", "/a?x=%2f;&y": "/b?x=%2f;&y", "/a?": "/b?"}},
		{"/a", `"to":"/b?"`, map[string]string{"/a?x=1": "/b", "/a": "/b"}},
		{"/a", `"to":"/b?z=1#top"`, map[string]string{"/a?x=1": "/b?z=1#top"}},
		{"/a", `"to":"/b#top"`, map[string]string{"/a?x=1": "/b?x=1#top"}},
		{"/a/{id}/{**r}", `"to":"https://New.test:8443/{r}/of/{id}"`, map[string]string{
			"/a/1/x/y": "https://new.test:8443/x/y/of/1", "/a/1": "https://new.test:8443//of/1", "/a/%41%2Fb/c%2fd/?q": "https://new.test:8443/c%2fd//of/%41%2Fb?q",
		}},
		{"/{**r}", `"to":"/{r}/"`, map[string]string{"/": "/", "/x": "/x/"}},
		{"/a/{**r}", `"to":"http://h.test"`, map[string]string{"/a/x?y": "http://h.test?y"}},
	} {
		for j, status := range []int{0, 301, 302, 303, 307, 308} {
			if i+j > 6 { // each status, each target
				continue
			}
			value := tt.redirect
			if status != 0 {
				value += fmt.Sprintf(`,"status":%d`, status)
			} else {
				status = 308
			}
			f.put("gateway/routes/r", `{"path":"`+tt.path+`","redirect":{`+value+`}}`)
			for target, want := range tt.want {
				for _, method := range []string{"GET", "POST", "HEAD"} {
					got := f.send(method + " " + target)
					if got.StatusCode != status || !slices.Equal(got.Header["Location"], []string{want}) {
						t.Errorf("%s %s by %s: %d to %q; want %d to %s", method, target, value, got.StatusCode, got.Header["Location"], status, want)
					}
					if method == "HEAD" != (got.body == "") {
						t.Errorf("%s %s: body %q", method, target, got.body)
					}
				}
			}
		}
	}
}

// What a client writes never makes a redirect lead to another host.
func TestNoOpenRedirect(t *testing.T) {
	f := start(t, "")
	f.routes(map[string]string{
		"all":  `{"path":"/all/{**r}","redirect":{"to":"/{r}"},"pathPolicy":{"allow":["backslash","control","encodedSlash","climb","pathParameter"]}}`,
		"two":  `{"path":"/two/{a}/{**r}","redirect":{"to":"/{r}/{a}"},"pathPolicy":{"allow":["backslash","control","encodedSlash","climb","pathParameter"]}}`,
		"home": `{"path":"/home/{**r}","redirect":{"to":"https://home.test/{r}"}}`,
	})
	for _, tail := range []string{
		"", "/evil.test", "//evil.test", "/evil.test/%2e%2e", "%2Fevil.test", "%2f%2fevil.test", `\evil.test`, `/\evil.test`, "%5Cevil.test", "@evil.test", ":80@evil.test/",
		"https://evil.test", "https:evil.test", "javascript:alert(1)", "?//evil.test", "..;/evil.test", "%0d%0aLocation:x", "%09/evil.test", ".evil.test", "\xe2\x80\xae", "<script>",
	} {
		for _, path := range []string{"/all/", "/two/x/", "/two/@evil.test/", "/two/" + `\x/`, "/home/"} {
			got := f.get(path + tail)
			if got.StatusCode == 400 && (path == "/home/" || tail >= "\x80") { // no target has such a byte
				continue
			}
			location := got.Header.Get("Location")
			base := &url.URL{Scheme: "http", Host: "gateway.test", Path: "/"}
			to, err := base.Parse(location)
			want := "gateway.test"
			if path == "/home/" {
				want = "home.test"
			}
			if got.StatusCode != 308 || err != nil || to.Host != want || to.User != nil || strings.ContainsAny(location, "\\\r\n\t <>") {
				t.Errorf("GET %s: %d to %q (%v)", path+tail, got.StatusCode, location, err)
			}
		}
	}
}

func TestRespond(t *testing.T) {
	f := start(t, "")
	f.routes(map[string]string{
		"plain":  `{"path":"/plain","respond":{"body":"hello"}}`,
		"page":   `{"path":"/page","respond":{"status":200,"body":"<p>","contentType":"text/html","headers":{"Cache-Control":"max-age=60","Content-Language":"en"}}}`,
		"gone":   `{"path":"/gone","respond":{"status":410,"body":"gone","headers":{"Retry-After":"9"}}}`,
		"empty":  `{"path":"/empty","respond":{"status":204}}`,
		"silent": `{"path":"/silent","respond":{}}`,
	})
	for _, tt := range []struct {
		request, body, contentType, length string
		status                             int
		etag                               bool
	}{
		{"GET /plain", "hello", "text/plain; charset=utf-8", "5", 200, true},
		{"HEAD /plain", "", "text/plain; charset=utf-8", "5", 200, true},
		{"POST /plain", "hello", "text/plain; charset=utf-8", "5", 200, false},
		{"GET /page", "<p>", "text/html", "3", 200, true},
		{"GET /gone", "gone", "text/plain; charset=utf-8", "4", 410, false},
		{"GET /gone\nIf-None-Match: *", "gone", "text/plain; charset=utf-8", "4", 410, false},
		{"GET /empty", "", "", "", 204, false},
		{"GET /silent", "", "text/plain; charset=utf-8", "0", 200, true},
	} {
		got := f.send(tt.request)
		header := got.Header
		if got.StatusCode != tt.status || got.body != tt.body || header.Get("Content-Type") != tt.contentType || header.Get("Content-Length") != tt.length || header.Get("ETag") != "" != tt.etag {
			t.Errorf("%q: %d %q %v", tt.request, got.StatusCode, got.body, header)
		}
	}
	page := f.get("/page")
	etag := page.Header.Get("ETag")
	if page.Header.Get("Cache-Control") != "max-age=60" || page.Header.Get("Content-Language") != "en" || f.get("/gone").Header.Get("Retry-After") != "9" {
		t.Errorf("headers %v", page.Header)
	}
	for condition, status := range map[string]int{
		etag: 304, "W/" + etag: 304, "*": 304, `"other", ` + etag: 304, `"other"`: 200, strings.Trim(etag, `"`): 200, "": 200,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := f.send(method + " /page\nIf-None-Match: " + condition)
			if got.StatusCode != status || (got.body == "<p>") != (status == 200 && method == "GET") || got.Header.Get("ETag") != etag {
				t.Errorf("%s with %q: %d %q %v; want %d", method, condition, got.StatusCode, got.body, got.Header, status)
			}
			if status == 304 && (got.Header.Get("Cache-Control") == "" || got.Header.Get("Content-Language") != "" || got.Header.Get("Content-Type") != "") {
				t.Errorf("304 with %v", got.Header)
			}
		}
	}
	if got := f.ask("POST", "/page", "If-None-Match: "+etag, "Content-Length: 0"); got.StatusCode != 200 {
		t.Errorf("POST with If-None-Match: %d", got.StatusCode)
	}
	f.put("gateway/routes/page", `{"path":"/page","respond":{"body":"<q>","contentType":"text/html"}}`)
	if got := f.get("/page", "If-None-Match: "+etag); got.StatusCode != 200 || got.Header.Get("ETag") == etag {
		t.Errorf("after the body changed: %d with %s", got.StatusCode, got.Header.Get("ETag"))
	}
}

// Every change is live when its put is, one after the other on one route.
func TestChangesAreLive(t *testing.T) {
	f := start(t, "")
	a, b := backend(t, "a"), backend(t, "b")
	f.put("gateway/clusters/c", `{"destinations":{"x":"`+b+`"}}`)
	for _, tt := range []struct{ value, request, want string }{
		{forwarding(`"path":"/r/{**r}"`, a), "GET /r/x", "a /r/x"},
		{forwarding(`"path":"/r/{**r}"`, b), "GET /r/x", "b /r/x"},
		{forwarding(`"path":"/r/{**r}","pathRemovePrefix":"/r"`, a), "GET /r/x", "a /x"},
		{forwarding(`"path":"/r/{**r}","pathRemovePrefix":"/r","pathPrefix":"/p"`, a), "GET /r/x", "a /p/x"},
		{forwarding(`"path":"/r/{**r}","rewrite":{"regex":"x","to":"/y"}`, a), "GET /r/x", "a /r/y"},
		{forwarding(`"path":"/r/{**r}","transforms":{"query":{"set":{"q":"1"}}}`, a), "GET /r/x", "a /r/x?q=1"},
		{forwarding(`"path":"/r/{**r}","transforms":{"response":{"set":{"X-R":"1"}}}`, a), "GET /r/x", "a /r/x X-R=1"},
		{forwarding(`"path":"/r/{**r}","transforms":{"response":{"set":{"X-R":"2"}}}`, a), "GET /r/x", "a /r/x X-R=2"},
		{forwarding(`"path":"/r/{**r}","transforms":{"request":{"set":{"Host":"inner.test"}}}`, a), "GET /r/x", "a /r/x at inner.test"},
		{`{"path":"/r/{**r}","redirect":{"to":"/to/{r}"}}`, "GET /r/x", "308 /to/x"},
		{`{"path":"/r/{**r}","redirect":{"to":"/to/{r}","status":302}}`, "GET /r/x", "302 /to/x"},
		{`{"path":"/r/{**r}","respond":{"status":418,"body":"tea"}}`, "GET /r/x", "418 tea"},
		{`{"path":"/r/{**r}","respond":{"status":418,"body":"pot"}}`, "GET /r/x", "418 pot"},
		{forwarding(`"path":"/r/{**r}","methods":["POST"]`, a), "GET /r/x", "405"},
		{forwarding(`"path":"/r/{**r}","headers":[{"name":"X-A","present":true}]`, a), "GET /r/x", "404"},
		{forwarding(`"path":"/r/{**r}","headers":[{"name":"X-A","present":true}]`, a), "GET /r/x\nX-A: 1", "a /r/x"},
		{forwarding(`"path":"/r/{**r}","query":[{"name":"q","value":"1"}]`, a), "GET /r/x?q=1;", "400"},
		{forwarding(`"path":"/r/{**r}","clients":["10.0.0.0/8"]`, a), "GET /r/x", "404"},
		{forwarding(`"path":"/r/{**r}","hosts":["h.test"]`, a), "GET /r/x", "404"},
		{forwarding(`"path":"/r/{**r}","pathPolicy":{"refuse":["semicolon"]}`, a), "GET /r/x;", "400"},
		{forwarding(`"path":"/r/{**r}","pathPolicy":{"allow":["control"]}`, a), "GET /r/%01", "a /r/%01"},
		{forwarding(`"path":"/R/{**r}","caseInsensitive":true`, a), "GET /r/x", "a /r/x"},
		{forwarding(`"pathRegex":"/r/[a-z]"`, a), "GET /r/x", "a /r/x"},
		{`{"path":"/r/{**r}","cluster":"c"}`, "GET /r/x", "b /r/x"},
		{`{"enabled":false}`, "GET /r/x", "404"},
		{forwarding(`"path":"/r/{**r}"`, a), "GET /r/x", "a /r/x"},
	} {
		f.put("gateway/routes/r", tt.value)
		if got := told(t, f.send(tt.request)); got != tt.want {
			t.Errorf("after %s: %q gave %s; want %s", tt.value, tt.request, got, tt.want)
		}
	}
	f.delete("gateway/routes/r")
	f.get("/r/x").problem(t, 404, "no_route")
}

// told is the gist of an answer.
func told(t *testing.T, a answer) string {
	t.Helper()
	switch {
	case a.Header.Get("Location") != "":
		return fmt.Sprint(a.StatusCode, " ", a.Header.Get("Location"))
	case a.Header.Get("Content-Type") == "application/problem+json":
		return fmt.Sprint(a.StatusCode)
	case a.StatusCode != 200:
		return fmt.Sprint(a.StatusCode, " ", a.body)
	}
	s := a.seen(t)
	text := s.Backend + " " + s.Target
	if value := a.Header.Get("X-R"); value != "" {
		text += " X-R=" + value
	}
	if s.Host != "gateway.test" {
		text += " at " + s.Host
	}
	return text
}

// A request that began before a change ends as it began.
func TestRequestEndsAsItBegan(t *testing.T) {
	for _, after := range []string{
		`{"path":"/r","respond":{"body":"new"},"transforms":{"response":{"set":{"X-R":"new"}}}}`,
		`{"path":"/r","redirect":{"to":"/new"}}`,
		`{"path":"/r","backends":["http://127.0.0.1:1"],"transforms":{"response":{"remove":["X-Own"],"set":{"X-R":"new"}}}}`,
		`{"path":"/r","backends":["http://127.0.0.1:1"],"fromTheFuture":1}`,
		`{"enabled":false}`,
	} {
		f := start(t, "")
		arrived, release := make(chan struct{}), make(chan struct{})
		f.put("gateway/routes/r", forwarding(`"path":"/r","transforms":{"response":{"set":{"X-R":"old"}}}`, serve(t, func(w http.ResponseWriter, r *http.Request) {
			close(arrived)
			select {
			case <-release:
			case <-r.Context().Done(): // the test has failed
			}
			w.Header().Set("X-Own", "1")
			io.WriteString(w, "old")
		})))
		end := f.begin("/r")
		await(t, arrived)
		f.put("gateway/routes/r", after)
		close(release)
		got := end()
		if got.StatusCode != 200 || got.body != "old" || got.Header.Get("X-R") != "old" || got.Header.Get("X-Own") != "1" {
			t.Errorf("after %s: %d %q %v", after, got.StatusCode, got.body, got.Header)
		}
	}
}

// What servers read in two ways decides nothing: the request is refused, and
// nothing reaches a backend.
func TestTwoReadings(t *testing.T) {
	strict, open := backend(t, "strict"), backend(t, "open")
	f := start(t, "")
	f.put("gateway/routes/open", route("/{**r}", open))
	for _, tt := range []struct{ strict, request, code string }{
		{`"path":"/c","headers":[{"name":"X-Tenant","value":"a"}]`, "GET /c\nX-Tenant: a\nX-Tenant: b", "ambiguous_header"},
		{`"path":"/c","headers":[{"name":"X-Tenant","value":"a"}]`, "GET /c\nX-Tenant: a\nX-Tenant:", "ambiguous_header"},
		{`"path":"/c","headers":[{"name":"X-Tenant","value":"a"}]`, "GET /c\nX_Tenant: a", "ambiguous_header"},
		{`"path":"/c","headers":[{"name":"X-Internal","present":true}]`, "GET /c\nX_Internal: 1", "ambiguous_header"},
		{`"path":"/v1/things:delete"`, "GET /v1/things%3Adelete", "bad_path"},
		{`"path":"/@internal/{**r}"`, "GET /%40internal/x", "bad_path"},
		{`"path":"/@internal/{**r}"`, "GET /%40internal%2fx", "bad_path"},
		{`"path":"/admin/{**r}"`, "GET /admin;x/y", "bad_path"},
		{`"hosts":["admin.test"],"path":"/{**r}"`, "GET /\nHost: admin.test..", "bad_host"},
		{`"hosts":["admin.test"],"path":"/{**r}"`, "GET /\nHost: admin.test:80:90", "bad_host"},
		{`"hosts":["admin.test"],"path":"/{**r}"`, "GET /\nHost: admin.test,b.test", "bad_host"},
	} {
		f.put("gateway/routes/strict", forwarding(tt.strict, strict))
		got := f.send(tt.request)
		if got.StatusCode != 400 {
			t.Errorf("%s: %q went to %s; want 400 %s", tt.strict, tt.request, got.outcome(t), tt.code)
			continue
		}
		if !strings.Contains(got.body, `"`+tt.code+`"`) {
			continue // the front may have refused it before
		}
		got.problem(t, 400, tt.code)
	}
	f.delete("gateway/routes/open")
	f.put("gateway/routes/strict", forwarding(`"path":"/projects/{id}/events"`, strict))
	if got := f.get("/projects/a%2Fb/events").seen(t); got.Backend != "strict" || got.Target != "/projects/a%2Fb/events" {
		t.Errorf("an id with %%2F went to %+v", got)
	}
	f.put("gateway/routes/strict", forwarding(`"path":"/things;v=1/{x}"`, strict))
	if got := f.get("/things;v=1/a").seen(t); got.Backend != "strict" {
		t.Errorf("a path of the route's own went to %+v", got)
	}
}
