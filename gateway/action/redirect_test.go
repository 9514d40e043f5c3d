package action_test

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"testing"

	"grapevine/gateway/action"
	"grapevine/gateway/exchange"
	"grapevine/gateway/routing"
)

func TestRedirectLocation(t *testing.T) {
	for _, row := range []struct{ route, target, want string }{
		{`path=/x,redirect.to=/y`, "/x", "/y"},
		{`path=/x,redirect.to=/y`, "/x/", "/y"},
		{`path=/x,redirect.to=/y`, "/x?a=1&b=%2f;+", "/y?a=1&b=%2f;+"},
		{`path=/x,redirect.to=/y`, "/x?", "/y?"},
		{`path=/x,redirect.to=/y?`, "/x?a=1", "/y"},
		{`path=/x,redirect.to=/y?b=2`, "/x?a=1", "/y?b=2"},
		{`path=/x,redirect.to=/y#z`, "/x?a=1", "/y?a=1#z"},
		{`path=/x,redirect.to=/y?b#z`, "/x?a=1", "/y?b#z"},
		{`path=/{**rest},redirect.to=https://www.example.com/{rest}`, "/", "https://www.example.com/"},
		{`path=/{**rest},redirect.to=https://www.example.com/{rest}`, "/a%2Fb/%41/?x=%41", "https://www.example.com/a%2Fb/%41/?x=%41"},
		{`path=/{**rest},redirect.to=https://www.example.com`, "/a?b", "https://www.example.com?b"},
		{`path=/old/{**rest},redirect.to=/new/{rest}`, "/old", "/new/"},
		{`path=/old/{**rest},redirect.to=/new/{rest}`, "/old/", "/new/"},
		{`path=/old/{**rest},redirect.to=/new/{rest}`, "/old/a/b%3Fc%23/", "/new/a/b%3Fc%23/"},
		{`path=/u/{id}/p/{page},redirect.to=/{page}-of-{id}.html`, "/u/a%2F..;b/p/%252F/", "/%252F-of-a%2F..;b.html"},
		{`path=/u/{id}/{**rest},redirect.to=/{id}{id}?`, "/u/1/2/3", "/11"},
		{`path=/x,redirect.to=/y`, "/x?a=\xc3\xa9<\">[]^|`{}", "/y?a=%C3%A9%3C%22%3E[]%5E%7C%60%7B%7D"},
		{`path=/x,redirect.to=/y`, "/x?a=1\r\nSet-Cookie: a=b", "/y?a=1%0D%0ASet-Cookie:%20a=b"},
		{`path=/{**rest},redirect.to=/new/{rest}`, "/a\r\nb", "/new/a%0D%0Ab"},
	} {
		x := serve(action.NewRedirect(route(t, row.route)), "GET", row.target)
		if got := string(x.Response.Fields.Get("Location")); got != row.want {
			t.Errorf("%s: %s: got %s, want %s", row.route, row.target, got, row.want)
		}
	}
}

// A redirect without a host stays on the client's, whatever the client sent.
func TestRedirectStaysOnItsHost(t *testing.T) {
	for _, shorthand := range []string{
		`path=/{**rest},redirect.to=/{rest}`,
		`path=/{**rest},redirect.to=/{rest}/x`,
		`path=/{a}/{**rest},redirect.to=/{rest}/{a}`,
		`path=/{a}/{**rest},redirect.to=/{rest}/{rest}/{a}`,
	} {
		redirect := action.NewRedirect(route(t, shorthand))
		for _, target := range []string{
			"/", "//evil.com", "/%2Fevil.com", "/%2F%2Fevil.com", "/%5Cevil.com", `/\evil.com`, `/\/evil.com`, `/a/\evil.com`, "/a//evil.com", "/evil.com/", "/evil.com//", "/a/",
			"/%09/evil.com", "/\t/evil.com", "/%0d%0a/evil.com", "/\r\n/evil.com", "/@evil.com", "/a/%2Fevil.com", "/a/%5Cevil.com", "/;/evil.com", "/https://evil.com", "///evil.com", "/ /evil.com",
		} {
			checkLocation(t, redirect, target)
		}
	}
}

func checkLocation(t *testing.T, redirect *action.Redirect, target string) {
	t.Helper()
	location := string(serve(redirect, "GET", target).Response.Fields.Get("Location"))
	if !strings.HasPrefix(location, "/") || strings.HasPrefix(location, "//") || strings.HasPrefix(location, `/\`) {
		t.Errorf("%q leads to %q", target, location)
	}
	if i := strings.IndexFunc(location, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }); i >= 0 {
		t.Errorf("%q leads to %q, with %q", target, location, location[i])
	}
	base, _ := url.Parse("https://good.example/x/y")
	to, err := base.Parse(location)
	if err != nil || to.Host != "good.example" || to.Scheme != "https" {
		t.Errorf("%q leads to %q, which is %v, %v", target, location, to, err)
	}
}

func FuzzRedirect(f *testing.F) {
	for _, seed := range []string{"//evil.com", `/\evil.com`, "/%5cevil.com?a=//b", "/a/\r\nb"} {
		f.Add(seed)
	}
	redirect := action.NewRedirect(route(f, `path=/{a}/{**rest},redirect.to=/{rest}/{a}{rest}`))
	f.Fuzz(func(t *testing.T, target string) {
		path, _, _ := strings.Cut(target, "?")
		if _, err := routing.Canonical([]byte(path)); err == nil {
			checkLocation(t, redirect, target)
		}
	})
}

func TestRedirectResponse(t *testing.T) {
	redirect := action.NewRedirect(route(t, `path=/x,redirect.to=/y`))
	x := serve(redirect, "GET", "/x")
	if got := body(t, x); x.Response.Status != 308 || got != "See /y\n" || x.Response.ContentLength != int64(len(got)) {
		t.Errorf("got %+v %q", x.Response, got)
	}
	if x := serve(redirect, "HEAD", "/x"); x.Response.Body != nil || x.Response.ContentLength != 7 {
		t.Errorf("HEAD got %+v", x.Response)
	}
	if x := serve(action.NewRedirect(route(t, `path=/x,redirect.to=/y,redirect.status=302`)), "POST", "/x"); x.Response.Status != 302 {
		t.Errorf("got %d, want 302", x.Response.Status)
	}
}

func BenchmarkRedirect(b *testing.B) {
	redirect := action.NewRedirect(route(b, `path=/old/{**rest},redirect.to=https://www.example.com/new/{rest}`))
	x := new(exchange.Exchange)
	target := bytes.Clone([]byte("/old/items/12345?view=full"))
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(context.Background())
		x.Request.Method, x.Request.Target = "GET", target
		redirect.Serve(x)
	}
}
