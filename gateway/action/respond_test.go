package action_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"grapevine/gateway/action"
	"grapevine/gateway/exchange"
)

func TestRespond(t *testing.T) {
	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte("hello")))[:32])
	for _, row := range []struct {
		name, route, method, noneMatch string
		status                         int
		length                         int64
		body, fields                   string
	}{
		{"GET", `respond.body=hello`, "GET", "", 200, 5, "hello", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
		{"HEAD", `respond.body=hello`, "HEAD", "", 200, 5, "", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
		{"POST", `respond.body=hello`, "POST", "*", 200, 5, "hello", "Content-Type: text/plain; charset=utf-8"},
		{"other status", `respond.body=hello,respond.status=503,respond.headers.Retry-After=5`, "GET", "*", 503, 5, "hello", "Retry-After: 5|Content-Type: text/plain; charset=utf-8"},
		{"media type", `respond.body=hello,respond.contentType=text/html`, "GET", "", 200, 5, "hello", "Content-Type: text/html|ETag: " + tag},
		{"no content", `respond.status=204,respond.headers.X-A=1`, "GET", "*", 204, 0, "", "X-A: 1"},
		{"reset content", `respond.status=205`, "POST", "", 205, 0, "", ""},
		{"not modified", `respond.status=304`, "GET", "", 304, -1, "", ""},
		{"same tag", `respond.body=hello`, "GET", tag, 304, 5, "", "ETag: " + tag},
		{"same tag, HEAD", `respond.body=hello`, "HEAD", "W/" + tag, 304, 5, "", "ETag: " + tag},
		{"any tag", `respond.body=hello`, "GET", " * ", 304, 5, "", "ETag: " + tag},
		{"fields of 304", `respond.body=hello,respond.headers.Cache-Control=no-cache,respond.headers.Content-Language=en,respond.headers.last-modified=x`, "GET", tag, 304, 5, "", "Cache-Control: no-cache|ETag: " + tag},
		{"list", `respond.body=hello`, "GET", `"a", W/"b,c" ,, ` + tag, 304, 5, "", "ETag: " + tag},
		{"other tags", `respond.body=hello`, "GET", `"a", ` + strings.ToUpper(tag), 200, 5, "hello", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
		{"tag inside a tag", `respond.body=hello`, "GET", `"a, ` + strings.Trim(tag, `"`) + `"`, 200, 5, "hello", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
		{"broken list", `respond.body=hello`, "GET", `"a" "b", ` + tag, 200, 5, "hello", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
		{"unquoted", `respond.body=hello`, "GET", strings.Trim(tag, `"`), 200, 5, "hello", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
		{"half a tag", `respond.body=hello`, "GET", strings.TrimSuffix(tag, `"`), 200, 5, "hello", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
		{"star in a list", `respond.body=hello`, "GET", `"a", *`, 200, 5, "hello", "Content-Type: text/plain; charset=utf-8|ETag: " + tag},
	} {
		t.Run(row.name, func(t *testing.T) {
			respond := action.NewRespond(route(t, "path=/x,"+row.route).Respond)
			var fields []string
			if row.noneMatch != "" {
				fields = []string{"If-None-Match: " + row.noneMatch}
			}
			for range 2 {
				x := serve(respond, row.method, "/x", fields...)
				got := strings.Join(linesOf(x.Response.Fields), "|")
				if x.Response.Status != row.status || x.Response.ContentLength != row.length || got != row.fields {
					t.Errorf("got %d of %d with %s\nwant %d of %d with %s", x.Response.Status, x.Response.ContentLength, got, row.status, row.length, row.fields)
				}
				if got := body(t, x); got != row.body {
					t.Errorf("got body %q, want %q", got, row.body)
				}
			}
		})
	}
}

func TestRespondReadsEveryLineOfIfNoneMatch(t *testing.T) {
	respond := action.NewRespond(route(t, "path=/x,respond.body=hello").Respond)
	tag := string(serve(respond, "GET", "/x").Response.Fields.Get("ETag"))
	if x := serve(respond, "GET", "/x", `If-None-Match: "a"`, "if-none-match: "+tag); x.Response.Status != 304 {
		t.Errorf("got %d, want 304", x.Response.Status)
	}
}

// What a step behind it does to a response must not show in the next one.
func TestRespondIsNotSharedByAppending(t *testing.T) {
	respond := action.NewRespond(route(t, "path=/x,respond.body=hello,respond.headers.X-A=1").Respond)
	x := serve(respond, "GET", "/x")
	want := linesOf(slices.Clone(x.Response.Fields))
	for i := range x.Response.Fields {
		_ = append(x.Response.Fields[i].Value, "-changed"...)
	}
	x.Response.Fields.Set("X-A", []byte("2"))
	x.Response.Fields.Del("ETag")
	if got := linesOf(serve(respond, "GET", "/x").Response.Fields); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzIfNoneMatch(f *testing.F) {
	respond := action.NewRespond(route(f, "path=/x,respond.body=hello").Respond)
	tag := string(serve(respond, "GET", "/x").Response.Fields.Get("ETag"))
	for _, seed := range []string{"*", tag, `W/"a",` + tag, `"`, `W/`, `"a""b"`, ",,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		x := serve(respond, "GET", "/x", "If-None-Match: "+list)
		named := strings.Contains(list, tag) || strings.Trim(list, " \t") == "*"
		if x.Response.Status == 304 && !named {
			t.Errorf("%q is taken for %s", list, tag)
		}
	})
}

func BenchmarkRespond(b *testing.B) {
	respond := action.NewRespond(route(b, "path=/x,respond.body=hello,respond.headers.X-A=1").Respond)
	x := new(exchange.Exchange)
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(context.Background())
		x.Request.Method = "GET"
		respond.Serve(x)
	}
}
