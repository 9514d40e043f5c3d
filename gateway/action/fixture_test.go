package action_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// route is one as an operator writes it in shorthand, with a cluster unless it
// answers itself.
func route(t testing.TB, shorthand string) *spec.Route {
	t.Helper()
	if !strings.Contains(shorthand, "redirect.") && !strings.Contains(shorthand, "respond.") {
		shorthand += ",cluster=c"
	}
	decoded, err := spec.Decode("gateway/routes/r", []byte(shorthand), spec.FormShorthand)
	if err != nil {
		t.Fatal(err)
	}
	return decoded.Value.(*spec.Route)
}

// serve gives a handler one request, with fields as "Name: value".
func serve(h exchange.Handler, method, target string, fields ...string) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset(context.Background())
	x.Request.Method, x.Request.Target, x.Request.Fields = method, []byte(target), fieldLines(fields...)
	h.Serve(x)
	return x
}

func body(t *testing.T, x *exchange.Exchange) string {
	t.Helper()
	if x.Response.Body == nil {
		return ""
	}
	all, err := io.ReadAll(x.Response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// fieldLines makes fields of "Name: value" lines.
func fieldLines(lines ...string) (fields exchange.Fields) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		fields.Add(name, []byte(value))
	}
	return fields
}

func linesOf(fields exchange.Fields) (lines []string) {
	for _, f := range fields {
		lines = append(lines, fmt.Sprintf("%s: %s", f.Name, f.Value))
	}
	return lines
}
