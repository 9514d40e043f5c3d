package spec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"grapevine/gateway/spec"
)

func testdata(t *testing.T, name string) spec.Input {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return spec.Input{Name: name, Data: data}
}

func parse(t *testing.T, inputs ...spec.Input) *spec.File {
	t.Helper()
	f, err := spec.ParseFiles(inputs...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func yaml(name, text string) spec.Input { return spec.Input{Name: name, Data: []byte(text)} }

func TestParseFilesReportsAllTwelveFaultsInFileOrder(t *testing.T) {
	_, err := spec.ParseFiles(testdata(t, "twelve.yaml"))
	want := string(testdata(t, "twelve.want").Data)
	if diff := cmp.Diff(strings.TrimSpace(want), err.Error()); diff != "" {
		t.Errorf("faults of twelve.yaml (-want +got):\n%s", diff)
	}
	var faults spec.Faults
	if !errors.As(err, &faults) || len(faults) != 12 {
		t.Errorf("got %d faults, want 12", len(faults))
	}
}

func TestParseFilesReadsTheSourceDocuments(t *testing.T) {
	f := parse(t, testdata(t, "source-routes.json"), testdata(t, "source-clusters.json"),
		testdata(t, "source-authentication.json"), testdata(t, "source-announce.json"))
	got := map[string]string{
		"listeners.http": string(f.Listeners.HTTP),
		"route":          string(spec.Encode(f.Routes["booking"])),
		"cluster":        string(spec.Encode(f.Clusters["booking"])),
		"auth":           string(f.Config["auth"].JSON),
		"announce":       string(spec.Encode(f.Announce)),
	}
	want := map[string]string{
		"listeners.http": ":8080",
		"route":          `{"backends":["http://localhost:5010"],"path":"/booking/{**catch-all}"}`,
		"cluster": `{"destinations":{"b1":{"address":"http://booking-1:80"},"b2":{"address":"http://booking-2:80"}},` +
			`"resilience":{"circuitBreaker":{"breakDuration":"30s","failureThreshold":10,"minimumThroughput":20},"timeout":"5s"}}`,
		"auth": `{"providers":{"main":{"audience":"api.example.com","authority":"https://auth.example.com","requireHttpsMetadata":true}}}`,
		"announce": `{"address":"http://10.0.0.5:8080","path":"/warehouse/{**catch-all}","pathRemovePrefix":"/warehouse",` +
			`"requireAuth":true,"routeId":"warehouse"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseFilesReadsEveryOtherFieldOfTheSourceForm(t *testing.T) {
	f := parse(t, yaml("app.yaml", `
Gateway:
  HttpsUrl: https://+:8443/
  AgentSocketPath: /run/agent.sock
  TenantResolver: {Enabled: true, Resolvers: [Claim, Header]}
  Authentication: {JwtBearer: {Authority: "https://a.example"}}
  Clusters: {Booking: {Destinations: {b1: "http://b:80"}}}
  Routes:
    - {RouteId: Booking, Path: "/booking/{**catch-all}", Cluster: Booking}
`[1:]))
	if f.Listeners.HTTPS != ":8443" || f.Listeners.Socket != "/run/agent.sock" {
		t.Errorf("listeners: %+v", f.Listeners)
	}
	if got := string(f.Config["tenancy"].JSON); got != `{"enabled":true,"resolvers":["claim","header"]}` {
		t.Errorf("tenancy: %s", got)
	}
	if f.Config["auth"].Value == nil || f.Clusters["booking"] == nil || f.Routes["booking"].Cluster != "booking" {
		t.Errorf("auth, clusters and routes: %+v", f)
	}
}

func TestParseFilesMergesAsIfTheyWereOne(t *testing.T) {
	f := parse(t,
		yaml("10-node.yaml", "node: {name: edge-1}\nlisteners: {http: ':8080'}\n"),
		yaml("20-booking.yaml", "routes:\n  booking: {path: /b, cluster: b}\nlisteners: {admin: '127.0.0.1:8500'}\n"),
		yaml("30-billing.yaml", "routes:\n  billing: {path: /c, cluster: b}\nconfig:\n  timeouts: {timeout: 5s}\n"),
		yaml("40-empty.yaml", "# nothing yet\n"),
	)
	if len(f.Routes) != 2 || f.Node.Name != "edge-1" || f.Listeners.HTTP != ":8080" || f.Listeners.Admin != "127.0.0.1:8500" {
		t.Errorf("got %+v", f)
	}
	if timeouts, ok := f.Config["timeouts"].Value.(*spec.Timeouts); !ok || timeouts.Timeout.String() != "5s" {
		t.Errorf("timeouts: %+v", f.Config["timeouts"])
	}
}

func TestParseFilesNotices(t *testing.T) {
	f := parse(t, yaml("gateway.yaml", "routes:\n  Booking:\n    path: /b\n    cluster: b\n    timeout: 10m\n"))
	var got []string
	for _, n := range f.Notices {
		got = append(got, n.Error())
	}
	want := []string{
		`gateway.yaml:2:3: gateway/routes/booking: gateway/routes/Booking is folded to lower case`,
		`gateway.yaml:5:14: gateway/routes/booking: timeout "10m": counts as 2m, unless gateway/config/timeouts sets a higher cap`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseFilesRefuses(t *testing.T) {
	for _, row := range []struct{ name, file, want string }{
		{
			"an id twice", "routes:\n  b: {path: /b, cluster: b}\n  B: {path: /c, cluster: b}\n",
			`x.yaml:3:3: gateway/routes/b: is there twice; first at x.yaml:2:3`,
		},
		{
			"a route id twice in a list", "routes:\n- {routeId: b, path: /b, cluster: b}\n- {routeId: b, path: /c, cluster: b}\n",
			`x.yaml:3:3: gateway/routes/b: is there twice; first at x.yaml:2:3`,
		},
		{"no route id in a list", "routes:\n- {path: /b, cluster: b}\n", `x.yaml:2:3: routes: [0]: RouteId is missing`},
		{"another route id inside", "routes:\n  b: {routeId: c, path: /b, cluster: b}\n", `x.yaml:2:16: gateway/routes/b: routeId "c": is not the "b" of the key`},
		{"an unknown field", "route:\n  b: {}\n", `x.yaml:1:1: unknown field "route" (did you mean "routes"?)`},
		{"a section twice", "routes: {}\nRoutes: {}\n", `x.yaml:2:1: "Routes" is given twice`},
		{"no fields", "- 1\n", `x.yaml:1:1: expected fields such as routes, not a list`},
		{"a text", "hello\n", `x.yaml:1:1: expected fields such as routes, not text`},
		{"routes that are none", "routes: 5\n", `x.yaml:1:9: routes: expected fields, not text`},
		{"an id that is none", "routes:\n  'a b': {path: /, cluster: b}\n", `x.yaml:2:3: gateway/routes/a b: routeId "a b" must be 1 to 63 of a-z, 0-9, ".", "_" and "-", with a letter or digit at both ends`},
		{"an id with a slash", "routes:\n  a/b: {path: /, cluster: b}\n", `x.yaml:2:3: gateway/routes/a/b: is not of the form gateway/routes/{routeId}`},
		{"an empty route", "routes:\n  a:\n", `x.yaml:2:3: gateway/routes/a: is empty`},
		{"a later section", "config:\n  limits: {}\n", `x.yaml:2:3: gateway/config/limits: section "limits" is reserved for a later version`},
		{"an unknown section", "config:\n  logger: {}\n", `x.yaml:2:3: gateway/config/logger: unknown section "logger"; there are announce, auth, compression, cors, edge, headers, logging, ready, tenancy, timeouts`},
		{"cookies", "Authentication: {Cookie: {LoginPath: /l}}\n", `x.yaml:1:18: Authentication.Cookie: sessions in cookies are not issued by the gateway: let a login service answer by forward-auth`},
		{"an unknown source field", "Gateway:\n  HttpUrls: x\n", `x.yaml:2:3: Gateway: unknown field "HttpUrls" (did you mean "HttpUrl" or "HttpsUrl"?)`},
		{"a source block that is none", "Gateway: 5\n", `x.yaml:1:1: Gateway: expected fields, not text`},
		{"a nested unknown source field", "Pragmatic:\n  Agent:\n    Anounce: {}\n", `x.yaml:3:5: Pragmatic.Agent: unknown field "Anounce" (did you mean "Announce"?)`},
		{"an announcement without a route", "announce: {path: /a, address: 'http://a:1'}\n", `x.yaml:1:1: announce: routeId is missing: the route that is announced`},
		{"a listener without a port", "listeners: {http: localhost}\n", `x.yaml:1:19: listeners: http "localhost": has no port: write :8080 or 127.0.0.1:8080`},
		{"another schema", "schema: 2\n", `x.yaml:1:9: schema "2": must be 1`},
		{"a tab", "routes:\n\tb: 1\n", `x.yaml:2:1: not valid YAML: found character '	' that cannot start any token`},
		{"broken flow", "routes: {b: [}\n", `x.yaml:1:14: not valid YAML: could not find '{' character corresponding to '}'`},
		{"two documents", "node: {}\n---\nnode: {}\n", `x.yaml:3:5: a second YAML document: only one is read`},
		{"bytes that are no text", "node: {name: \xff}\n", `x.yaml:1:14: is not UTF-8`},
		{"an anchor", "node: &n {name: a}\n", `x.yaml:1:7: anchors (&name) are not supported: write the value out, or put a text that begins with & in quotes`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := spec.ParseFiles(yaml("x.yaml", row.file))
			if err == nil || err.Error() != row.want {
				t.Errorf("%s\ngot  %v\nwant %s", row.file, err, row.want)
			}
		})
	}
}

func TestParseFilesRefusesAnIdInTwoFiles(t *testing.T) {
	_, err := spec.ParseFiles(
		yaml("a.yaml", "listeners: {http: ':1'}\nroutes:\n  b: {path: /b, cluster: b}\n"),
		yaml("b.yaml", "routes:\n  b: {path: /c, cluster: b}\nlisteners: {http: ':2'}\n"),
	)
	want := "b.yaml:2:3: gateway/routes/b: is there twice; first at a.yaml:3:3\nb.yaml:3:13: listeners: \"http\" is given twice"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLocateFindsFieldsInEverySpelling(t *testing.T) {
	f := parse(t, testdata(t, "source-clusters.json"), yaml("r.yaml", `
routes:
  booking:
    path: /b
    backends:
      - http://a
      - http://b
    labels:
      app.example/name: x
`[1:]))
	for _, row := range []struct{ key, field, want string }{
		{"gateway/clusters/booking", "resilience.timeout", "source-clusters.json:6:22: gateway/clusters/booking: resilience.timeout \"5000\": p"},
		{"gateway/clusters/booking", "resilience.circuitBreaker.breakDuration", "source-clusters.json:9:30: gateway/clusters/booking: resilience.circuitBreaker.breakDuration \"30000\": p"},
		{"gateway/clusters/booking", "destinations.b2.address", "source-clusters.json:4:60: gateway/clusters/booking: destinations.b2.address \"http://booking-2:80\": p"},
		{"gateway/routes/booking", "backends[1]", "r.yaml:6:9: gateway/routes/booking: backends[1] \"http://b\": p"},
		{"gateway/routes/booking", "labels.app.example/name", "r.yaml:8:25: gateway/routes/booking: labels.app.example/name \"x\": p"},
		{"gateway/routes/booking", "cluster", "r.yaml:2:3: gateway/routes/booking: cluster: p"},
		{"gateway/routes/booking", "", "r.yaml:2:3: gateway/routes/booking: p"},
		{"gateway/routes/other", "path", "gateway/routes/other: path: p"},
	} {
		got := f.Locate(spec.Fault{Key: row.key, Field: row.field, Problem: "p"}).Error()
		if got != row.want {
			t.Errorf("%s %s\ngot  %s\nwant %s", row.key, row.field, got, row.want)
		}
	}
}
