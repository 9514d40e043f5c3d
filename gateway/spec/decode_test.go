package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"grapevine/gateway/spec"
)

func decode(t *testing.T, key, value string, form spec.Form) spec.Decoded {
	t.Helper()
	got, err := spec.Decode(key, []byte(value), form)
	if err != nil {
		t.Fatalf("%s %s: %v", key, value, err)
	}
	return got
}

const booking = `{"backends":["http://127.0.0.1:5010","http://127.0.0.1:5011"],` +
	`"path":"/booking/{**catch-all}","pathRemovePrefix":"/booking","timeout":"5s"}`

func TestDecodeReadsEveryFormAlike(t *testing.T) {
	for name, value := range map[string]string{
		"canonical":   booking,
		"shorthand":   `path=/booking/{**catch-all},pathRemovePrefix=/booking,backends=http://127.0.0.1:5010,backends=http://127.0.0.1:5011,timeout=5s`,
		"colons":      `path: /booking/{**catch-all}, pathRemovePrefix: /booking, backends: [http://127.0.0.1:5010, http://127.0.0.1:5011], timeoutMs: 5000`,
		"quotes":      `path="/booking/{**catch-all}",pathRemovePrefix='/booking',backends=["http://127.0.0.1:5010",http://127.0.0.1:5011],timeoutSeconds=5`,
		"PascalCase":  `{"RouteId":"Booking","Path":"/booking/{**catch-all}","PathRemovePrefix":"/booking","Backends":["http://127.0.0.1:5010","http://127.0.0.1:5011"],"TimeoutMs":5000}`,
		"snake_case":  `{"path":"/booking/{**catch-all}","path_remove_prefix":"/booking/","backends":["HTTP://127.0.0.1:5010/","http://127.0.0.1:5011"],"timeout_seconds":5}`,
		"nulls":       `{"path":"/booking/{**catch-all}","pathRegex":null,"pathRemovePrefix":"/booking","pathPrefix":"","backends":["http://127.0.0.1:5010","http://127.0.0.1:5011"],"timeout":"5000ms","cors":null,"order":0}`,
		"yaml":        "path: /booking/{**catch-all}\npathRemovePrefix: /booking\nbackends:\n- http://127.0.0.1:5010\n- 'http://127.0.0.1:5011'\ntimeout: 5s # enough\n",
		"byte order":  "\ufeffpath: /booking/{**catch-all}\r\npathRemovePrefix: /booking\r\nbackends: [http://127.0.0.1:5010, http://127.0.0.1:5011]\r\ntimeout: 5s\r\n",
		"yaml header": "---\npath: /booking/{*catch-all}\npathRemovePrefix: /booking\nbackends: [http://127.0.0.1:5010, http://127.0.0.1:5011]\ntimeout: \"5s\"\n...\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := decode(t, "gateway/routes/booking", strings.ReplaceAll(value, "Booking", "booking"), spec.FormAuto)
			if diff := cmp.Diff(booking, string(got.JSON)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeTypesShorthandByTheSchema(t *testing.T) {
	for _, row := range []struct{ key, value, want string }{
		{"gateway/maintenance", "on", `{"enabled":true}`},
		{"gateway/maintenance", "off\n", `{"enabled":false}`},
		{"gateway/maintenance", "true", `{"enabled":true}`},
		{"gateway/maintenance", "enabled:true,reason:deploy", `{"enabled":true,"reason":"deploy"}`},
		{"gateway/maintenance", "enabled:on,reason:true", `{"enabled":true,"reason":"true"}`},
		{"gateway/maintenance", `enabled:on,reason:a\,b=c: d`, `{"enabled":true,"reason":"a,b=c: d"}`},
		{"gateway/maintenance", `enabled:on,reason:null`, `{"enabled":true,"reason":"null"}`},
		{"gateway/maintenance", `enabled:on,x-ticket=12`, `{"enabled":true,"x-ticket":"12"}`},
		{"gateway/maintenance", `enabled:on,x-who=[a,b],x-at.line=1`, `{"enabled":true,"x-at":{"line":"1"},"x-who":["a","b"]}`},
		{"gateway/maintenance/booking", "enabled: true\nreason: 1.10\n", `{"enabled":true,"reason":"1.10"}`},
		{"gateway/clusters/c", "destinations.b1=http://[::1]:80", `{"destinations":{"b1":{"address":"http://[::1]:80"}}}`},
		{"gateway/clusters/c", "destinations.b1.address=http://a,destinations.b1.weight=0", `{"destinations":{"b1":{"address":"http://a","weight":0}}}`},
		{"gateway/clusters/c", "resilience.timeoutMs:5000", `{"resilience":{"timeout":"5s"}}`},
		{"gateway/clusters/c", "slowStart=0s,panicPercent=0", `{"panicPercent":0}`},
		{"gateway/routes/x", "path=/,backends=[http://[::1]:80,http://b]", `{"backends":["http://[::1]:80","http://b"],"path":"/"}`},
		{"gateway/routes/x", "path=/,cluster=c,methods=[],hosts=[API.example.com.]", `{"cluster":"c","hosts":["api.example.com"],"methods":[],"path":"/"}`},
		{"gateway/routes/x", "path=/,cluster=c,pathPolicy.allow=[encoded_slash,encodedDelimiter],pathPolicy.refuse=[EmptySegment,semicolon]", `{"cluster":"c","path":"/","pathPolicy":{"allow":["encodedSlash","encodedDelimiter"],"refuse":["emptySegment","semicolon"]}}`},
		{"gateway/routes/x", "path=/{id}/{**rest},redirect.to=HTTPS://New.example:443/{rest}-{id}?", `{"path":"/{id}/{**rest}","redirect":{"to":"https://new.example:443/{rest}-{id}?"}}`},
		{"gateway/routes/x", "path=/x,redirect.to=https://New.example", `{"path":"/x","redirect":{"to":"https://new.example"}}`},
		{"gateway/routes/x", "path=/x,redirect.to=/%7Bid%7D/a:b?to=//x#y", `{"path":"/x","redirect":{"to":"/%7Bid%7D/a:b?to=//x#y"}}`},
		{"gateway/routes/x", `pathRegex=/(.*),cluster=c,rewrite.regex=^/(..)/(.*),rewrite.to="/$1%2F${2}$$", caseInsensitive=on`, `{"caseInsensitive":true,"cluster":"c","pathRegex":"/(.*)","rewrite":{"regex":"^/(..)/(.*)","to":"/$1%2F${2}$$"}}`},
		{"gateway/routes/x", `path=/x,cluster=c,rewrite.regex=^/x`, `{"cluster":"c","path":"/x","rewrite":{"regex":"^/x"}}`},
		{"gateway/routes/x", `path=/x,cluster=c,rewrite.regex=old,rewrite.to=new`, `{"cluster":"c","path":"/x","rewrite":{"regex":"old","to":"new"}}`},
		{"gateway/routes/x", `path=/x,cluster=c,rewrite.regex=_,rewrite.to=./$$`, `{"cluster":"c","path":"/x","rewrite":{"regex":"_","to":"./$$"}}`},
		{"gateway/routes/x", `path=/x,cluster=c,rewrite.regex=x,rewrite.to=$0/y..`, `{"cluster":"c","path":"/x","rewrite":{"regex":"x","to":"$0/y.."}}`},
		{"gateway/routes/x", "path=/x,cluster=c,transforms.request.set.Host='[::1]:80',transforms.request.append.X-A=1,transforms.request.set.X-A=2", `{"cluster":"c","path":"/x","transforms":{"request":{"append":{"X-A":"1"},"set":{"Host":"[::1]:80","X-A":"2"}}}}`},
		{"gateway/routes/x", "enabled=false", `{"enabled":false}`},
		{"gateway/clusters/c", "loadBalancing=roundRobin,hashOn=ip", `{"hashOn":"ip","loadBalancing":"roundRobin"}`},
		{"gateway/routes/x", `pathRegex=^/a{1\,3}$,cluster=C`, `{"cluster":"c","pathRegex":"^/a{1,3}$"}`},
		{"gateway/routes/x", `pathRegex='^/\d+\'s$',cluster=c`, `{"cluster":"c","pathRegex":"^/\\d+'s$"}`},
	} {
		if got := decode(t, row.key, row.value, spec.FormAuto); string(got.JSON) != row.want {
			t.Errorf("%s %s\ngot  %s\nwant %s", row.key, row.value, got.JSON, row.want)
		}
	}
}

func TestDecodeReadsAFileOfOnePlainLineAsShorthand(t *testing.T) {
	got := decode(t, "gateway/maintenance", "enabled:true,reason:deploy\n", spec.FormYAML)
	if want := `{"enabled":true,"reason":"deploy"}`; string(got.JSON) != want {
		t.Errorf("got %s, want %s", got.JSON, want)
	}
}

func TestDecodeKeepsAnnotations(t *testing.T) {
	got := decode(t, "gateway/tenants/acme", `{"x-b": {"z":1.50, "a":[true,null,"<&>"]}, "x-a": 1e3, "schema": 1}`, spec.FormJSON)
	if want := `{"schema":1,"x-a":1e3,"x-b":{"a":[true,null,"<&>"],"z":1.50}}`; string(got.JSON) != want {
		t.Errorf("got %s, want %s", got.JSON, want)
	}
}

func TestDecodeLeavesFreeKeysAlone(t *testing.T) {
	for _, value := range []string{"", "hello", "{broken", "\xff\x00"} {
		got := decode(t, "app/Greeting", value, spec.FormAuto)
		if got.Key != "app/Greeting" || got.Value != nil || string(got.JSON) != value {
			t.Errorf("%q: got %+v", value, got)
		}
	}
}

func TestDecodeNotices(t *testing.T) {
	for _, row := range []struct{ key, value, want string }{
		{"gateway/routes/Booking", "path=/b,cluster=c", "gateway/routes/booking: gateway/routes/Booking is folded to lower case"},
		{"gateway/routes/b", "path=/b,cluster=c,timeout=121s", `gateway/routes/b: timeout "121s": counts as 2m, unless gateway/config/timeouts sets a higher cap`},
		{"gateway/routes/b", "path=/api/:id,cluster=c", `gateway/routes/b: path "/api/:id": segment ":id" is taken literally; a parameter is written {id}`},
		{"gateway/routes/b", "path=/{a}/:1d/a:b/%3Ac,cluster=c", `gateway/routes/b: path "/{a}/:1d/a:b/%3Ac": segment ":1d" is taken literally; a parameter is written {name}`},
		{"gateway/routes/b", "path=/{a},redirect.to=/$metadata/{a}/$1x?$2", `gateway/routes/b: redirect.to "/$metadata/{a}/$1x?$2": $1 is taken literally; write {name} for a parameter of the path`},
		{"gateway/instances/r/i", "path=/r/:id,tunnel=on", `gateway/instances/r/i: path "/r/:id": segment ":id" is taken literally; a parameter is written {id}`},
		{"gateway/clusters/c", "resilience.timeoutMs=600000", `gateway/clusters/c: resilience.timeout "600000": counts as 2m, unless gateway/config/timeouts sets a higher cap`},
		{"gateway/config/timeouts", "timeout=10s,cap=5s", `gateway/config/timeouts: timeout "10s": counts as the cap, 5s`},
		{"gateway/config/headers", "trustAllProxies=true", `gateway/config/headers: trustAllProxies "true": every client can now claim any address: only right behind an ingress that sets X-Forwarded-* itself`},
		{"gateway/config/edge", "bypassPathPrefixes=/", `gateway/config/edge: bypassPathPrefixes[0] "/": exempts every request from the limits`},
	} {
		got := decode(t, row.key, row.value, spec.FormAuto)
		if len(got.Notices) != 1 || got.Notices[0].Error() != row.want {
			t.Errorf("%s %s\ngot  %v\nwant %s", row.key, row.value, got.Notices, row.want)
		}
	}
}

// An end that has passed is told; one that has not, or of a maintenance that is off, is not.
func TestPastMaintenanceIsTold(t *testing.T) {
	for value, told := range map[string]bool{
		"enabled:true,until:2020-01-01T00:00:00Z": true, "enabled:true,until:2999-01-01T00:00:00Z": false,
		"enabled:false,until:2020-01-01T00:00:00Z": false, "on": false,
	} {
		got := decode(t, "gateway/maintenance/c", value, spec.FormAuto)
		if (len(got.Notices) == 1) != told || told && !strings.Contains(got.Notices[0].Error(), `until "2020-01-01T00:00:00Z": has passed, so nobody is turned away: it is 2`) {
			t.Errorf("%s: %v", value, got.Notices)
		}
	}
}

func TestDecodeKnowsWhereAFaultStands(t *testing.T) {
	for _, row := range []struct {
		value        string
		line, column int
	}{
		{"{\n  \"path\": \"/x\",\n  \"é\": 1, \"order\": \"a\",\n  \"cluster\": \"c\"\n}", 3, 3},
		{"{\n  \"path\": \"/x\",\n  \"cluster\": \"é\", \"order\": 1\n}", 3, 14},
		{"path: /x\ncluster: c\nhosts:\n- é.de\n", 4, 3},
		{"path=/é,cluster=c,order=x", 1, 25},
		{"path=/x,cluster=c,methods=[GET,x]", 1, 32},
		{"{\"path\": \"/x\",\n\"limits\": {\"maxConcurrent\": -1},\n\"cluster\": \"c\"}", 2, 29},
	} {
		_, err := spec.Decode("gateway/routes/x", []byte(row.value), spec.FormAuto)
		faults, ok := err.(spec.Faults)
		if !ok || faults[0].Line != row.line || faults[0].Column != row.column {
			t.Errorf("%s\ngot %#v, want %d:%d", row.value, err, row.line, row.column)
		}
	}
}

func TestDecodeHandsBackWhatCouldBeRead(t *testing.T) {
	got, err := spec.Decode("gateway/routes/R", []byte(`{"path":"/r","hosts":["a.example"],"timeout":"soon","fromTheFuture":1}`), spec.FormJSON)
	route, ok := got.Value.(*spec.Route)
	if err == nil || got.Key != "gateway/routes/r" || !ok || route.Path != "/r" || route.Hosts[0] != "a.example" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Where nothing can be read there is no value, and without a key no shape.
func TestDecodeHandsBackNothingElse(t *testing.T) {
	for _, row := range []struct{ key, value, want string }{
		{"gateway/routes/R", `{"path":`, "gateway/routes/r"},
		{"gateway/routes/R", strings.Repeat(" ", spec.MaxValue+1), "gateway/routes/r"},
		{"gateway/routes/-r", `{}`, ""},
		{"gateway/route/r", `{}`, ""},
	} {
		got, err := spec.Decode(row.key, []byte(row.value), spec.FormJSON)
		if err == nil || got.Key != row.want || got.Value != nil || got.JSON != nil {
			t.Errorf("%s %.20s: got %+v, %v, want key %q alone", row.key, row.value, got, err, row.want)
		}
	}
}

func TestDecodeHoldsAValueToItsForm(t *testing.T) {
	for _, row := range []struct {
		form        spec.Form
		value, want string
	}{
		{spec.FormJSON, "path=/x,cluster=c", "not valid JSON: invalid character 'p' looking for beginning of value"},
		{spec.FormJSON, "path: /x\ncluster: c\n", "not valid JSON: invalid character 'p' looking for beginning of value"},
		{spec.FormShorthand, "path: /x\ncluster: c\n", "shorthand is one line: write YAML or JSON instead"},
		{spec.FormShorthand, `{"path":"/x"}`, "is JSON, and was given as shorthand: name=value,name=value"},
		{spec.FormYAML, "path: /x\n- cluster\n", "not valid YAML: non-map value is specified"},
	} {
		_, err := spec.Decode("gateway/routes/x", []byte(row.value), row.form)
		first := ""
		if faults, ok := err.(spec.Faults); ok {
			first = faults[0].Error()
		}
		if want := "gateway/routes/x: " + row.want; first != want {
			t.Errorf("form %d %s\ngot  %s\nwant %s", row.form, row.value, first, want)
		}
	}
}

func TestDecodeBoundsItsInput(t *testing.T) {
	for _, row := range []struct {
		name, key, value, want string
	}{
		{"value", "gateway/routes/x", strings.Repeat(" ", spec.MaxValue+1), "value of 262145 bytes is larger than 262144"},
		{"free value", "app/x", strings.Repeat(" ", spec.MaxValue+1), "value of 262145 bytes is larger than 262144"},
		{"ephemeral value", "gateway/instances/a/b", strings.Repeat(" ", spec.MaxEphemeralValue+1), "value of 4097 bytes is larger than 4096"},
		{
			"value with a longer canonical form", "gateway/instances/a/b",
			"path=/" + strings.Repeat("é", 300) + ",address=http://a,description=" + strings.Repeat("\x01", 1000),
			"value of 7850 bytes is larger than 4096",
		},
		{"deep JSON", "gateway/routes/x", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "not valid JSON: invalid character '[' exceeded max depth"},
		{"deep JSON annotation", "gateway/routes/x", `{"x-a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}", "nested deeper than 32 levels"},
		{"deep YAML", "gateway/routes/x", "a:\n" + strings.Repeat("[", 100_000), "nested deeper than 32 levels"},
		{"deep YAML list", "gateway/routes/x", "a:\n" + strings.Repeat("- ", 100_000), "nested deeper than 32 levels"},
		{"deep YAML blocks", "gateway/routes/x", deepBlocks(60), "nested deeper than 32 levels"},
		{"wide YAML", "gateway/routes/x", strings.Repeat("a: 1\n", 20_000), "more than 10000 fields: write JSON instead"},
		{"long shorthand", "gateway/routes/x", "path=/" + strings.Repeat("a", 16<<10), "shorthand of 16390 bytes is longer than 16384: write JSON instead"},
		{"deep shorthand", "gateway/routes/x", strings.Repeat("a.", 100) + "a=1", "nested deeper than 32 levels"},
		{"long name", "gateway/routes/x", strings.Repeat("a", 1000) + "=1,path=/,cluster=c", `unknown field "` + strings.Repeat("a", 64) + `…"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := spec.Decode(row.key, []byte(row.value), spec.FormAuto)
			if want := row.key + ": " + row.want; err == nil || err.Error() != want {
				t.Errorf("got %.200v, want %s", err, want)
			}
		})
	}
}

func deepBlocks(levels int) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

func ExampleDecode() {
	route, err := spec.Decode("gateway/routes/Booking",
		[]byte("path=/booking/{**rest}, backends=http://127.0.0.1:5010, timeoutMs=1500"), spec.FormAuto)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(route.Key, string(route.JSON))
	fmt.Println(route.Notices[0])

	_, err = spec.Decode("gateway/routes/booking", []byte("path=/booking/{**rest}, backend=http://127.0.0.1:5010"), spec.FormAuto)
	fmt.Println(err)
	// Output:
	// gateway/routes/booking {"backends":["http://127.0.0.1:5010"],"path":"/booking/{**rest}","timeout":"1.5s"}
	// gateway/routes/booking: gateway/routes/Booking is folded to lower case
	// gateway/routes/booking: unknown field "backend" (did you mean "backends"?)
}

func BenchmarkDecode(b *testing.B) {
	for name, form := range map[string]spec.Form{"json": spec.FormJSON, "yaml": spec.FormYAML} {
		value := []byte(booking)
		if form == spec.FormYAML {
			value = []byte("path: /booking/{**catch-all}\npathRemovePrefix: /booking\nbackends: [http://127.0.0.1:5010]\ntimeout: 5s\n")
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := spec.Decode("gateway/routes/booking", value, form); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParseFiles reads 1,000 routes.
func BenchmarkParseFiles(b *testing.B) {
	var file strings.Builder
	file.WriteString("routes:\n")
	for i := range 1000 {
		fmt.Fprintf(&file, "  r%d:\n    path: /r%d/{**rest}\n    backends:\n    - http://10.0.0.1:80\n    - http://10.0.0.2:80\n", i, i)
	}
	for b.Loop() {
		if _, err := spec.ParseFiles(spec.Input{Name: "gateway.yaml", Data: []byte(file.String())}); err != nil {
			b.Fatal(err)
		}
	}
}

// A list that fills the largest value and has a fault in every item must not
// take a time that grows with its square: that would be minutes.
func BenchmarkDecodeAsManyFaultsAsFit(b *testing.B) {
	const item = `"a",`
	hosts := strings.Repeat(item, (spec.MaxValue-100)/len(item))
	value := []byte(`{"path":"/x","cluster":"c","hosts":[` + strings.TrimSuffix(hosts, ",") + `]}`)
	for b.Loop() {
		if _, err := spec.Decode("gateway/routes/x", value, spec.FormJSON); err == nil {
			b.Fatal("taken")
		}
	}
}
