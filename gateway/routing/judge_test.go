package routing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

// judge tries one candidate after the other, in an order that is spelled out:
// slow, and plain enough to be believed. What it says, a Trie has to say.
type judge []*candidate

func newJudge(rules []*Rule) judge {
	var all judge
	for _, r := range rules {
		all = append(all, candidates(r)...)
	}
	slices.SortFunc(all, func(c, d *candidate) int {
		return cmp.Or(
			cmp.Compare(c.rule.Order, d.rule.Order),
			cmp.Compare(c.host.kind(), d.host.kind()),
			-cmp.Compare(len(c.host), len(d.host)),
			compareBool(c.rule.Regex != nil, d.rule.Regex != nil),
			-cmp.Compare(c.rule.Path.Literals(), d.rule.Path.Literals()),
			compareBool(c.rule.Path.CatchAll(), d.rule.Path.CatchAll()),
			-cmp.Compare(len(c.rule.Path.Segments), len(d.rule.Path.Segments)),
			-cmp.Compare(c.conditions.count(), d.conditions.count()),
			cmp.Compare(c.rule.ID, d.rule.ID),
		)
	})
	return all
}

func (j judge) match(r *Request) Match {
	var allow []string
	for _, c := range j {
		if !takesHost(c.host, string(r.Host)) || !takesPath(c.rule, string(r.Path)) {
			continue
		}
		switch v := c.conditions.judge(r); {
		case v.failed == holds || v.err != nil:
			return Match{Rule: c.rule, Err: v.err}
		case v.failed == methodFailed && c.conditions.judgeRest(r) == (verdict{}):
			allow = append(allow, c.conditions.Methods...)
		}
	}
	slices.Sort(allow)
	return Match{Allow: slices.Compact(allow)}
}

func takesHost(h host, name string) bool {
	switch h.kind() {
	case exactHost:
		return name == string(h)
	case wildcardHost:
		return len(name) > len(h) && strings.HasSuffix(name, string(h))
	default:
		return true
	}
}

func takesPath(r *Rule, path string) bool {
	if r.Regex != nil {
		return r.Regex.MatchString(path) || len(path) > 1 && r.Regex.MatchString(strings.TrimSuffix(path, "/"))
	}
	equal := func(a, b string) bool { return a == b }
	if r.Fold {
		equal = strings.EqualFold
	}
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")[1:]
	for i, want := range r.Path.Segments {
		switch {
		case want.Kind == spec.CatchAll:
			return true
		case i == len(segments) || want.Kind == spec.Literal && !equal(segments[i], want.Text):
			return false
		}
	}
	return len(segments) == len(r.Path.Segments)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// rule makes one of name=value pairs. A name that is repeated has a list of
// values; conditions are written {name:x,value:1}, with lists as [a|b].
func rule(t interface{ Fatal(...any) }, id, pairs string) *Rule {
	route := map[string]any{"respond": map[string]any{"body": "x"}}
	for _, pair := range splitOutside(pairs) {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case name == "headers" || name == "query":
			var list []any
			for _, condition := range splitOutside(strings.Trim(value, "[]")) {
				list = append(list, conditionOf(condition))
			}
			route[name] = list
		case name == "order":
			route[name] = json.Number(value)
		case name == "caseInsensitive":
			route[name] = value == "true"
		case strings.HasSuffix(name, "s"):
			list, _ := route[name].([]string)
			route[name] = append(list, value)
		default:
			route[name] = value
		}
	}
	text, err := json.Marshal(route)
	if err != nil {
		t.Fatal(err)
	}
	d, err := spec.Decode("gateway/routes/"+id, text, spec.FormJSON)
	if err != nil {
		t.Fatal(pairs, err)
	}
	return NewRule(id, d.Value.(*spec.Route), id)
}

func conditionOf(text string) map[string]any {
	condition := map[string]any{}
	for field := range strings.SplitSeq(strings.Trim(text, "{}"), ",") {
		name, value, _ := strings.Cut(field, ":")
		switch name {
		case "present":
			condition[name] = value == "true"
		case "values":
			condition[name] = strings.Split(strings.Trim(value, "[]"), "|")
		default:
			condition[name] = value
		}
	}
	return condition
}

// splitOutside splits at commas that no bracket holds.
func splitOutside(text string) (parts []string) {
	depth, start := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return parts
}

func trieOf(rules ...*Rule) *Trie {
	e := (*Trie)(nil).Edit()
	for _, r := range rules {
		e.Insert(r)
	}
	return e.Done()
}

func id(m Match) string {
	if m.Rule == nil {
		return ""
	}
	return string(m.Rule.ID)
}

// The order of candidates, rule by rule: each line's first rule beats the
// second wherever both take the request.
func TestOrder(t *testing.T) {
	for _, tt := range []struct{ why, first, second, path string }{
		{"order -1 comes", "path=/{**r},order=-1", "path=/a", "/a"},
		{"any host comes", "path=/{**r},hosts=h", "path=/a", "/a"},
		{"order over host", "path=/a,order=-1", "path=/a,hosts=h", "/a"},
		{"a wildcard host comes after an exact", "path=/{**r},hosts=a.b.h", "path=/a,hosts=*.h", "/a"},
		{"wildcard host is shorter", "path=/{**r},hosts=*.b.h", "path=/a,hosts=*.h", "/a"},
		{"pathRegex comes", "path=/{**r}", "pathRegex=/a", "/a"},
		{"literal segment", "path=/{w}/b/c/d", "path=/a/{x}/c/{y}", "/a/b/c/d"},
		{"a catch-all comes", "path=/a/{x}", "path=/a/{x}/{**r}", "/a/b"},
		{"a catch-all comes", "path=/a/{x}", "path=/a/{**r}", "/a/b"},
		{"1 segment against 2", "path=/{x}/{**r}", "path=/{**r}", "/a/b"},
		{"condition", "path=/a,methods=GET", "path=/a", "/a"},
		{"condition", "path=/a,headers=[{name:x,value:1},{name:y,value:1}]", "path=/a,methods=GET", "/a"},
		{"its id comes", "path=/{x}", "path=/{y}", "/a"},
	} {
		first, second := rule(t, "f", tt.first), rule(t, "s", tt.second)
		if tt.why != "its id comes" {
			first.ID, second.ID = "z", "a"
		}
		request := &Request{Method: "GET", Host: []byte("a.b.h"), Path: []byte(tt.path), Fields: exchange.Fields{
			{Name: []byte("x"), Value: []byte("1")}, {Name: []byte("y"), Value: []byte("1")},
		}}
		if first.Hosts != nil && first.Hosts[0] == "h" || second.Hosts != nil && second.Hosts[0] == "h" {
			request.Host = []byte("h")
		}
		for _, rules := range [][]*Rule{{first, second}, {second, first}} {
			if got := trieOf(rules...).Match(request); got.Rule != first {
				t.Errorf("%s: %s is tried first", tt.why, id(got))
			}
		}
		all := trieOf(first, second).Candidates(request)
		if len(all) != 2 || all[0].Rule != first {
			t.Errorf("%s: candidates are %+v", tt.why, all)
		} else if why := all[1].Behind(all[0]); !strings.Contains(why, strings.TrimPrefix(tt.why, "order over ")) && !strings.Contains(why, "order 0 comes after -1") {
			t.Errorf("%s: explained as %q", tt.why, why)
		}
	}
}

func TestTakesPath(t *testing.T) {
	for _, tt := range []struct {
		route, path string
		want        bool
	}{
		{"path=/", "/", true},
		{"path=/", "/a", false},
		{"path=/a", "/a", true},
		{"path=/a", "/a/", true},
		{"path=/a", "/ab", false},
		{"path=/a", "/a/b", false},
		{"path=/a", "/", false},
		{"path=/a", "/A", false},
		{"path=/a/{x}", "/a/b", true},
		{"path=/a/{x}", "/a", false},
		{"path=/a/{x}", "/a/", false},
		{"path=/a/{x}", "/a/b/c", false},
		{"path=/x/{**r}", "/x", true},
		{"path=/x/{**r}", "/x/", true},
		{"path=/x/{*r}", "/x/a/b", true},
		{"path=/x/{**r}", "/xa", false},
		{"path=/{**r}", "/", true},
		{"path=/a b", "/a%20b", true},
		{"path=/%61", "/a", true},
		{"path=/a/{x}/B,caseInsensitive=true", "/A/X/b", true},
		{"path=/a/{x}/B,caseInsensitive=true", "/A/X/c", false},
		{"pathRegex=/a|/b/c", "/b/c", true},
		{"pathRegex=/a|/b/c", "/b/c/", true},
		{"pathRegex=/a|/b/c", "/b/c/d", false},
		{"pathRegex=/a|/b/c", "/x/a", false},
		{"pathRegex=^/policy(/.*)?$", "/policy", true},
		{"pathRegex=^/policy(/.*)?$", "/policy/x", true},
		{"pathRegex=^/policy(/.*)?$", "/policy-x.js", false},
		{"pathRegex=/a,caseInsensitive=true", "/A", true},
		{"pathRegex=/dir/", "/dir/", true},
	} {
		r := rule(t, "r", tt.route)
		request := &Request{Method: "GET", Path: []byte(tt.path)}
		if got := id(trieOf(r).Match(request)) == "r"; got != tt.want || takesPath(r, tt.path) != tt.want {
			t.Errorf("%s takes %s: %v; want %v", tt.route, tt.path, got, tt.want)
		}
	}
}

// drawRule makes one of few words, so that rules and requests meet often.
func drawRule(t *rapid.T, id string) *Rule {
	from := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	var b strings.Builder
	if rapid.IntRange(0, 9).Draw(t, "regex") == 0 {
		b.WriteString("pathRegex=" + from("expression", "/a.*", "/[ab]", "/", "/.*/b", "/a/b/"))
	} else {
		path := ""
		for depth := range rapid.IntRange(0, 4).Draw(t, "depth") {
			path += strings.Replace(from("segment", "/a", "/b", "/{%d}", "/A"), "%d", fmt.Sprint("p", depth), 1)
		}
		path += from("tail", "", "", "/{**r}")
		b.WriteString("path=" + cmp.Or(path, "/"))
	}
	b.WriteString(from("order", "", "", "", ",order=1", ",order=-1"))
	b.WriteString(from("hosts", "", "", ",hosts=h", ",hosts=*.h", ",hosts=a.h,hosts=b.h", ",hosts=*.b.h,hosts=*.h"))
	b.WriteString(from("fold", "", "", "", ",caseInsensitive=true"))
	b.WriteString(from("methods", "", "", ",methods=GET", ",methods=POST,methods=PUT"))
	b.WriteString(from("headers", "", "", "", ",headers=[{name:x,value:1}]", ",headers=[{name:x,present:false}]"))
	b.WriteString(from("query", "", "", "", ",query=[{name:q,values:[1|2]}]", ",query=[{name:q,regex:.}]"))
	b.WriteString(from("clients", "", "", "", ",clients=10.0.0.0/8"))
	return rule(t, id, b.String())
}

func drawRequest(t *rapid.T) *Request {
	r := &Request{
		Method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
		Host:   []byte(rapid.SampledFrom([]string{"h", "a.h", "x.b.h", "other", ".h", ""}).Draw(t, "host")),
		Path:   []byte(rapid.SampledFrom([]string{"/", "/a", "/A", "/a/b", "/b/a/", "/a/b/a", "/c/a/b/a", "/A/B", "/a/a/a/a", "/a/b/"}).Draw(t, "path")),
		Query:  []byte(rapid.SampledFrom([]string{"", "?q=1", "?q=3", "?q=1&q=3", "?q=1;x", "?p=%31"}).Draw(t, "query")),
		Client: rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("192.0.2.1")}).Draw(t, "client"),
	}
	if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "x"); value != "" {
		r.Fields.Add("X", []byte(value))
	}
	return r
}

// A trie answers as the judge does, also after changes, and a trie that was
// changed still answers as it did.
func TestTrieAgreesWithJudge(t *testing.T) { rapid.Check(t, trieAgreesWithJudge) }

// Steps go by hashes, so that all of it has to hold when hashes meet.
func TestTrieWhereHashesMeet(t *testing.T) {
	strong := hashOf
	defer func() { hashOf = strong }()
	hashOf = func(key []byte) uint64 { return uint64(len(key)) % 2 << 62 }
	rapid.Check(t, trieAgreesWithJudge)
}

func trieAgreesWithJudge(t *rapid.T) {
	var tries []*Trie
	var versions [][]*Rule
	var trie *Trie
	var rules []*Rule
	next := 0
	for range rapid.IntRange(1, 4).Draw(t, "edits") {
		e := trie.Edit()
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			if len(rules) > 0 && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				i := rapid.IntRange(0, len(rules)-1).Draw(t, "which")
				e.Remove(rules[i])
				rules = slices.Delete(slices.Clone(rules), i, i+1)
				continue
			}
			r := drawRule(t, fmt.Sprint("r", next))
			next++
			e.Insert(r)
			rules = append(slices.Clip(rules), r)
		}
		trie = e.Done()
		tries, versions = append(tries, trie), append(versions, rules)
	}
	for range 8 {
		request := drawRequest(t)
		for i := range tries {
			got, want := tries[i].Match(request), newJudge(versions[i]).match(request)
			if got.Rule != want.Rule || !slices.Equal(got.Allow, want.Allow) || fmt.Sprint(got.Err) != fmt.Sprint(want.Err) {
				t.Fatalf("version %d, %s %s%s%s: trie %q %v %v; judge %q %v %v", i, request.Method, request.Host, request.Path, request.Query,
					id(got), got.Allow, got.Err, id(want), want.Allow, want.Err)
			}
			checkCandidates(t, tries[i], newJudge(versions[i]), request)
		}
	}
	checkEmptied(t, trie, rules)
}

// checkCandidates: an explanation lists what the judge would try, in its order.
func checkCandidates(t *rapid.T, trie *Trie, j judge, request *Request) {
	var want []string
	for _, c := range j {
		if takesHost(c.host, string(request.Host)) && takesPath(c.rule, string(request.Path)) {
			want = append(want, string(c.rule.ID)+" "+c.host.String())
		}
	}
	var got []string
	for _, c := range trie.Candidates(request) {
		got = append(got, string(c.Rule.ID)+" "+c.Host)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("candidates %q; judge %q", got, want)
	}
}

// checkEmptied: a trie from which everything was removed holds nothing.
func checkEmptied(t *rapid.T, trie *Trie, rules []*Rule) {
	e := trie.Edit()
	for _, r := range rules {
		e.Remove(r)
	}
	if empty := e.Done(); *empty != (Trie{}) {
		t.Fatalf("%+v is left", empty)
	}
}

// A rule that is said to be shadowed takes no request.
func TestShadowedRulesTakeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rules []*Rule
		for i := range rapid.IntRange(2, 6).Draw(t, "rules") {
			rules = append(rules, drawRule(t, fmt.Sprint("r", i)))
		}
		trie := trieOf(rules...)
		for range 20 {
			request := drawRequest(t)
			if m := trie.Match(request); m.Rule != nil && m.Err == nil && trie.Shadowing(m.Rule) != nil {
				t.Fatalf("%s takes %s%s, and is said to be shadowed by %s", m.Rule.ID, request.Host, request.Path, trie.Shadowing(m.Rule).ID)
			}
		}
	})
}

// Of two templates of which one takes a part of what the other takes, that one
// is tried first: else it would get no request.
func TestPartIsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(id string) *Rule {
			path := ""
			for depth := range rapid.IntRange(0, 4).Draw(t, "depth") {
				path += strings.Replace(rapid.SampledFrom([]string{"/a", "/b", "/{%d}"}).Draw(t, "segment"), "%d", fmt.Sprint("p", depth), 1)
			}
			return rule(t, id, "path="+cmp.Or(path+rapid.SampledFrom([]string{"", "/{**r}"}).Draw(t, "tail"), "/"))
		}
		a, b := draw("a"), draw("b")
		if a.covers(b) && !b.covers(a) && rankOf(a) <= rankOf(b) {
			t.Fatalf("%s is tried before %s, which is a part of it", a.Path, b.Path)
		}
	})
}

func TestShadowing(t *testing.T) {
	for _, tt := range []struct{ first, second, by string }{
		{"path=/{x}", "path=/{y}", "a"},
		{"path=/x,order=-1", "path=/x,methods=GET", "a"},
		{"path=/x/{**r},order=-1", "path=/x/{a}/b,hosts=h", "a"},
		{"path=/x/{**r},order=-1,hosts=*.h", "path=/x/{a}/b,hosts=a.h,hosts=*.b.h", "a"},
		{"path=/x/{**r},order=-1,hosts=*.h", "path=/x/{a}/b,hosts=a.h,hosts=c", ""},
		{"path=/x/{**r},order=-1,methods=GET", "path=/x/{a}/b", ""},
		{"path=/x/{**r},order=-1,methods=GET,methods=PUT", "path=/x/{a}/b,methods=PUT", "a"},
		{"path=/x/{**r},order=-1,clients=10.0.0.0/8", "path=/x,clients=10.1.0.0/16", "a"},
		{"path=/x,order=-1,headers=[{name:X,present:true}]", "path=/x,headers=[{name:x,value:1}]", "a"},
		{"path=/x,order=-1,headers=[{name:X,value:1}]", "path=/x,headers=[{name:x,present:true}]", ""},
		{"path=/X,order=-1,caseInsensitive=true", "path=/x", "a"},
		{"path=/x,order=-1", "path=/x,caseInsensitive=true", ""},
		{"pathRegex=/x", "pathRegex=/x", "a"},
		{"path=/{**r},order=-1", "pathRegex=/x", "a"},
		{"path=/{a}/x", "path=/{b}/{c}", ""},
		{"path=/a", "path=/b", ""},
		{"path=/a/{**r}", "path=/a/{**s}", "a"},
		{"path=/a,order=-1", "path=/a/{**s}", ""},
	} {
		a, b := rule(t, "a", tt.first), rule(t, "b", tt.second)
		got := ""
		if by := trieOf(a, b).Shadowing(b); by != nil {
			got = string(by.ID)
		}
		if got != tt.by {
			t.Errorf("%s behind %s: shadowed by %q; want %q", tt.second, tt.first, got, tt.by)
		}
		if by := trieOf(a, b).Shadowing(a); by != nil {
			t.Errorf("%s before %s: shadowed by %q", tt.first, tt.second, by.ID)
		}
	}
}

func TestHostname(t *testing.T) {
	for authority, want := range map[string]string{
		"Shop.Test": "shop.test", "shop.test:8443": "shop.test", "shop.test.:80": "shop.test", "shop.test:": "shop.test", "a_b.test": "a_b.test",
		"[::1]:80": "[::1]", "[2001:DB8::1]": "[2001:db8::1]", "[0:0:0:0:0:0:0:1]": "[::1]", "": "", "10.0.0.1:1": "10.0.0.1",
	} {
		sent := []byte(authority)
		if got, err := Hostname(sent, nil); err != nil || string(got) != want || !bytes.Equal(sent, []byte(authority)) {
			t.Errorf("Hostname(%q) = %q, %v; want %q", authority, got, err, want)
		}
	}
	for _, authority := range []string{
		"a.test..", "a.test:80:90", "%61.test", "a.test,b.test", "a.test]", "[a.test]", "[::1]x.test", "[::1", "[fe80::1%25eth0]", "u@a.test", "a b",
		".a.test", "a..test", ".", ":80", "a.test:http", "a.test:123456", "a/b", "a\x00", "caf\xc3\xa9", "[1.2.3.4]",
	} {
		if got, err := Hostname([]byte(authority), nil); err == nil {
			t.Errorf("Hostname(%q) = %q; want it refused", authority, got)
		}
	}
}
