package kv

import (
	"errors"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	for _, good := range []string{
		"a", "gateway/routes/booking", "a.b_c~d:e@f+g=h-i/J/9", "...", "a/...", strings.Repeat("a", 512), strings.Repeat("a/", 15) + "a",
	} {
		if key, err := ParseKey(good); err != nil || string(key) != good {
			t.Errorf("ParseKey(%q) = %q, %v", good, key, err)
		}
	}
	for bad, problem := range map[string]string{
		"":                             "is empty",
		"/":                            "empty segment",
		"/a":                           "empty segment",
		"a/":                           "empty segment",
		"a//b":                         "empty segment",
		"a/./b":                        `segment "."`,
		"a/../b":                       `segment ".."`,
		"..":                           `segment ".."`,
		"a b":                          `byte 2 is " "`,
		"a%2e":                         `byte 2 is "%"`,
		"a\x00b":                       `byte 2 is "\x00"`,
		"a\nb":                         `byte 2 is "\n"`,
		"a\\b":                         `byte 2 is "\\"`,
		"a/bü":                         `byte 4 is "\xc3"`,
		strings.Repeat("a", 513):       "has 513 bytes, at most 512",
		strings.Repeat("a", 10<<10):    "has 10240 bytes",
		strings.Repeat("a/", 16) + "a": "has 17 segments, at most 16",
	} {
		_, err := ParseKey(bad)
		var refusal *KeyError
		if !errors.As(err, &refusal) || refusal.Key != bad || !strings.Contains(err.Error(), problem) {
			t.Errorf("ParseKey(%.40q): %v; want a *KeyError with %q", bad, err, problem)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("ParseKey(%.40q): a message of %d bytes", bad, len(err.Error()))
		}
	}
}

func TestUnder(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		key    Key
		want   bool
	}{
		{"gateway/routes/app", "gateway/routes/app", true},
		{"gateway/routes/app", "gateway/routes/app/x", true},
		{"gateway/routes/app", "gateway/routes/app-dev", false},
		{"gateway/routes/", "gateway/routes/app", true},
		{"gateway/routes/app/", "gateway/routes/app", false},
		{"gateway/routes/app/", "gateway/routes/app/x", true},
		{"/", "a", false},
		{"", "a", true},
	} {
		if got := Under(tt.prefix, tt.key); got != tt.want {
			t.Errorf("Under(%q, %q) = %v", tt.prefix, tt.key, got)
		}
	}
}

// A recursive delete never takes a sibling, and never everything (O24).
func TestDeleteRange(t *testing.T) {
	s := storeAt(start)
	for _, key := range []Key{"gateway/routes/app", "gateway/routes/app/x", "gateway/routes/app-dev", "gateway/routes/app.old"} {
		put(t, s, key, nil)
	}
	for _, prefix := range []string{"", "/", "//", "gateway//routes", "gateway/../routes", "a b"} {
		var refusal *KeyError
		if _, _, err := s.View().Resolve(Txn{Then: []Op{DeleteRange(prefix)}}); !errors.As(err, &refusal) {
			t.Errorf("prefix %q: %v; want a *KeyError", prefix, err)
		}
	}
	_, result, err := s.View().Resolve(Txn{Then: []Op{DeleteRange("gateway/routes/app")}})
	if err != nil || result.Deleted != 2 {
		t.Errorf("deleted %d, %v; want the key and the one below", result.Deleted, err)
	}
}
