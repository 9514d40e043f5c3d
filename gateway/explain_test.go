package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/kv"
)

// question is what a text asks, as fixture.send reads it; the target may be a URL.
func question(request string) gateway.Question {
	lines := strings.Split(request, "\n")
	method, url, _ := strings.Cut(lines[0], " ")
	q := gateway.Question{Method: method, URL: url}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		q.Fields.Add(name, []byte(value))
	}
	return q
}

func (f *fixture) asking(request string) gateway.Explanation {
	f.t.Helper()
	e, err := f.gateway.Table().Explain(question(request))
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

// counted are the words that go with a number.
var counted = regexp.MustCompile(`(segment|parameter|condition)s? against`)

// rows are candidates, a line each, with counted words in the singular.
func rows(e gateway.Explanation) (lines []string) {
	for _, c := range e.Candidates {
		lines = append(lines, fmt.Sprintf("%s %s: %s", c.ID, c.State, counted.ReplaceAllString(c.Why, "$1 against")))
	}
	return lines
}

func TestExplainCandidates(t *testing.T) {
	const to = "http://127.0.0.1:1"
	f := start(t, "routes: {file: {path: '/a/{**r}', backends: ['"+to+"']}}")
	f.routes(map[string]string{
		"first":  forwarding(`"path":"/a/b","order":-5,"methods":["PUT","POST"]`, to),
		"host":   forwarding(`"path":"/{x}/b","hosts":["shop.test","*.shop.test"],"headers":[{"name":"X-A","value":"1"}]`, to),
		"wild":   forwarding(`"path":"/a/b","hosts":["*.test"],"clients":["10.0.0.0/8","192.0.2.1"]`, to),
		"exact":  forwarding(`"path":"/a/b","query":[{"name":"q","regex":"[0-9]+"}]`, to),
		"second": forwarding(`"path":"/a/b","headers":[{"name":"X-B","present":false}]`, to),
		"plain":  forwarding(`"path":"/a/b"`, to),
		"same":   forwarding(`"path":"/a/{y}"`, to),
		"twin":   forwarding(`"path":"/a/{z}"`, to),
		"deep":   forwarding(`"path":"/{x}/{y}/{**r}"`, to),
		"expr":   forwarding(`"pathRegex":"/a/.*"`, to),
		"last":   forwarding(`"path":"/a/b","order":9`, to),
		"never":  forwarding(`"path":"/b"`, to),
		"off":    `{"enabled":false,"path":"/a/b"}`,
	})
	later := []string{
		`plain later: 0 condition against 1`, `same later: 1 literal segment against 2`,
		`twin later: 1 literal segment against 2`, `file later: 1 literal segment against 2`, `deep later: 0 literal segment against 2`, `expr later: pathRegex comes after every path`, `last later: order 9 comes after 0`,
	}
	for _, tt := range []struct {
		request, client string
		want            []string
	}{
		{"GET http://x.shop.test/a/b?q=x\nX-A: 2", "", append([]string{
			`first failed: method GET is not PUT or POST`,
			`host failed: header X-A is "2", not ["1"]`,
			`wild failed: client is unknown, and would have to be in 10.0.0.0/8 or 192.0.2.1/32`,
			`exact failed: parameter q is "x" and does not match ^(?:[0-9]+)$`,
			`second taken: the first whose conditions hold`,
		}, later...)},
		{"GET http://shop.test/a/b", "10.9.9.9", append([]string{
			`first failed: method GET is not PUT or POST`,
			`host failed: header X-A is missing`,
			`wild taken: the first whose conditions hold`,
			`exact later: any host comes after a wildcard host`, `second later: any host comes after a wildcard host`,
		}, anyHost(later, "a wildcard host")...)},
		{"GET http://shop.test/a/b\nX-A: 1", "6.6.6.6", append([]string{
			`first failed: method GET is not PUT or POST`,
			`host taken: the first whose conditions hold`,
			`wild later: a wildcard host comes after an exact host`,
			`exact later: any host comes after an exact host`, `second later: any host comes after an exact host`,
		}, anyHost(later, "an exact host")...)},
		{"POST /a/b\nX-B: 1", "", []string{
			`first taken: the first whose conditions hold`, `exact later: order 0 comes after -5`, `second later: order 0 comes after -5`,
			`plain later: order 0 comes after -5`, `same later: order 0 comes after -5`, `twin later: order 0 comes after -5`, `file later: order 0 comes after -5`,
			`deep later: order 0 comes after -5`, `expr later: order 0 comes after -5`, `last later: order 9 comes after -5`,
		}},
		{"GET /a/b\nX-B: 1", "", []string{
			`first failed: method GET is not PUT or POST`, `exact failed: parameter q is missing`, `second failed: header X-B is there, and must not be`,
			`plain taken: the first whose conditions hold`, `same later: 1 literal segment against 2`,
			`twin later: 1 literal segment against 2`, `file later: 1 literal segment against 2`, `deep later: 0 literal segment against 2`, `expr later: pathRegex comes after every path`, `last later: order 9 comes after 0`,
		}},
		{"GET http://other.example/a/c", "", []string{
			`same taken: the first whose conditions hold`, `twin later: its id comes after "same"`, `file later: a catch-all comes after none`,
			`deep later: 0 literal segment against 1`, `expr later: pathRegex comes after every path`,
		}},
		{"GET /z/y", "", []string{`deep taken: the first whose conditions hold`}},
		{"GET /z", "", nil},
	} {
		q := question(tt.request)
		if tt.client != "" {
			q.Client = netip.MustParseAddr(tt.client)
		}
		e, err := f.gateway.Table().Explain(q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, rows(e)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.request, diff)
		}
		if e.Client != tt.client {
			t.Errorf("%q: client %q; want %q", tt.request, e.Client, tt.client)
		}
	}
	e := f.asking("GET http://X.Shop.test:80/a/b")
	want := []gateway.Candidate{
		{ID: "host", Host: "*.shop.test", Path: "/{x}/b", Source: "operator", State: "failed", Why: "header X-A is missing"},
		{ID: "wild", Host: "*.test", Path: "/a/b", Source: "operator", State: "failed", Why: "client is unknown, and would have to be in 10.0.0.0/8 or 192.0.2.1/32"},
	}
	if diff := cmp.Diff(want, e.Candidates[1:3]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c := e.Candidates[0]; c.Order != -5 || c.Host != "" {
		t.Errorf("first: %+v", c)
	}
	for _, c := range e.Candidates {
		if c.ID == "file" && c.Source != "static" || c.ID == "expr" && c.Path != "~ /a/.*" {
			t.Errorf("%+v", c)
		}
	}
	f.put("gateway/routes/deep", forwarding(`"path":"/{x}/{y}"`, to))
	f.put("gateway/routes/wide", forwarding(`"path":"/{x}/{y}/{**r}"`, to))
	f.put("gateway/routes/longer", forwarding(`"path":"/{x}/{y}","hosts":["*.a.b"]`, to))
	f.put("gateway/routes/shorter", forwarding(`"path":"/{x}/{y}","hosts":["*.b"]`, to))
	f.put("gateway/routes/deep2", forwarding(`"path":"/{z}/{y}"`, to))
	for request, want := range map[string][]string{
		"GET /z/y":             {`deep taken: the first whose conditions hold`, `deep2 later: its id comes after "deep"`, `wide later: a catch-all comes after none`},
		"GET http://x.a.b/z/y": {`longer taken: the first whose conditions hold`, `shorter later: its wildcard host is shorter`},
	} {
		if got := rows(f.asking(request)); !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s: %q; want %q", request, got, want)
		}
	}
}

// anyHost is what the same candidates come after when a route of a host is taken.
func anyHost(later []string, what string) (lines []string) {
	for _, line := range later {
		id, _, _ := strings.Cut(line, " ")
		if id == "last" {
			lines = append(lines, `last later: order 9 comes after 0`)
			continue
		}
		lines = append(lines, id+" later: any host comes after "+what)
	}
	return lines
}

func TestExplainOutcome(t *testing.T) {
	f := start(t, "")
	f.put("gateway/clusters/c", `{"loadBalancing":"random","destinations":{"a":{"address":"http://127.0.0.1:1","weight":3},"b":"http://127.0.0.1:2"}}`)
	f.put("gateway/clusters/none", `{"destinations":{"a":{"address":"http://127.0.0.1:1","weight":0}}}`)
	f.routes(map[string]string{
		"r": `{"path":"/r/{**x}","pathRemovePrefix":"/r","cluster":"c","transforms":{"request":{"set":{"Host":"inner.test","X-S":"1"},"append":{"X-L":"b"},"remove":["X-G"]},
			"query":{"set":{"t":"1"}}}}`,
		"post":     forwarding(`"path":"/post","methods":["PUT","POST"]`, "http://127.0.0.1:1"),
		"query":    forwarding(`"path":"/query","query":[{"name":"a","value":"1"}]`, "http://127.0.0.1:1"),
		"rest":     forwarding(`"path":"/query/{**r}"`, "http://127.0.0.1:1"),
		"none":     `{"path":"/none","cluster":"none"}`,
		"redirect": `{"path":"/redirect/{id}","redirect":{"to":"/to/{id}","status":307}}`,
		"respond":  `{"path":"/respond","respond":{"body":"hi"}}`,
		"bad":      forwarding(`"path":"/bad","fromTheFuture":1`, "http://127.0.0.1:1"),
		"write":    forwarding(`"path":"/write/{**r}","rewrite":{"regex":"^/write/(.)-","to":"/$1."}`, "http://127.0.0.1:1"),
		"admin":    forwarding(`"path":"/query/admin/{**r}"`, "http://127.0.0.1:1"),
	})
	etag := f.get("/respond").Header.Get("ETag")
	for _, tt := range []struct {
		request, route, code, detail string
		status                       int
	}{
		{"GET /r/a", "r", "", "Route r forwards it to cluster c.", 0},
		{"GET /nowhere", "", "no_route", "No route takes this host and path.", 404},
		{"GET /post", "", "method_not_allowed", "Routes take this path with POST, PUT.", 405},
		{"GET /none", "none", "no_destination", "Route none takes it, and its cluster none has no destination.", 503},
		{"GET /redirect/x?y", "redirect", "", "Route redirect redirects to /to/x?y", 307},
		{"GET /respond", "respond", "", "Route respond answers itself.", 200},
		{"GET /respond\nIf-None-Match: " + etag, "respond", "", "Route respond answers itself.", 304},
		{"GET /bad", "bad", "route_quarantined", "Route bad has no valid configuration: unknown field \"fromTheFuture\"", 503},
		{"GET /query?a=%zz", "", "ambiguous_query", `query: "%zz" is no escape`, 400},
		{"GET /query?a=1&a=2", "", "ambiguous_query", `parameter "a" is there more than once`, 400},
		{"GET /r/?a;b", "r", "ambiguous_query", `query: raw ';'`, 400},
		{"GET /write/.-/x", "write", "bad_path", "the rewrite makes a dot segment", 400},
		{"GET /..", "", "bad_path", `".." climbs above the root`, 400},
		{"GET /query/admin%2Fx", "", "bad_path", `it is the path of another route`, 400},
		{"GET /ready", "", "", "The gateway answers probes of its health itself; no route takes them.", 200},
		{"HEAD /HEALTH/live/", "", "", "The gateway answers probes of its health itself; no route takes them.", 200},
	} {
		e := f.asking(tt.request)
		if e.Status != tt.status || e.Code != tt.code || e.Route != tt.route || !strings.Contains(e.Detail, tt.detail) {
			t.Errorf("%q: %d %s by %q: %s; want %d %s by %q: %s", tt.request, e.Status, e.Code, e.Route, e.Detail, tt.status, tt.code, tt.route, tt.detail)
		}
		if (e.Forward != nil) != (tt.status == 0 || tt.code == "no_destination") {
			t.Errorf("%q: forward %+v", tt.request, e.Forward)
		}
		if got := f.send(tt.request); tt.status != 0 && got.StatusCode != tt.status {
			t.Errorf("%q: %d in truth, %d explained", tt.request, got.StatusCode, tt.status)
		}
	}
	if got := f.asking("GET /query/admin%2Fx"); !slices.Equal(rows(got), []string{"rest failed: it would be taken, but the request is refused"}) {
		t.Errorf("refused: %q", rows(got))
	}
	if got := f.asking("GET /ready"); got.Candidates == nil || len(got.Candidates) > 0 {
		t.Errorf("candidates of a probe: %v", got.Candidates)
	}

	e := f.asking("POST http://Shop.Test:81/r/a%2Fb?x=%2f&t=0\nX-S: 0\nx_s: 0\nX-L: a\nX-G: 1\nX-Kept: 1")
	if table := f.gateway.Table(); e.Rev != table.Rev().String() || e.Hash != table.Hash() {
		t.Errorf("rev %s, hash %s; want the table's", e.Rev, e.Hash)
	}
	if e.Method != "POST" || e.Host != "shop.test" || e.Path != "/r/a%2Fb" || e.Match != "/r/a%2Fb" {
		t.Errorf("asked: %+v", e)
	}
	want := &gateway.Forward{
		Cluster: "c", Balancing: "random", Destinations: []gateway.ForwardDestination{
			{Address: "http://127.0.0.1:1", Weight: 3, Health: "unknown", Use: "yes"}, {Address: "http://127.0.0.1:2", Weight: 1, Health: "unknown", Use: "yes"},
		},
		Method: "POST", Target: "/a%2Fb?x=%2f&t=1", Host: "inner.test", Fields: []string{"X-S: 1", "X-L: a", "X-Kept: 1", "X-L: b"},
	}
	if diff := cmp.Diff(want, e.Forward); diff != "" {
		t.Errorf("forward (-want +got):\n%s", diff)
	}
	if e := f.asking("GET /r//%7e/"); e.Match != "/r/~/" || e.Path != "/r//%7e/" || e.Forward.Target != "/~/?t=1" || e.Forward.Host != "inner.test" {
		t.Errorf("restructured: %+v %+v", e, e.Forward)
	}
}

func TestQuestions(t *testing.T) {
	f := start(t, "")
	f.routes(map[string]string{
		"r":    forwarding(`"path":"/{**r}"`, "http://127.0.0.1:1"),
		"shop": forwarding(`"path":"/{**r}","hosts":["shop.test"]`, "http://127.0.0.1:1"),
		"tls":  forwarding(`"path":"/{**r}","clients":["10.0.0.0/8"],"hosts":["client.test"]`, "http://127.0.0.1:1"),
	})
	for url, want := range map[string]string{ // host, path as sent, target, route
		"/a?b":                     " /a /a?b r",
		"/a#b?c":                   " /a /a r",
		"http://shop.test":         "shop.test / / shop",
		"HTTPS://Shop.Test.:443/a": "shop.test /a /a shop",
		"http://shop.test?x":       "shop.test / /?x shop",
		"http://shop.test?x/y":     "shop.test / /?x/y shop",
		"http://shop.test#x/y?z":   "shop.test / / shop",
		"http://shop.test/#x":      "shop.test / / shop",
		"http://shop.test/a/../b":  "shop.test /a/../b /b shop",
		"http://[::1]:80/":         "[::1] / / r",
		"//shop.test/a":            " //shop.test/a /shop.test/a r",
	} {
		e, err := f.gateway.Table().Explain(gateway.Question{URL: url})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if got := fmt.Sprint(e.Host, " ", e.Path, " ", e.Forward.Target, " ", e.Route); got != want || e.Method != "GET" {
			t.Errorf("%s: %s %s; want %s", url, e.Method, got, want)
		}
	}
	for url, want := range map[string]string{
		"":                     "is neither an http or https URL nor a path",
		"a/b":                  "is neither an http or https URL nor a path",
		"shop.test/a":          "is neither an http or https URL nor a path",
		"ftp://shop.test/":     "is neither an http or https URL nor a path",
		"http:/shop.test":      "is neither an http or https URL nor a path",
		"http://user@shop/":    `host "user@shop" is neither`,
		"http://sh op/":        `host "sh op" is neither`,
		"http://[::1/":         `host "[::1" is neither`,
		"http://shop:port/":    `host "shop:port" is neither`,
		"http://shop\x00.test": "is neither",
		"/a%zz":                "%zz is no escape",
		"/a\x01":               "as escapes",
	} {
		if e, err := f.gateway.Table().Explain(gateway.Question{URL: url}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "url ") {
			t.Errorf("%q: %+v, %v; want %s", url, e, err, want)
		}
	}
	for client, want := range map[string]string{"10.1.2.3": "tls", "::ffff:10.1.2.3": "tls", "11.1.2.3": "r", "::1": "r"} {
		e, err := f.gateway.Table().Explain(gateway.Question{URL: "http://client.test/", Client: netip.MustParseAddr(client)})
		if err != nil || e.Route != want {
			t.Errorf("client %s: %s, %v; want %s", client, e.Route, err, want)
		}
	}
	fields := exchange.Fields{{Name: []byte("X-A"), Value: []byte("1")}}
	f.put("gateway/routes/r", forwarding(`"path":"/{**r}","transforms":{"request":{"set":{"X-A":"2"}}}`, "http://127.0.0.1:1"))
	if _, err := f.gateway.Table().Explain(gateway.Question{URL: "/", Fields: fields}); err != nil || string(fields[0].Value) != "1" {
		t.Errorf("the fields of the question became %s, %v", fields[0].Value, err)
	}
	if e := f.asking("get /"); e.Method != "GET" {
		t.Errorf("method %s", e.Method)
	}
}

// What every request has by the time it is matched, a question has as well.
func TestExplainSeesWhatRoutesSee(t *testing.T) {
	f := start(t, "config: {headers: {trustedProxies: [loopback]}}")
	f.routes(map[string]string{
		"tls":   forwarding(`"path":"/{**r}","headers":[{"name":"X-Forwarded-Proto","value":"http"}],"hosts":["tls.test"]`, backend(t, "tls")),
		"port":  forwarding(`"path":"/{**r}","headers":[{"name":"X-Forwarded-Port","value":"81"},{"name":"X-Forwarded-Host","regex":".*:81"}]`, backend(t, "port")),
		"plain": forwarding(`"path":"/{**r}"`, backend(t, "plain")),
		"named": forwarding(`"path":"/{**r}","headers":[{"name":"X-A","present":true}]`, backend(t, "named")),
		"post":  forwarding(`"path":"/post","methods":["POST"]`, backend(t, "post")),
	})
	f.put("gateway/config/ready", `{"require":["nobody"]}`)
	for _, tt := range []struct{ request, asked, want string }{
		{"GET /x\nHost: tls.test", "GET http://tls.test/x", "tls"},
		{"GET /x\nHost: tls.test\nX-Forwarded-Proto: https", "GET https://tls.test/x", "plain"},
		{"GET /x\nHost: tls.test\nX-Forwarded-Proto: https", "GET http://tls.test/x\nX-Forwarded-Proto: https", "plain"},
		{"GET /x\nHost: tls.test\nX_Forwarded_Proto: https", "GET http://tls.test/x\nX_Forwarded_Proto: https", "tls"},
		{"GET /x\nHost: a.test:81", "GET http://a.test:81/x", "port"},
		{"GET /x\nX-A: 1", "GET /x\nX-A: 1", "named"},
		{"GET /x\nX-A: 1\nConnection: X-A", "GET /x\nX-A: 1\nConnection: X-A", "plain"},
		{"GET /alive", "GET /alive", "200"},
		{"POST /alive", "POST /alive", "405"},
		{"GET /ready", "GET /ready", "503"},
		{"DELETE /ready", "DELETE /ready", "405"},
		{"CONNECT /post", "CONNECT /post", "501"},
		{"CONNECT /ready", "CONNECT /ready", "501"},
	} {
		if overNetHTTP && tt.want == "501" {
			continue // of which our engine answers all
		}
		e := f.asking(tt.asked)
		explained := e.Route
		if e.Status != 0 {
			explained = fmt.Sprint(e.Status)
		}
		if explained != tt.want {
			t.Errorf("%q: %s explained with %q, %s; want %s", tt.asked, explained, e.Detail, rows(e), tt.want)
		}
		got := f.send(tt.request)
		if outcome := fmt.Sprint(got.StatusCode); outcome != tt.want && got.outcome(t) != tt.want {
			t.Errorf("%q: %d %s in truth; want %s", tt.request, got.StatusCode, got.body, tt.want)
		}
	}
}

// What Explain says of random requests to random tables is what becomes of them.
func TestExplainAgreesWithTruth(t *testing.T) {
	f := start(t, "config: {headers: {trustedProxies: [loopback]}}")
	world := randomWorld{serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := json.Marshal(seen{r.Header.Get("X-Route"), r.Method, r.RequestURI, r.Host, "", r.Header})
		w.Header().Set("X-Seen", string(text))
	}), unused(t)}
	known := map[string]bool{}
	rapid.Check(t, func(rt *rapid.T) {
		f.swap(world.table(rt, known))
		for range 8 {
			request := randomRequest(rt)
			q := question(request.asked)
			q.Client = netip.MustParseAddr(request.client)
			e, err := f.gateway.Table().Explain(q)
			got := f.send(request.sent + "\nX-Forwarded-For: " + request.client)
			if err != nil {
				if got.StatusCode != 400 && got.StatusCode != 501 {
					rt.Errorf("%q: %v; %d in truth", request.sent, err, got.StatusCode)
				}
				continue
			}
			compare(rt, request.sent, e, got)
		}
	})
}

// swap puts keys and makes a table of them at once.
func (f *fixture) swap(ops []kv.Op) {
	f.t.Helper()
	commit, _, err := f.store.View().Resolve(kv.Txn{Then: ops})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.store.Merge(commit); err != nil {
		f.t.Fatal(err)
	}
	f.gateway.Refresh()
}

// randomWorld has a backend that is up and one that is down.
type randomWorld struct{ up, down string }

// table is a change to a table of a few routes and two clusters. known are the
// keys that there are; each says its id in what it forwards and answers.
func (w randomWorld) table(t *rapid.T, known map[string]bool) (ops []kv.Op) {
	for key := range known {
		ops = append(ops, kv.Delete(kv.Key(key)))
	}
	clear(known)
	put := func(key string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		known[key] = true
		ops = append(ops, kv.Put(kv.Key(key), text))
	}
	put("gateway/clusters/up", map[string]any{"destinations": map[string]string{"a": w.up}})
	put("gateway/clusters/none", map[string]any{"destinations": map[string]any{}})
	for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 1, 6, rapid.ID).Draw(t, "ids") {
		put("gateway/routes/"+id, w.route(t, id))
	}
	return ops
}

func (w randomWorld) route(t *rapid.T, id string) map[string]any {
	r := map[string]any{}
	maybe := func(name string, values ...any) {
		if rapid.IntRange(0, 3).Draw(t, name+"?") == 0 {
			r[name] = rapid.SampledFrom(values).Draw(t, name)
		}
	}
	request, response := map[string]any{"X-Route": id}, map[string]any{"X-Answered": id}
	changes := map[string]any{"request": map[string]any{"set": request}, "response": map[string]any{"set": response}}
	if rapid.IntRange(0, 5).Draw(t, "regex?") == 0 {
		r["pathRegex"] = rapid.SampledFrom([]string{"/a/.*", "/[ab]", ".*;.*", "/a(%2F|/)b"}).Draw(t, "pathRegex")
	} else {
		r["path"] = rapid.SampledFrom([]string{"/{**r}", "/", "/a", "/a/{**r}", "/{x}", "/a/{x}", "/a/b", "/{x}/b/{**r}", "/a;x", "/A/b", "/~"}).Draw(t, "path")
	}
	maybe("hosts", []string{"h.test"}, []string{"*.test"}, []string{"*.h.test", "other"})
	maybe("order", -1, 1)
	maybe("methods", []string{"GET"}, []string{"POST", "HEAD"})
	maybe("clients", []string{"10.0.0.0/8"}, []string{"::/0", "10.1.0.0/16"})
	maybe("caseInsensitive", true)
	maybe("headers", []any{match("X-A", "value", "1")}, []any{match("x-a", "present", false)}, []any{match("X-A", "regex", "1|2"), match("X-B", "present", true)},
		[]any{match("X-Forwarded-Proto", "value", "http")}, []any{match("X-Forwarded-Host", "value", "h.test")})
	maybe("query", []any{match("q", "value", "1")}, []any{match("q", "present", true)}, []any{match("q", "present", false)}, []any{match("q", "values", []string{"1", "2"})})
	maybe("pathPolicy", map[string]any{"allow": []string{"encodedSlash", "pathParameter"}}, map[string]any{"allow": []string{"climb", "control", "backslash"}},
		map[string]any{"refuse": []string{"encodedSlash", "emptySegment"}}, map[string]any{"refuse": []string{"semicolon", "dotSegment"}})
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		r["redirect"] = map[string]any{"to": rapid.SampledFrom([]string{"/to", "https://to.test/x?y"}).Draw(t, "to")}
	case 1:
		r["respond"] = map[string]any{"status": rapid.SampledFrom([]int{200, 410, 204}).Draw(t, "status")}
	case 2:
		r["cluster"] = "none"
	case 3:
		r["backends"], r["fromTheFuture"] = []string{w.up}, 1
	case 4:
		r["backends"] = []string{w.down, w.up}
	case 5:
		r["cluster"], r["enabled"] = "up", false
	default:
		r["cluster"] = "up"
	}
	if r["redirect"] == nil && r["respond"] == nil {
		switch rapid.IntRange(0, 5).Draw(t, "change") {
		case 0:
			changes["query"] = map[string]any{"remove": []string{"q"}, "set": map[string]any{"s": "1"}}
		case 1:
			request["Host"] = "inner.test"
		case 2:
			r["rewrite"] = map[string]any{"regex": "a|%2F", "to": rapid.SampledFrom([]string{"", "/z", "$0$0", "/%2e"}).Draw(t, "rewrite")}
			if r["rewrite"].(map[string]any)["to"] == "" {
				delete(r["rewrite"].(map[string]any), "to")
			}
		case 3:
			r["pathPrefix"] = "/p%2Fq"
		case 4:
			changes["request"].(map[string]any)["remove"] = []string{"X-A", "X-Forwarded-Port"}
			changes["request"].(map[string]any)["append"] = map[string]any{"X-B": "added"}
		}
		r["transforms"] = changes
	} else {
		r["transforms"] = map[string]any{"response": changes["response"]}
	}
	return r
}

func match(name, how string, what any) map[string]any { return map[string]any{"name": name, how: what} }

// asked is a request as a client sends it, and as Explain is asked.
type asked struct{ sent, asked, client string }

func randomRequest(t *rapid.T) asked {
	pick := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	method := pick("method", "GET", "GET", "POST", "HEAD", "DELETE", "CONNECT")
	host := pick("host", "h.test", "x.h.test", "H.Test:81", "other", "nobody.example")
	path := ""
	for range rapid.IntRange(1, 4).Draw(t, "segments") {
		path += "/" + pick("segment", "a", "b", "A", "%61", "", ".", "..", "a%2Fb", "a%2fb", "b;x", "..;x", "a%3Bx", "%7E", "%00", "%zz", `\`, "ready", "%2e%2E", "a%2F..")
	}
	query := pick("query", "", "", "?", "?q=1", "?q=2&x=%2F", "?q=1&q=2", "?q=%zz", "?q=1;x", "?q", "?a=b")
	fields := pick("fields", "", "\nX-A: 1", "\nX-A: 2\nX-B: 1", "\nX-A: 1\nConnection: X-A", "\nX-Forwarded-Proto: https", "\nX_Forwarded_Host: h.test", "\nX-B: b\nX_A: u")
	return asked{
		method + " " + path + query + "\nHost: " + host + fields, method + " http://" + host + path + query + fields,
		pick("client", "10.1.2.3", "10.200.0.1", "192.0.2.1", "2001:db8::1"),
	}
}

// compare wants the same status and route, and that a backend got what it would
// receive.
func compare(t *rapid.T, sent string, e gateway.Explanation, got answer) {
	told := fmt.Sprintf("%q: explained %+v, in truth %d %v %s", sent, e, got.StatusCode, got.Header, got.body)
	var s seen
	forwarded := json.Unmarshal([]byte(got.Header.Get("X-Seen")), &s) == nil
	if !forwarded {
		if got.StatusCode != e.Status || e.Code != "" && !strings.HasPrefix(sent, "HEAD ") && !strings.Contains(got.body, `"title":"`+e.Code+`"`) {
			t.Errorf("status: %s", told)
		}
		if want := e.Route; e.Code != "route_quarantined" && got.Header.Get("X-Answered") != want {
			t.Errorf("route %q answered: %s", got.Header.Get("X-Answered"), told)
		}
		if to := got.Header.Get("Location"); to != "" && !strings.HasSuffix(e.Detail, " "+to) {
			t.Errorf("location: %s", told)
		}
		return
	}
	if e.Status != 0 || e.Forward == nil || s.Backend != e.Route || got.Header.Get("X-Answered") != e.Route {
		t.Errorf("route %q: %s", s.Backend, told)
		return
	}
	if s.Target != e.Forward.Target || s.Host != e.Forward.Host || s.Method != e.Forward.Method {
		t.Errorf("backend got %s %s of %s: %s", s.Method, s.Target, s.Host, told)
	}
	has := http.Header{}
	for _, line := range e.Forward.Fields {
		name, value, _ := strings.Cut(line, ": ")
		has.Add(name, value)
	}
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Real-Ip", "X-Correlation-Id", "Via"} {
		if _, asked := has[name]; !asked {
			s.Header.Del(name) // every request gets it
		}
	}
	s.Header.Del("Content-Length") // of the connection
	if diff := cmp.Diff(s.Header, has); diff != "" {
		t.Errorf("fields (-seen +explained):\n%s%s", diff, told)
	}
	taken := slices.IndexFunc(e.Candidates, func(c gateway.Candidate) bool { return c.State == "taken" })
	if taken < 0 || e.Candidates[taken].ID != e.Route {
		t.Errorf("candidates: %s", told)
	}
}
