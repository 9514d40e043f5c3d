package action_test

import (
	"bytes"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grapevine/gateway/action"
	"grapevine/gateway/exchange"
	"grapevine/gateway/routing"
	"grapevine/gateway/spec"
)

// apply gives target what a front would: path and query as parts of one target.
func apply(target *action.Target, raw string) (string, error) {
	whole := []byte(raw)
	path, query := whole, []byte(nil)
	if mark := bytes.IndexByte(whole, '?'); mark >= 0 {
		path, query = whole[:mark], whole[mark:]
	}
	got, err := target.Apply(path, query)
	if string(whole) != raw {
		panic(raw + " was changed to " + string(whole))
	}
	return string(got), err
}

func TestTargetApply(t *testing.T) {
	for name, row := range map[string]struct {
		route string
		want  map[string]string
	}{
		"nothing": {`path=/{**r}`, map[string]string{
			"/":                                 "/",
			"/?":                                "/?",
			"/a%2Fb%252F%3F%23%25;x=%3b/%41%7E": "/a%2Fb%252F%3F%23%25;x=%3b/%41%7E",
			"/a?x=%zz;&&y#":                     "/a?x=%zz;&&y#",
		}},
		"remove": {`path=/booking/{**r},pathRemovePrefix=/booking`, map[string]string{
			"/booking":                  "/",
			"/booking?a":                "/?a",
			"/booking/":                 "/",
			"/booking/x":                "/x",
			"/booking/x/":               "/x/",
			"/%62ooking/x%2Fy":          "/x%2Fy",
			"/booking/some/a%2Fb%20c":   "/some/a%2Fb%20c",
			"/booking/a%252Fb%3Fc?d=%2": "/a%252Fb%3Fc?d=%2",
			"/booking/%23;a=b/%25":      "/%23;a=b/%25",
		}},
		"remove a literal before escapes": {`path=/some/{**r},pathRemovePrefix=/some`, map[string]string{
			"/some/a%2Fb%20c": "/a%2Fb%20c",
		}},
		"remove a parameter": {`path=/{id}/events,pathRemovePrefix=/{id}/events`, map[string]string{
			"/1/events":     "/",
			"/2/events":     "/",
			"/2/events/":    "/",
			"/a%2Fb/events": "/",
		}},
		"remove and keep the rest": {`path=/{id}/events/{**r},pathRemovePrefix=/{id}`, map[string]string{
			"/1/events":       "/events",
			"/a%2Fb/events/x": "/events/x",
		}},
		"prefix": {`path=/{**r},pathPrefix=/api/v1`, map[string]string{
			"/":        "/api/v1/",
			"/x%2F?a;": "/api/v1/x%2F?a;",
		}},
		"remove and prefix": {`path=/booking/{**r},pathRemovePrefix=/booking,pathPrefix=/api`, map[string]string{
			"/booking":        "/api",
			"/booking?a=1":    "/api?a=1",
			"/booking/":       "/api/",
			"/booking/x":      "/api/x",
			"/booking/%2e%41": "/api/%2e%41",
		}},
		"a prefix that is none": {`path=/booking/{**r},pathRemovePrefix=/booking,pathPrefix=/`, map[string]string{
			"/booking":   "/",
			"/booking/x": "/x",
		}},
		"rewrite": {`path=/e/{**r},rewrite.regex=/e/(..)/(..),rewrite.to=/e/$1%2F$2`, map[string]string{
			"/e/aa/bb":     "/e/aa%2Fbb",
			"/e/aa/bb?c/d": "/e/aa%2Fbb?c/d",
			"/e/x":         "/e/x",
		}},
		"rewrite, encoded once": {`path=/e/{**r},rewrite.regex=^/e/([^/]*)/([^/]*)$,rewrite.to=/e/$1%2F$2`, map[string]string{
			"/e/a/b":           "/e/a%2Fb",
			"/e/a%2F/%252F":    "/e/a%2F%2F%252F",
			"/e/%3F%23/%25;x;": "/e/%3F%23%2F%25;x;",
		}},
		"rewrite every match": {`path=/{**r},rewrite.regex=/a,rewrite.to=/b$$`, map[string]string{
			"/a/a/ca": "/b$/b$/ca",
		}},
		"rewrite without a leading slash": {`path=/x/{**r},rewrite.regex=^/x/?(?P<rest>.*),rewrite.to=${rest}`, map[string]string{
			"/x":     "/",
			"/x/":    "/",
			"/x/a/b": "/a/b",
		}},
		"rewrite, whatever the spelling": {`path=/{**r},rewrite.regex=^/public/(.*),rewrite.to=/$1`, map[string]string{
			"/public/a":   "/a",
			"/%70ublic/a": "/a",
			"/%70ublic/%61%2fb%252F%252f%3f%23%25%3b;%7e%20|": "/%61%2fb%252F%252f%3f%23%25%3b;%7e%20|",
			"/public%2Fa":  "/public%2Fa",
			"/%2570ublic/": "/%2570ublic/",
			"/PUBLIC/a":    "/PUBLIC/a",
		}},
		"rewrite without regard to case": {`path=/public/{**r},caseInsensitive=on,rewrite.regex=^/public/(.*)|x,rewrite.to=/$1`, map[string]string{
			"/PUBLIC/a%2fb": "/a%2fb",
			"/%50ubli%63/a": "/a",
		}},
		"rewrite that finds nothing": {`path=/{**r},rewrite.regex=^/b,rewrite.to=/c`, map[string]string{
			"/%61%2f%7E|?x": "/%61%2f%7E|?x",
			"/B":            "/B",
		}},
		"rewrite an escape": {`path=/{**r},rewrite.regex=%2F,rewrite.to=-`, map[string]string{
			"/a%2fb%2Fc%252F": "/a-b-c%252F",
		}},
		"rewrite within a segment": {`path=/{**r},rewrite.regex=_,rewrite.to=-`, map[string]string{
			"/a_b/_":  "/a-b/-",
			"/a/b%2F": "/a/b%2F",
		}},
		"rewrite a first slash": {`path=/{**r},rewrite.regex=/old,rewrite.to=new`, map[string]string{
			"/old":     "/new",
			"/x/old/y": "/xnew/y",
		}},
		"rewrite to nothing": {`path=/x/{**r},rewrite.regex=^/x`, map[string]string{
			"/x": "/", "/x?a": "/?a", "/x/y": "/y", "/xy": "/y",
		}},
		"rewrite to empty segments": {`path=/x/{**r},rewrite.regex=^/x,rewrite.to=//y//`, map[string]string{
			"/x":            "/y/",
			"/x/%41%2f%20b": "/y/A%2F%20b",
		}},
		"rewrite what the route refuses to clients": {`path=/{**r},rewrite.regex=^/x/,rewrite.to=/x%2F,pathPolicy.refuse=encodedSlash`, map[string]string{
			"/x/y": "/x%2Fy",
		}},
		"query": {`path=/{**r},transforms.query.set.a=1,transforms.query.set.b="x y&é",transforms.query.remove=[c,d e]`, map[string]string{
			"/":                        "/?a=1&b=x+y%26%C3%A9",
			"/?":                       "/?a=1&b=x+y%26%C3%A9",
			"/?z=%20+&a=2&y&a=3":       "/?z=%20+&a=1&y&b=x+y%26%C3%A9",
			"/?%61=0&%62&c=1&C=2":      "/?a=1&b=x+y%26%C3%A9&C=2",
			"/?d+e=1&d%20e=2&&x=?&ca":  "/?x=?&ca&a=1&b=x+y%26%C3%A9",
			"/%2F?x=%2f%7E%41&&y=\xc3": "/%2F?x=%2f%7E%41&y=\xc3&a=1&b=x+y%26%C3%A9",
		}},
		"query, remove alone": {`path=/{**r},transforms.query.remove=[a]`, map[string]string{
			"/?a=1":      "/",
			"/?b&&c=%41": "/?b&&c=%41",
			"/?":         "/?",
			"/?b&a&c":    "/?b&c",
		}},
		"query, removed and set": {`path=/{**r},transforms.query.remove=[a],transforms.query.set.a=2`, map[string]string{
			"/?a=1&b=1": "/?b=1&a=2",
		}},
		"everything": {`path=/x/{**r},rewrite.regex=^/x,rewrite.to=/y,transforms.query.set.a=1`, map[string]string{
			"/x/a%2Fb?b=2": "/y/a%2Fb?b=2&a=1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			target := action.NewTarget(route(t, row.route))
			for raw, want := range row.want {
				if got, err := apply(target, raw); err != nil || got != want {
					t.Errorf("%s: got %q, %v, want %q", raw, got, err, want)
				}
			}
		})
	}
}

func TestTargetApplyRefuses(t *testing.T) {
	for _, row := range []struct{ route, raw, want string }{
		{`path=/e/{**r},rewrite.regex=^/e/(..)(.*),rewrite.to=/e/$1/$2`, "/e/..a", `path "/e/../a": the rewrite makes a dot segment`},
		{`path=/e/{**r},rewrite.regex=^/e/(.)x(.*),rewrite.to=/e/$1$2`, "/e/.x./a", `path "/e/../a": the rewrite makes a dot segment`},
		{`path=/e/{**r},rewrite.regex=^/e/(.*)x,rewrite.to=/$1`, "/e/%2ex", `path "/%2e": the rewrite makes a dot segment`},
		{`path=/e/{**r},rewrite.regex=^/e/(..)(.*),rewrite.to=/e/$1%2F$2`, "/e/..a", `path "/e/..%2Fa": a segment would be a dot segment to servers that decode %2F`},
		{`path=/e/{**r},rewrite.regex=^/e/(..)(.*),rewrite.to=/$1`, "/e/%20", `path "/%2": %2 is no escape`},
		{`path=/e/{**r},rewrite.regex=2525,rewrite.to=/`, "/e/%2525", `path "/e/%/": %/ is no escape`},
		{`path=/e/{**r},rewrite.regex=^/e/%(..)(..),rewrite.to=/%5c$2`, "/e/%25ab", `path "/%5cab": backslash, which some servers take for "/"`},
		{`path=/{**r},rewrite.regex=.,rewrite.to=/$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0`, "/" + strings.Repeat("a", 4095), `path "/` + strings.Repeat("a", 4095) + `": the rewrite makes it longer than 65536 bytes`},
		{`path=/{**r},transforms.query.remove=[a]`, "/?b=%z", `query: "%z" is no escape`},
		{`path=/{**r},transforms.query.set.a=1`, "/?b=1;a=2", `query: raw ';'`},
	} {
		got, err := apply(action.NewTarget(route(t, row.route)), row.raw)
		if err == nil || err.Error() != row.want || got != "" {
			t.Errorf("%s: %.40s: got %q, %v, want %s", row.route, row.raw, got, err, row.want)
			continue
		}
		var badPath *routing.PathError
		var badQuery *exchange.QueryError
		if !errors.As(err, &badPath) && !errors.As(err, &badQuery) {
			t.Errorf("%s: %T", row.raw, err)
		}
	}
}

// A rewrite is regexp.ReplaceAll, wherever that gives a plain path.
func TestRewriteIsReplaceAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		regex := rapid.SampledFrom([]string{`/a`, `a*`, `^`, `$`, `(a)(b)?`, `/(.)(.*)`, `\b`, `b|c`, `(?P<n>[bc]+)`}).Draw(rt, "regex")
		to := rapid.SampledFrom([]string{`/x`, `$0`, `${0}y$0`, `/$$0`, `$0/z`}).Draw(rt, "to")
		path := rapid.StringMatching(`(/[abc]{1,4}){1,4}`).Draw(rt, "path")
		target := action.NewTarget(&spec.Route{Path: "/{**r}", Rewrite: &spec.Rewrite{Regex: spec.Regex(regex), To: to}})
		want := "/" + strings.TrimLeft(regexp.MustCompile(regex).ReplaceAllString(path, to), "/")
		want = regexp.MustCompile("/+").ReplaceAllString(want, "/")
		if got, err := apply(target, path); err != nil || got != want {
			rt.Errorf("%s by %s to %s: got %q, %v, want %q", path, regex, to, got, err, want)
		}
	})
}

// Parameters that are neither removed nor set keep their bytes and their order,
// and the others are what net/url reads then.
func TestQueryChangesLeaveTheRestAlone(t *testing.T) {
	pieces := rapid.SliceOfN(rapid.StringMatching(`(a|b|c|%61|%62|A|a\+|%41)?(=(x|%20|\+|=|%2B|\?){0,2})?`), 0, 6)
	rapid.Check(t, func(rt *rapid.T) {
		raw := strings.Join(pieces.Draw(rt, "query"), "&")
		changes := &spec.QueryChanges{
			Set:    rapid.MapOfN(rapid.SampledFrom([]string{"a", "c", "d e"}), rapid.SampledFrom([]string{"", "1", "&=+ é"}), 0, 3).Draw(rt, "set"),
			Remove: rapid.SliceOfN(rapid.SampledFrom([]string{"b", "a", "A", "x"}), 0, 2).Draw(rt, "remove"),
		}
		got, err := apply(action.NewTarget(&spec.Route{Changes: &spec.Transforms{Query: changes}}), "/?"+raw)
		if err != nil {
			rt.Fatal(err)
		}
		_, query, _ := strings.Cut(got, "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			rt.Fatalf("%s: %v", query, err)
		}
		for name, value := range changes.Set {
			if !slices.Equal(values[name], []string{value}) {
				rt.Errorf("%s to %s: %s is %q, not %q", raw, query, name, values[name], value)
			}
		}
		for _, name := range changes.Remove {
			if _, set := changes.Set[name]; !set && len(values[name]) > 0 {
				rt.Errorf("%s to %s: %s is still there", raw, query, name)
			}
		}
		if left, want := untouched(query, changes), untouched(raw, changes); !slices.Equal(left, want) {
			rt.Errorf("%s to %s: left %q, want %q", raw, query, left, want)
		}
	})
}

func untouched(query string, changes *spec.QueryChanges) (pieces []string) {
	for piece := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(piece, "=")
		name, _ = url.QueryUnescape(name)
		if _, set := changes.Set[name]; !set && piece != "" && !slices.Contains(changes.Remove, name) {
			pieces = append(pieces, piece)
		}
	}
	return pieces
}

// Whatever a route does to a path that a front may have, what comes out is one
// that a server reads as it stands.
func FuzzTargetApply(f *testing.F) {
	f.Add("/e/a%2Fb/c;d?x=1&y=%20", `/e/(..)(.*)`, `/$2%2F$1`, "", uint8(0))
	f.Add("/e/..a?a", `(\.+)`, `/$1/`, "", uint8(1))
	f.Add("/e/%252e%25", `%25`, `$0`, "", uint8(0))
	f.Add("/e/%252e/x", `%2(.)`, `$1`, "/p/q", uint8(3))
	f.Add("/e", `^/e`, ``, "/p", uint8(2))
	f.Fuzz(func(t *testing.T, raw, regex, to, prefix string, remove uint8) {
		path, query, marked := strings.Cut(raw, "?")
		canonical, err := routing.Canonical([]byte(path))
		if err != nil || (routing.Policy{}).Check([]byte(path), canonical.Marks) != nil || strings.Contains(path, " ") {
			return
		}
		if canonical.Restructured {
			path = string(canonical.Canonical)
		}
		if marked {
			query = "?" + query
		}
		r := &spec.Route{
			Path: "/{a}/{b}/{c}/{**r}", Cluster: "c", PathPrefix: spec.Prefix(prefix),
			PathRemovePrefix: []spec.Path{"", "/{a}", "/{a}/{b}", "/{a}/{b}/{c}"}[remove%4],
			Changes:          &spec.Transforms{Query: &spec.QueryChanges{Set: map[string]string{"set": to}}},
		}
		if regex != "" {
			r.PathPrefix, r.PathRemovePrefix, r.Rewrite = "", "", &spec.Rewrite{Regex: spec.Regex(regex), To: to}
		}
		decoded, err := spec.Decode("gateway/routes/r", spec.Encode(r), spec.FormJSON)
		if err != nil {
			return
		}
		got, err := action.NewTarget(decoded.Value.(*spec.Route)).Apply([]byte(path), []byte(query))
		if err != nil {
			return
		}
		checkTarget(t, raw, string(got))
	})
}

func checkTarget(t *testing.T, raw, target string) {
	t.Helper()
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		t.Errorf("%q becomes %q, which does not begin with one slash", raw, target)
	}
	if i := strings.IndexFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }); i >= 0 {
		t.Errorf("%q becomes %q, with %q", raw, target, target[i])
	}
	path, _, _ := strings.Cut(target, "?")
	for segment := range strings.SplitSeq(path, "/") {
		decoded, err := url.PathUnescape(segment)
		if err != nil || decoded == "." || decoded == ".." {
			t.Errorf("%q becomes %q, with segment %q, %v", raw, target, segment, err)
		}
	}
}

func BenchmarkTargetApply(b *testing.B) {
	for name, shorthand := range map[string]string{
		"nothing": `path=/{**r}`,
		"remove":  `path=/booking/{**r},pathRemovePrefix=/booking`,
		"prefix":  `path=/booking/{**r},pathRemovePrefix=/booking,pathPrefix=/api`,
		"rewrite": `path=/booking/{**r},rewrite.regex=^/booking/(.*)$,rewrite.to=/api/$1`,
		"missed":  `path=/booking/{**r},rewrite.regex=^/orders/(.*)$,rewrite.to=/api/$1`,
		"query":   `path=/booking/{**r},transforms.query.set.tenant=acme,transforms.query.remove=debug`,
		"kept":    `path=/booking/{**r},transforms.query.remove=debug`,
	} {
		target := action.NewTarget(route(b, shorthand))
		whole := []byte("/booking/items/12345?view=full&lang=en")
		path, query := whole[:20], whole[20:]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := target.Apply(path, query); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestTargetThatChangesNothingAllocatesNothing(t *testing.T) {
	whole := []byte("/booking/items/12345?view=full&lang=en")
	for _, shorthand := range []string{
		`path=/{**r}`, `path=/booking/{**r},pathRemovePrefix=/booking`, `path=/{**r},transforms.query.remove=debug`,
	} {
		target := action.NewTarget(route(t, shorthand))
		if n := testing.AllocsPerRun(100, func() { _, _ = target.Apply(whole[:20], whole[20:]) }); n > 0 {
			t.Errorf("%s: %v allocations", shorthand, n)
		}
	}
}
