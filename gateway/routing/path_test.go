package routing

import (
	"bytes"
	"testing"
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
	for _, raw := range []string{
		"", "a", "/..", "/a/../..", "/%2e%2e/etc", `/a\b`, "/a%5cb", "/a%5Cb", "/%00", "/a\x00", "/a%0d%0a", "/a\x7f",
		"/a%", "/a%2", "/a%zz", "/x/..;/admin", "/x/.;a", "/x/..%2fadmin", "/x%2f..%2fadmin", "/%2e%2f", "/a#b",
	} {
		if got, err := Canonical([]byte(raw)); err == nil {
			t.Errorf("Canonical(%q) = %q; want it refused", raw, got.Canonical)
		}
	}
}

func TestCutSegments(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		n    int
		want string
	}{
		{"/booking/health", 1, "/health"},
		{"/booking", 1, "/"},
		{"/booking/", 1, "/"},
		{"/some/a%2Fb%20c", 1, "/a%2Fb%20c"},
		{"/a/b/c/", 2, "/c/"},
		{"/a", 0, "/a"},
	} {
		if got := CutSegments([]byte(tt.raw), tt.n); string(got) != tt.want {
			t.Errorf("CutSegments(%q, %d) = %q; want %q", tt.raw, tt.n, got, tt.want)
		}
	}
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
	})
}
