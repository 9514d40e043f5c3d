package exchange_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
)

func TestParseQueryRefusesWhatServersReadDifferently(t *testing.T) {
	for raw, want := range map[string]string{
		"?a=1;b=2":                       `query: raw ';'`,
		"?;":                             `query: raw ';'`,
		"?a=%":                           `query: "%" is no escape`,
		"?a=%4":                          `query: "%4" is no escape`,
		"?a=%zz&b":                       `query: "%zz" is no escape`,
		"?%u0041=1":                      `query: "%u0" is no escape`,
		"?a%4=1":                         `query: "%4=" is no escape`,
		"?a=%00":                         `query: %00 is an encoded NUL`,
		"?a=\x00":                        `query: raw '\x00'`,
		"?a=1#b":                         `query: raw '#'`,
		"?a=1 2":                         `query: raw ' '`,
		"?a=1\r\nX: y":                   `query: raw '\r'`,
		"?a=\x7f":                        `query: raw '\x7f'`,
		"?" + strings.Repeat("a&", 1000): `query: 1001 parameters are more than 1000`,
	} {
		if _, err := exchange.ParseQuery([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%.40q: got %v, want %s", raw, err, want)
		}
	}
}

func TestQueryValues(t *testing.T) {
	for _, row := range []struct {
		raw, name string
		want      []string
	}{
		{"", "a", nil},
		{"?", "", nil},
		{"?a", "a", []string{""}},
		{"?a=", "a", []string{""}},
		{"a=1", "a", []string{"1"}},
		{"?a=1&&b=2&a=3&", "a", []string{"1", "3"}},
		{"?A=1&a=2", "a", []string{"2"}},
		{"?%61=1&a%20b=2&a+b=3", "a", []string{"1"}},
		{"?%61=1&a%20b=2&a+b=3", "a b", []string{"2", "3"}},
		{"?a=b=c", "a", []string{"b=c"}},
		{"?=1&a=2", "", []string{"1"}},
		{"?a=1+2%2b%c3%A9%26%3b", "a", []string{"1 2+é&;"}},
		{"?ab=1&a=2", "a", []string{"2"}},
		{"?a=1&ab=2", "ab", []string{"2"}},
		{"??a=1", "?a", []string{"1"}},
		{strings.Repeat("&", 1000-2) + "a", "a", []string{""}},
	} {
		q, err := exchange.ParseQuery([]byte(row.raw))
		if err != nil {
			t.Fatalf("%q: %v", row.raw, err)
		}
		if got := slices.Collect(q.Values(row.name)); !slices.Equal(got, row.want) {
			t.Errorf("%.40q: %q has %q, want %q", row.raw, row.name, got, row.want)
		}
	}
}

func TestQueryValuesMayBeLeftEarly(t *testing.T) {
	q, _ := exchange.ParseQuery([]byte("?a=1&b=2&a=3"))
	for value := range q.Values("a") {
		if value != "1" {
			t.Errorf("got %q first", value)
		}
		break
	}
}

// What both take, both read alike, and what we take net/url takes.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{"a=1&b=%20+&&=c&a=", "%61%C3%a9=x&a;b", "a=%zz", "?a=1?b", "a[]=1&a[]=2&%00"} {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		q, err := exchange.ParseQuery(append([]byte("?"), raw...))
		if err != nil {
			return
		}
		want, err := url.ParseQuery(string(raw))
		if err != nil {
			t.Fatalf("%q is taken, and net/url says %v", raw, err)
		}
		if got := slices.Collect(q.Values(name)); !slices.Equal(got, want[name]) {
			t.Errorf("%q: %q has %q, want %q", raw, name, got, want[name])
		}
		total := 0
		for p := range q.All() {
			total++
			if decoded, _ := url.QueryUnescape(string(p.Name)); !p.Named(decoded) {
				t.Errorf("%q: %q is not named %q", raw, p.Raw, decoded)
			}
		}
		for _, values := range want {
			total -= len(values)
		}
		if total != 0 {
			t.Errorf("%q: %d parameters too many", raw, total)
		}
	})
}

func BenchmarkQueryValues(b *testing.B) {
	raw := []byte("?id=12345&view=full&tag=a%20b&q=one+two&page=2")
	b.ReportAllocs()
	for b.Loop() {
		q, err := exchange.ParseQuery(raw)
		if err != nil {
			b.Fatal(err)
		}
		for range q.Values("page") {
		}
	}
}
