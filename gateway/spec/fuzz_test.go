package spec_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"grapevine/gateway/spec"
)

// keys has one key of each shape that differs in how it is decoded.
var keys = []string{
	"gateway/routes/r", "gateway/clusters/c", "gateway/maintenance", "gateway/instances/r/i", "gateway/tenants/t",
	"gateway/config/auth", "gateway/config/ready", "gateway/config/tenancy",
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(booking))
	f.Add([]byte(`{"destinations":{"b1":"http://a"},"resilience":{"timeoutMs":5000},"x-a":[1,{"b":null}]}`))
	f.Add([]byte(`{"path":"\ud83d\ude00","order":-1e9,"a":`))
	fuzzForm(f, spec.FormJSON)
}

func FuzzYAML(f *testing.F) {
	f.Add([]byte("path: /booking/{**catch-all}\nbackends:\n- http://a\n- 'http://b'\nlabels: {a: \"b\"}\n"))
	f.Add([]byte("destinations:\n  b1: http://a\n  b2:\n    address: http://b\nx-a: |\n  text\n"))
	f.Add([]byte("enabled: true\nreason: >-\n  long\n  text\nuntil: 2026-12-01T10:00:00Z\n? a\n: &b *c\n"))
	fuzzForm(f, spec.FormYAML)
}

func FuzzShorthand(f *testing.F) {
	f.Add([]byte(`path=/booking/{**catch-all},backends:[http://[::1]:80,http://b],labels.a="b,\"c",order=1`))
	f.Add([]byte(`enabled:on,reason=a\,b,allow=10.0.0.0/8,allow:[]`))
	f.Add([]byte(`on`))
	fuzzForm(f, spec.FormShorthand)
}

// fuzzForm decodes a value as that of every shape: what is taken has a
// canonical form that is taken too and is its own, what is refused has faults
// that say what and where.
func fuzzForm(f *testing.F, form spec.Form) {
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, key := range keys {
			got, err := spec.Decode(key, value, form)
			if err != nil {
				checkFaults(t, err)
				continue
			}
			again, err := spec.Decode(key, got.JSON, spec.FormJSON)
			if err != nil || !bytes.Equal(again.JSON, got.JSON) {
				t.Errorf("%s %q becomes %s, which becomes %s, %v", key, value, got.JSON, again.JSON, err)
			}
		}
	})
}

func checkFaults(t *testing.T, err error) {
	t.Helper()
	var faults spec.Faults
	if !errors.As(err, &faults) || len(faults) == 0 {
		t.Fatalf("no faults but %#v", err)
	}
	for _, f := range faults {
		if f.Key == "" && f.File == "" || f.Problem == "" || f.Line < 1 || f.Column < 1 {
			t.Errorf("a fault that does not say what or where: %#v", f)
		}
	}
}

// An expression that was decoded compiles in each way that it is used.
func FuzzRegex(f *testing.F) {
	for _, expr := range []string{`^/a(/.*)?$`, `/a\Qb`, `\Qa\E|b`, `(?i)a(?-i)b|c`, `a\`, `[`, `a{2`, `)(`, `(?m)^$`} {
		f.Add(expr, "/a")
	}
	f.Fuzz(func(t *testing.T, expr, text string) {
		var regex spec.Regex
		if regex.UnmarshalText([]byte(expr)) != nil {
			return
		}
		if regex.Whole().MatchString(text) && !regex.Compile().MatchString(text) {
			t.Errorf("%q matches all of %q, but is not found in it", expr, text)
		}
		folded := spec.Regex("(?i:" + regex + ")")
		if folded.Whole().MatchString(text) && !folded.Compile().MatchString(text) {
			t.Errorf("without regard to case, %q matches all of %q, but is not found in it", expr, text)
		}
	})
}

// nested is an "a" within so many groups.
func nested(groups int) string {
	return strings.Repeat("(", groups) + "a" + strings.Repeat(")", groups)
}

func FuzzParseFiles(f *testing.F) {
	f.Add([]byte("node: {name: a}\nroutes:\n  b: {path: /b, cluster: c}\nconfig: {timeouts: {timeout: 5s}}\n"), false)
	f.Add([]byte(`{"Gateway":{"HttpUrl":"http://*:8080","Routes":[{"RouteId":"b","Path":"/b","Backends":["http://a"]}]}}`), true)
	f.Add([]byte("Authentication: {JwtBearer: {Authority: http://a}, Cookie: 1}\nPragmatic: {Agent: {Announce: {RouteId: r}}}\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, json bool) {
		name := "gateway.yaml"
		if json {
			name = "gateway.json"
		}
		file, err := spec.ParseFiles(spec.Input{Name: name, Data: data})
		if err != nil {
			checkFaults(t, err)
			return
		}
		for id := range file.Routes {
			if at := file.Locate(spec.Fault{Key: "gateway/routes/" + id}); at.Line < 1 {
				t.Errorf("route %q stands nowhere", id)
			}
		}
	})
}
