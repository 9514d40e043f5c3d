package spec_test

import (
	"encoding"
	"strconv"
	"strings"
	"testing"

	"grapevine/gateway/spec"
)

func TestTextsHaveOneCanonicalForm(t *testing.T) {
	for _, row := range []struct {
		read        encoding.TextUnmarshaler
		text, canon string
	}{
		{new(spec.Duration), "300ms", "300ms"},
		{new(spec.Duration), "60s", "1m"},
		{new(spec.Duration), "90s", "1m30s"},
		{new(spec.Duration), "1h0m0s", "1h"},
		{new(spec.Duration), "120m", "2h"},
		{new(spec.Duration), "1h5s", "1h0m5s"},
		{new(spec.Duration), "0s", "0s"},
		{new(spec.Duration), "1.5s", "1.5s"},
		{new(spec.Size), "100MB", "100MB"},
		{new(spec.Size), "1024", "1KiB"},
		{new(spec.Size), "1000", "1KB"},
		{new(spec.Size), "1234", "1234B"},
		{new(spec.Size), "0", "0B"},
		{new(spec.Size), "64kib", "64KiB"},
		{new(spec.Size), "2048MiB", "2GiB"},
		{new(spec.Size), "9223372036854775807", "9223372036854775807B"},
		{new(spec.Address), "HTTP://Example.COM:080/", "http://example.com:80"},
		{new(spec.Address), "https://[2001:DB8::1]", "https://[2001:db8::1]"},
		{new(spec.Address), "http://booking_1:80", "http://booking_1:80"},
		{new(spec.Address), "http://10.0.0.5", "http://10.0.0.5"},
		{new(spec.URL), "https://Auth.example.com/realms/a", "https://auth.example.com/realms/a"},
		{new(spec.Host), "*.Example.com.", "*.example.com"},
		{new(spec.Host), "[::1]", "[::1]"},
		{new(spec.Host), "xn--bcher-kva.de", "xn--bcher-kva.de"},
		{new(spec.ListenAddress), ":8080", ":8080"},
		{new(spec.ListenAddress), "http://*:8080", ":8080"},
		{new(spec.ListenAddress), "+:0", ":0"},
		{new(spec.ListenAddress), "[::1]:443", "[::1]:443"},
		{new(spec.CIDR), "10.0.0.0/8", "10.0.0.0/8"},
		{new(spec.CIDR), "192.168.1.7", "192.168.1.7/32"},
		{new(spec.CIDR), "FD00::/8", "fd00::/8"},
		{new(spec.Time), "2026-12-01T10:00:00+02:00", "2026-12-01T08:00:00Z"},
		{new(spec.Time), "2026-12-01T10:00:00.50Z", "2026-12-01T10:00:00.5Z"},
		{new(spec.Pin), strings.Repeat("AB:", 31) + "AB", strings.Repeat("ab", 32)},
		{new(spec.Path), "/a/{*rest}", "/a/{**rest}"},
		{new(spec.Prefix), "/a/", "/a"},
	} {
		err := row.read.UnmarshalText([]byte(row.text))
		if got := string(spec.Encode(row.read)); err != nil || got != `"`+row.canon+`"` {
			t.Errorf("%T %s: got %s, %v, want %q", row.read, row.text, got, err, row.canon)
		}
	}
}

func TestTypedTextsGiveTheirMeaning(t *testing.T) {
	if u := spec.Address("http://[::1]:80").URL(); u.Scheme != "http" || u.Host != "[::1]:80" || u.Port() != "80" {
		t.Errorf("address: %+v", u)
	}
	if got := spec.CIDR("10.0.0.0/8").Prefix().String(); got != "10.0.0.0/8" {
		t.Errorf("CIDR: %s", got)
	}
	if got := len(spec.TrustedProxy("private").Nets()); got != 4 {
		t.Errorf("private: %d ranges", got)
	}
	if got := spec.TrustedProxy("10.0.0.0/16").Nets()[0].Bits(); got != 16 {
		t.Errorf("trusted proxy: %d bits", got)
	}
	if domain, ok := spec.Host("*.example.com").Wildcard(); !ok || domain != "example.com" {
		t.Errorf("wildcard: %q, %v", domain, ok)
	}
	if spec.Regex("a|b").Whole().MatchString("xb") || !spec.Regex("a|b").Compile().MatchString("xb") {
		t.Error("Whole matches a part, or Compile does not")
	}
}

func TestRegexMustCompileWithinOthers(t *testing.T) {
	for _, row := range []struct{ expr, want string }{
		{`/a\Qb\E`, ""},
		{nested(900), ""},
		{`/a\Qb`, `cannot be anchored: \Q quotes up to the end: write \E behind what it quotes`},
		{nested(999), "cannot be anchored: expression nests too deeply"},
		{nested(1001), `is not a Go regular expression: expression nests too deeply: ` + strconv.Quote(nested(1001))},
	} {
		got := ""
		if err := new(spec.Regex).UnmarshalText([]byte(row.expr)); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%.40s\ngot  %s\nwant %s", row.expr, got, row.want)
		}
	}
}
