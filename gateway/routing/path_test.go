package routing

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grapevine/gateway/spec"
)

func TestCanonical(t *testing.T) {
	for _, tt := range []struct {
		raw, want    string
		restructured bool
	}{
		{"/", "/", false},
		{"/a/b", "/a/b", false},
		{"/a/b/", "/a/b/", false},
		{"/%61dmin", "/admin", false},
		{"/a%7Eb%2d", "/a~b-", false},
		{"/a%2fb%20c", "/a%2Fb%20c", false},
		{"/a%252Fb", "/a%252Fb", false},
		{"/a%3fb%23c%25", "/a%3Fb%23c%25", false},
		{"/a;v=1/b", "/a;v=1/b", false},
		{"/caf\xc3\xa9", "/caf%C3%A9", false},
		{"/{x}", "/%7Bx%7D", false},
		{"//admin", "/admin", true},
		{"/a//b", "/a/b", true},
		{"/a//", "/a/", true},
		{"//", "/", true},
		{"/x/../admin", "/admin", true},
		{"/x/%2e%2E/admin", "/admin", true},
		{"/./a", "/a", true},
		{"/a/.", "/a/", true},
		{"/a/b/..", "/a/", true},
		{"/a/..", "/", true},
		{"/.hidden", "/.hidden", false},
		{"/...", "/...", false},
	} {
		got, err := Canonical([]byte(tt.raw))
		if err != nil || string(got.Canonical) != tt.want || got.Restructured != tt.restructured {
			t.Errorf("Canonical(%q) = %q, restructured %v, %v; want %q, %v", tt.raw, got.Canonical, got.Restructured, err, tt.want, tt.restructured)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, raw := range []string{"", "a", "/a\x00", "/a\x7f", "/a%", "/a%2", "/a%zz", "/a#b", "/a\r\n"} {
		if got, err := Canonical([]byte(raw)); err == nil {
			t.Errorf("Canonical(%q) = %q; want it refused", raw, got.Canonical)
		}
	}
}

// What is marked, what the default refuses of it, and what the path becomes for
// a route that allows it.
func TestMarks(t *testing.T) {
	for _, tt := range []struct {
		raw     string
		marks   Marks
		allow   string // the word that lets it through; empty when nothing has to
		allowed string // its canonical form then
	}{
		{"/..", Climb | DotSegment, "climb", "/"},
		{"/a/../../b", Climb | DotSegment, "climb", "/b"},
		{"/%2e%2e/etc", Climb | DotSegment, "climb", "/etc"},
		{`/a\b`, Backslash, "backslash", "/a%5Cb"},
		{"/a%5cb", Backslash, "backslash", "/a%5Cb"},
		{"/a%00", Control, "control", "/a%00"},
		{"/a%0d%0a", Control, "control", "/a%0D%0A"},
		{"/a%7f", Control, "control", "/a%7F"},
		{"/x/..;/admin", DotParameter | Semicolon, "pathParameter", "/x/..;/admin"},
		{"/x/.;a", DotParameter | Semicolon, "pathParameter", "/x/.;a"},
		{"/x/..%3b/admin", DotParameter | EncodedSemicolon, "pathParameter", "/x/..%3B/admin"},
		{"/x/%2e%2e;/a", DotParameter | Semicolon, "pathParameter", "/x/..;/a"},
		{"/x/..%2fadmin", SlashDots | EncodedSlash, "encodedSlash", "/x/..%2Fadmin"},
		{"/x%2f..%2fadmin", SlashDots | EncodedSlash, "encodedSlash", "/x%2F..%2Fadmin"},
		{"/.%2f", SlashDots | EncodedSlash, "encodedSlash", "/.%2F"},
		{"/a%2fb", EncodedSlash, "", "/a%2Fb"},
		{"/a%252fb", EncodedPercent, "", "/a%252fb"},
		{"/a%3f%23", EncodedQuestionMark | EncodedHash, "", "/a%3F%23"},
		{"/a;b/c%3B", Semicolon | EncodedSemicolon, "", "/a;b/c%3B"},
		{"//a", EmptySegment, "", "/a"},
		{"/./a", DotSegment, "", "/a"},
		{"/a/", 0, "", "/a/"},
		{"/a%3ab", EncodedDelimiter, "", "/a%3Ab"},
	} {
		path, err := Canonical([]byte(tt.raw))
		if err != nil || path.Marks != tt.marks || string(path.Canonical) != tt.allowed {
			t.Errorf("Canonical(%q) = %q, marks %b, %v; want %q, %b", tt.raw, path.Canonical, path.Marks, err, tt.allowed, tt.marks)
		}
		if err := (Policy{}).Check([]byte(tt.raw), path.Marks); (err != nil) != (tt.allow != "") {
			t.Errorf("%q by default: %v", tt.raw, err)
		}
		if tt.allow == "" {
			continue
		}
		if err := NewPolicy(&spec.Route{PathPolicy: &spec.PathPolicy{Allow: []string{tt.allow}}}).Check([]byte(tt.raw), path.Marks); err != nil {
			t.Errorf("%q with %s allowed: %v", tt.raw, tt.allow, err)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	for word, raw := range map[string]string{
		"encodedSlash": "/a%2Fb", "encodedPercent": "/a%25", "encodedQuestionMark": "/a%3F", "encodedHash": "/a%23",
		"encodedSemicolon": "/a%3B", "semicolon": "/a;b", "emptySegment": "/a//b", "dotSegment": "/a/./b",
	} {
		policy := NewPolicy(&spec.Route{PathPolicy: &spec.PathPolicy{Refuse: []string{word}}})
		path, err := Canonical([]byte(raw))
		if err != nil || (Policy{}).Check([]byte(raw), path.Marks) != nil {
			t.Errorf("%q is refused by default", raw)
		}
		if policy.Check([]byte(raw), path.Marks) == nil {
			t.Errorf("%q is taken where %s is refused", raw, word)
		}
		plain, _ := Canonical([]byte("/a"))
		if err := policy.Check([]byte("/a"), plain.Marks); err != nil {
			t.Errorf("/a where %s is refused: %v", word, err)
		}
	}
}

func TestLenient(t *testing.T) {
	for _, tt := range []struct {
		raw, allow string
		want       []string
	}{
		{"/a/b", "", nil},
		{"/admin%2fx", "", []string{"/admin/x"}},
		{"/%2fadmin", "", []string{"/admin"}},
		{"/admin;x=1/y", "", []string{"/admin/y"}},
		{"/admin%3bx/y", "", []string{"/admin/y"}},
		{"/;x/admin", "", []string{"/admin"}},
		{"/a;b%2fc", "", []string{"/a;b/c", "/a/c", "/a"}},
		{"/%2f;%2fx/admin/x", "", []string{"/;/x/admin/x", "/x/admin/x", "/%2F/admin/x", "/admin/x"}},
		{"/;/x/%3bz", "", []string{"/x/%3Bz", "/x/"}},
		{"/x%3by%2fb;%2fc", "", []string{
			"/x%3By/b;/c", "/x%3By/b/c", "/x/b/c", "/x%3By%2Fb", "/x%3By/b", "/x/b", "/x",
		}},
		{"/things%3adelete", "", []string{"/things:delete"}},
		{"/%40admin%2fx", "", []string{"/%40admin/x", "/@admin%2Fx", "/@admin/x"}},
		{"/%40admin", "encodedDelimiter", nil},
		{"/a;b%2fc", "encodedSlash", []string{"/a"}},
		{"/a;b%2fc", "pathParameter", []string{"/a;b/c"}},
	} {
		path, err := Canonical([]byte(tt.raw))
		if err != nil {
			t.Fatal(err)
		}
		var policy Policy
		if tt.allow != "" {
			policy = NewPolicy(&spec.Route{PathPolicy: &spec.PathPolicy{Allow: []string{tt.allow}}})
		}
		var got []string
		for seen := range policy.Lenient(path) {
			if !slices.Contains(got, string(seen)) {
				got = append(got, string(seen))
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q is seen as %q; want %q", tt.raw, got, tt.want)
		}
	}
}

// What a server makes of a path is tried, whatever it does first.
func TestLenientTriesEveryOrder(t *testing.T) {
	slashes, parameter, anyParameter := regexp.MustCompile("/+"), regexp.MustCompile(";[^/]*"), regexp.MustCompile("(;|%3B)[^/]*")
	steps := map[string]func(path string) string{
		"decode slashes":       func(path string) string { return strings.ReplaceAll(path, "%2F", "/") },
		"decode delimiters":    func(path string) string { return strings.ReplaceAll(path, "%3A", ":") },
		"merge slashes":        func(path string) string { return slashes.ReplaceAllString(path, "/") },
		"cut, then decode %3B": func(path string) string { return parameter.ReplaceAllString(path, "") },
		"decode %3B, then cut": func(path string) string { return anyParameter.ReplaceAllString(path, "") },
	}
	names := slices.Sorted(maps.Keys(steps))
	rapid.Check(t, func(t *rapid.T) {
		raw := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"/", "%2F", ";", "%3B", "%3A", "a", "b"}), 1, 12).Draw(t, "pieces"), "")
		order := rapid.SliceOfN(rapid.SampledFrom(names), 1, 6).Draw(t, "order")
		path, err := Canonical([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		want := raw
		for _, name := range append(order, "merge slashes") {
			want = steps[name](want)
		}
		tried := []string{string(path.Canonical)}
		for seen := range (Policy{}).Lenient(path) {
			tried = append(tried, string(seen))
		}
		if !slices.Contains(tried, want) {
			t.Fatalf("%q is %q to servers that %q; tried are %q", raw, want, order, tried)
		}
	})
}

// FuzzCanonical holds what everything above relies on: the canonical form is a
// fixed point, has no dot or empty segment, and keeps the number of segments
// unless it says that it does not.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{"/", "//admin", "/%61dmin", "/x/../admin", "/admin%2fx", "/x/..;/admin", "/a%zz", "/\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sent := bytes.Clone(raw)
		path, err := Canonical(raw)
		if !bytes.Equal(sent, raw) {
			t.Fatalf("Canonical changed its input %q to %q", sent, raw)
		}
		if err != nil {
			return
		}
		again, err := Canonical(path.Canonical)
		if err != nil || again.Restructured || !bytes.Equal(again.Canonical, path.Canonical) {
			t.Fatalf("%q: canonical %q is no fixed point: %q, %v, %v", raw, path.Canonical, again.Canonical, again.Restructured, err)
		}
		if !path.Restructured && bytes.Count(raw, []byte("/")) != bytes.Count(path.Canonical, []byte("/")) {
			t.Fatalf("%q: %q has another number of segments", raw, path.Canonical)
		}
		for _, segment := range bytes.Split(path.Canonical, []byte("/"))[1:] {
			if s := string(segment); s == "." || s == ".." {
				t.Fatalf("%q: %q has a dot segment", raw, path.Canonical)
			}
		}
		if bytes.Contains(path.Canonical, []byte("//")) {
			t.Fatalf("%q: %q has an empty segment", raw, path.Canonical)
		}
		if offsets := Offsets(raw); !path.Restructured {
			if len(offsets) != len(path.Canonical)+1 || !slices.IsSorted(offsets) || offsets[len(path.Canonical)] != len(raw) {
				t.Fatalf("%q: offsets %v of %q", raw, offsets, path.Canonical)
			}
			for i, c := range path.Canonical {
				if (c == '/') != (raw[offsets[i]] == '/') {
					t.Fatalf("%q: offsets %v of %q", raw, offsets, path.Canonical)
				}
			}
		}
		for seen := range (Policy{}).Lenient(path) {
			if len(seen) == 0 || seen[0] != '/' {
				t.Fatalf("%q is seen as %q", raw, seen)
			}
		}
	})
}
