package balance

import (
	"bytes"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// headers are the fields of a head, one a line.
func headers(head string) exchange.Fields {
	var fields exchange.Fields
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		fields.Add(name, []byte(value))
	}
	return fields
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		hashOn spec.HashOn
		target string
		head   string
		want   string // empty: no key
	}{
		{"path", "/a/b?c=d", "", "/a/b"},
		{"path", "/a%2Fb", "", "/a%2Fb"},
		{"path", "/?", "", "/"},

		{"header:X-User", "", "x-user: ada", "ada"},
		{"header:x-user", "", "A: b\nX-USER: ada\nX-Users: all", "ada"},
		{"header:X-User", "", "X-User: ada\nX-User: bob", "ada, bob"},
		{"header:X-User", "", "X-User: ada, bob", "ada, bob"},
		{"header:X-User", "", "X-User: ", ""},
		{"header:X-User", "", "X-User: \nX-User: ", ""},
		{"header:X-User", "", "Host: ada", ""},

		{"cookie:sid", "", "Cookie: sid=1", "1"},
		{"cookie:sid", "", "Cookie: a=b; sid=1; c=d", "1"},
		{"cookie:sid", "", "Cookie: a=b;sid=1;", "1"},
		{"cookie:sid", "", "Cookie: a=b ; \t sid=1 \t; c", "1"},
		{"cookie:sid", "", "Cookie: sid=1; sid=2", "1"},
		{"cookie:sid", "", "Cookie: a=b\ncookie: sid=2\nCookie: sid=3", "2"},
		{"cookie:sid", "", "Cookie: sid=a=b==", "a=b=="},
		{"cookie:sid", "", `Cookie: sid="1"`, `"1"`},
		{"cookie:sid", "", "Cookie: SID=1; asid=2; sid2=3; sid", ""},
		{"cookie:sid", "", "Cookie: a=sid=1", ""},
		{"cookie:sid", "", "Cookie: sid=; sid=2", ""},
		{"cookie:sid", "", "Cookie: ;;=;", ""},
		{"cookie:sid", "", "X-Cookie: sid=1", ""},

		{"query:id", "/p?id=7", "", "7"},
		{"query:id", "/p?a=b&id=7&id=8", "", "7"},
		{"query:id", "/p?%69%64=7", "", "7"},
		{"query:id", "/p?id=a%20b", "", "a%20b"},
		{"query:id", "/p?id=a=b", "", "a=b"},
		{"query:id", "/p?&&id=7", "", "7"},
		{"query:a b", "/p?a+b=1", "", "1"},
		{"query:a b", "/p?a%20b=1", "", "1"},
		{"query:?id", "/p??id=7", "", "7"},
		{"query:id", "/p??id=7", "", ""},
		{"query:id", "/p?ID=7", "", ""},
		{"query:id", "/p?id", "", ""},
		{"query:id", "/p?id=&id=8", "", ""},
		{"query:id", "/p?", "", ""},
		{"query:id", "/id=7", "", ""},
		{"query:id", "/p?a;id=7", "", ""},
		{"query:id", "/p?id=7&a=%zz", "", ""},
	} {
		k := newKey(tt.hashOn)
		sum, ok := k.of(&exchange.Request{Target: []byte(tt.target), Fields: headers(tt.head)})
		if ok != (tt.want != "") || ok && sum != xxhash.Sum64String(tt.want) {
			t.Errorf("%s of %q %q: got %x, %v, want that of %q", tt.hashOn, tt.target, tt.head, sum, ok, tt.want)
		}
	}
}

func TestKeyOfClient(t *testing.T) {
	sum := func(client string) uint64 {
		k := newKey("ip")
		got, ok := k.of(&exchange.Request{Client: netip.MustParseAddr(client)})
		if !ok {
			t.Errorf("%s is no key", client)
		}
		return got
	}
	if sum("192.0.2.1") != sum("::ffff:192.0.2.1") {
		t.Error("an IPv4 address in IPv6 form is another client")
	}
	if sum("192.0.2.1") == sum("192.0.2.2") || sum("2001:db8::1") == sum("2001:db8::2") {
		t.Error("two clients have one key")
	}
	for _, hashOn := range []spec.HashOn{"", "ip"} {
		k := newKey(hashOn)
		if _, ok := k.of(&exchange.Request{}); ok {
			t.Errorf("hashOn %q: an unknown client has a key", hashOn)
		}
	}
}

func FuzzCookie(f *testing.F) {
	for _, seed := range []string{"sid=1", "a=b; sid=1;c", "sid=\"x\";\tsid=2", ";;=; sid", "a=b\n sid=1"} {
		f.Add(seed, "sid")
	}
	f.Fuzz(func(t *testing.T, lines, name string) {
		var fields exchange.Fields
		var want []byte
		for line := range strings.SplitSeq(lines, "\n") {
			fields.Add("Cookie", []byte(line))
			for pair := range strings.SplitSeq(line, ";") {
				if value, is := strings.CutPrefix(strings.Trim(pair, " \t"), name+"="); is && want == nil && !strings.Contains(name, "=") {
					want = []byte(value)
				}
			}
		}
		if got := Cookie(fields, name); !bytes.Equal(got, want) {
			t.Errorf("%q of %q: got %q, want %q", name, lines, got, want)
		}
	})
}

func FuzzParameter(f *testing.F) {
	for _, seed := range []string{"/p?id=7", "/p?a&%69d=%41+b&id", "/p??id=1", "/?a;id=2", "/?id=%zz", "/p"} {
		f.Add([]byte(seed), "id")
	}
	f.Fuzz(func(t *testing.T, target []byte, name string) {
		got := parameter(target, name)
		_, raw, _ := strings.Cut(string(target), "?")
		if _, err := exchange.ParseQuery([]byte("?" + raw)); err != nil {
			if got != nil {
				t.Fatalf("%q: got %q in spite of %v", target, got, err)
			}
			return
		}
		values, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("%q: net/url refuses it: %v", target, err)
		}
		if value, err := url.QueryUnescape(string(got)); err != nil || value != values.Get(name) {
			t.Errorf("%q of %q: got %q, want %q (%v)", name, target, got, values.Get(name), err)
		}
	})
}
