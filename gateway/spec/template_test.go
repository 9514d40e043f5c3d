package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"grapevine/gateway/spec"
)

func template(t *testing.T, s string) spec.Template {
	t.Helper()
	parsed, err := spec.ParseTemplate(s)
	if err != nil {
		t.Fatalf("ParseTemplate(%q): %v", s, err)
	}
	return parsed
}

func TestParseTemplate(t *testing.T) {
	for _, row := range []struct {
		text, canonical string
		segments        []spec.Segment
	}{
		{"/", "/", nil},
		{"/booking", "/booking", []spec.Segment{{Kind: spec.Literal, Text: "booking"}}},
		{"/booking/", "/booking", []spec.Segment{{Kind: spec.Literal, Text: "booking"}}},
		{"/{**catch-all}", "/{**catch-all}", []spec.Segment{{Kind: spec.CatchAll, Text: "catch-all"}}},
		{"/{*rest}", "/{**rest}", []spec.Segment{{Kind: spec.CatchAll, Text: "rest"}}},
		{"/a/{id}/b/{**r}", "/a/{id}/b/{**r}", []spec.Segment{
			{Kind: spec.Literal, Text: "a"}, {Kind: spec.Parameter, Text: "id"}, {Kind: spec.Literal, Text: "b"}, {Kind: spec.CatchAll, Text: "r"},
		}},
		{"/%41%2d%7e", "/A-~", []spec.Segment{{Kind: spec.Literal, Text: "A-~"}}},
		{"/a%2fb%2B+", "/a%2Fb%2B+", []spec.Segment{{Kind: spec.Literal, Text: "a%2Fb%2B+"}}},
		{"/café menu|x", "/caf%C3%A9%20menu%7Cx", []spec.Segment{{Kind: spec.Literal, Text: "caf%C3%A9%20menu%7Cx"}}},
		{"/a;b=c,d:@!$&'()*", "/a;b=c,d:@!$&'()*", []spec.Segment{{Kind: spec.Literal, Text: "a;b=c,d:@!$&'()*"}}},
		{"/.well-known/...", "/.well-known/...", []spec.Segment{{Kind: spec.Literal, Text: ".well-known"}, {Kind: spec.Literal, Text: "..."}}},
	} {
		got := template(t, row.text)
		if diff := cmp.Diff(row.segments, got.Segments); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.text, diff)
		}
		if got.String() != row.canonical {
			t.Errorf("%s: canonical form %s, want %s", row.text, got, row.canonical)
		}
	}
}

func TestParseTemplateIsBounded(t *testing.T) {
	for text, want := range map[string]string{
		"/" + strings.Repeat("a", 3000):      "is longer than 2048 characters",
		"/" + strings.Repeat("é", 400):       "is longer than 2048 characters",
		strings.Repeat("/a", 65):             "has more than 64 segments",
		"/{" + strings.Repeat("a", 65) + "}": "letters, digits, _ and -",
	} {
		if _, err := spec.ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s…: got %v, want %q", text, err, want)
		}
	}
}

func TestTemplateHasPrefix(t *testing.T) {
	for _, row := range []struct {
		path, prefix string
		want         bool
	}{
		{"/booking/{**r}", "/booking", true},
		{"/booking/{**r}", "/", true},
		{"/booking", "/booking", true},
		{"/booking/a/b", "/booking/a", true},
		{"/booking/{**r}", "/book", false},
		{"/booking", "/booking/a", false},
		{"/{id}/events", "/{id}", true},
		{"/{id}/events", "/{tenant}", true},
		{"/{id}/events", "/a", false},
		{"/a/events", "/{id}", false},
		{"/a/{**r}", "/a/{**r}", false},
		{"/A/b", "/%41", true},
	} {
		if got := template(t, row.path).HasPrefix(template(t, row.prefix)); got != row.want {
			t.Errorf("%s has prefix %s: %v, want %v", row.path, row.prefix, got, row.want)
		}
	}
}

func TestTemplateCounts(t *testing.T) {
	got := template(t, "/a/{b}/c/{d}/{**e}")
	if got.Literals() != 2 || got.Parameters() != 2 || !got.CatchAll() {
		t.Errorf("%d literals, %d parameters, catch-all %v", got.Literals(), got.Parameters(), got.CatchAll())
	}
}

func FuzzParseTemplate(f *testing.F) {
	for _, seed := range []string{"/", "/a/{b}/{**c}", "/{*c}", "/%41%2F/é", "//", "/..", "/{", "/a%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := spec.ParseTemplate(text)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q is refused without a word", text)
			}
			return
		}
		again, err := spec.ParseTemplate(parsed.String())
		if err != nil || !cmp.Equal(parsed, again) {
			t.Errorf("%q becomes %q, which becomes %v, %v", text, parsed, again, err)
		}
	})
}
