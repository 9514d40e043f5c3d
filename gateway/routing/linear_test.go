package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grapevine/gateway/spec"
)

func template(t interface{ Fatal(...any) }, s string) spec.Template {
	parsed, err := spec.ParseTemplate(s)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// The order of candidates, rule by rule: each line's first rule beats the
// second wherever both take the request.
func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		why           string
		first, second Rule
	}{
		{"lower order", Rule{ID: "z", Order: -1, Path: template(t, "/{**r}")}, Rule{ID: "a", Hosts: []string{"h"}, Path: template(t, "/a")}},
		{"exact host over wildcard", Rule{ID: "z", Hosts: []string{"a.h"}, Path: template(t, "/{**r}")}, Rule{ID: "a", Hosts: []string{"*.h"}, Path: template(t, "/a")}},
		{"longer wildcard", Rule{ID: "z", Hosts: []string{"*.b.h"}, Path: template(t, "/{**r}")}, Rule{ID: "a", Hosts: []string{"*.h"}, Path: template(t, "/a")}},
		{"wildcard over none", Rule{ID: "z", Hosts: []string{"*.h"}, Path: template(t, "/{**r}")}, Rule{ID: "a", Path: template(t, "/a")}},
		{"more literals", Rule{ID: "z", Path: template(t, "/{w}/b/c/d")}, Rule{ID: "a", Path: template(t, "/a/{x}/c/{y}")}},
		{"fewer parameters", Rule{ID: "z", Path: template(t, "/a")}, Rule{ID: "a", Path: template(t, "/a/{x}")}},
		{"no catch-all", Rule{ID: "z", Path: template(t, "/a/{x}")}, Rule{ID: "a", Path: template(t, "/a/{x}/{**r}")}},
		{"more conditions", Rule{ID: "z", Path: template(t, "/a"), Methods: []string{"GET"}}, Rule{ID: "a", Path: template(t, "/a")}},
		{"id", Rule{ID: "a", Path: template(t, "/a")}, Rule{ID: "z", Path: template(t, "/a")}},
	} {
		for _, rules := range [][]Rule{{tt.first, tt.second}, {tt.second, tt.first}} {
			if got := NewLinear(rules).candidates[0].ID; got != tt.first.ID {
				t.Errorf("%s: %s is tried first", tt.why, got)
			}
		}
	}
}

func TestTakesPath(t *testing.T) {
	for _, tt := range []struct {
		template, path string
		want           bool
	}{
		{"/", "/", true},
		{"/", "/a", false},
		{"/a", "/a", true},
		{"/a", "/a/", true},
		{"/a", "/ab", false},
		{"/a", "/a/b", false},
		{"/a", "/", false},
		{"/a", "/A", false},
		{"/a/{x}", "/a/b", true},
		{"/a/{x}", "/a", false},
		{"/a/{x}", "/a/", false},
		{"/a/{x}", "/a/b/c", false},
		{"/x/{**r}", "/x", true},
		{"/x/{**r}", "/x/", true},
		{"/x/{*r}", "/x/a/b", true},
		{"/x/{**r}", "/xa", false},
		{"/{**r}", "/", true},
		{"/a b", "/a%20b", true},
		{"/%61", "/a", true},
	} {
		if got := takesPath(template(t, tt.template), []byte(tt.path)); got != tt.want {
			t.Errorf("%s takes %s: %v; want %v", tt.template, tt.path, got, tt.want)
		}
	}
}

// Whatever order rules come in, the same one answers, and it takes the request.
func TestMatchIgnoresListOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"/a", "/b", "/{%d}"})
		var rules []Rule
		for i := range rapid.IntRange(1, 8).Draw(t, "rules") {
			path := ""
			for depth := range rapid.IntRange(0, 3).Draw(t, "depth") {
				path += strings.Replace(segment.Draw(t, "segment"), "%d", fmt.Sprint("p", depth), 1)
			}
			path += rapid.SampledFrom([]string{"", "/{**r}"}).Draw(t, "tail")
			if path == "" {
				path = "/"
			}
			rules = append(rules, Rule{
				ID: spec.RouteID(fmt.Sprint("r", i)), Path: template(t, path),
				Order:   rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "order"),
				Hosts:   rapid.SampledFrom([][]string{nil, {"h"}, {"*.h"}, {"a.h", "b.h"}}).Draw(t, "hosts"),
				Methods: rapid.SampledFrom([][]string{nil, nil, {"GET"}, {"POST", "PUT"}}).Draw(t, "methods"),
			})
		}
		request := Request{
			Method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
			Host:   rapid.SampledFrom([]string{"h", "a.h", "x.h", "other"}).Draw(t, "host"),
			Path:   []byte(rapid.SampledFrom([]string{"/", "/a", "/a/b", "/b/a/", "/a/b/a", "/c/a/b/a"}).Draw(t, "path")),
		}
		shuffled := slices.Clone(rules)
		rand.New(rand.NewPCG(1, uint64(len(rules)))).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		one, two := NewLinear(rules).Match(request), NewLinear(shuffled).Match(request)
		if !slices.Equal(one.Allow, two.Allow) || one.Index < 0 != (two.Index < 0) {
			t.Fatalf("%+v and %+v", one, two)
		}
		if one.Index >= 0 && rules[one.Index].ID != shuffled[two.Index].ID {
			t.Fatalf("%s and %s", rules[one.Index].ID, shuffled[two.Index].ID)
		}
	})
}

func TestHostname(t *testing.T) {
	for authority, want := range map[string]string{
		"Shop.Test": "shop.test", "shop.test:8443": "shop.test", "shop.test.:80": "shop.test", "[::1]:80": "[::1]", "[2001:DB8::1]": "[2001:db8::1]", "": "", "10.0.0.1:1": "10.0.0.1",
	} {
		if got := Hostname([]byte(authority)); got != want {
			t.Errorf("Hostname(%q) = %q; want %q", authority, got, want)
		}
	}
}
