package action_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"grapevine/gateway/action"
	"grapevine/gateway/exchange"
	"grapevine/gateway/spec"
)

func TestHeadersApply(t *testing.T) {
	changes := &spec.HeaderChanges{
		Set:    map[spec.HeaderName]spec.HeaderValue{"X-Set": "new", "X_Under": "u", "X-Both": "1", "X-Empty": "", "hOst": "b.example:80"},
		Append: map[spec.HeaderName]spec.HeaderValue{"X-Both": "2", "X-Add": "a"},
		Remove: []spec.HeaderName{"x-gone", "X_Out"},
	}
	for name, row := range map[string]struct{ before, after []string }{
		"nothing": {nil, []string{"X-Both: 1", "X-Empty: ", "X-Set: new", "X_Under: u", "X-Add: a", "X-Both: 2"}},
		"all spellings": {
			[]string{"x_set: 1", "A: a", "X-GONE: 1", "X-Set: 2", "X_Gone: 2", "X-Out: 3", "x-both: 0", "X-Under: 1", "B: b", "Host: h"},
			[]string{"X-Set: new", "A: a", "X-Both: 1", "X_Under: u", "B: b", "Host: h", "X-Empty: ", "X-Add: a", "X-Both: 2"},
		},
		"near names": {
			[]string{"X-Sets: 1", "X.Set: 1", "XSet: 1", "X--Set: 1", "X-Gone-: 1", "X-Add: b"},
			[]string{
				"X-Sets: 1", "X.Set: 1", "XSet: 1", "X--Set: 1", "X-Gone-: 1", "X-Add: b",
				"X-Both: 1", "X-Empty: ", "X-Set: new", "X_Under: u", "X-Add: a", "X-Both: 2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fields, headers := fieldLines(row.before...), action.NewHeaders(changes)
			headers.Apply(&fields)
			if diff := cmp.Diff(row.after, linesOf(fields)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if string(headers.Authority) != "b.example:80" {
				t.Errorf("authority %q", headers.Authority)
			}
		})
	}
}

func TestNoHeaders(t *testing.T) {
	fields := fieldLines("A: a")
	action.NewHeaders(nil).Apply(&fields)
	action.NewHeaders(&spec.HeaderChanges{}).Apply(&fields)
	if authority := action.NewHeaders(&spec.HeaderChanges{}).Authority; len(fields) != 1 || authority != nil {
		t.Errorf("fields %q, authority %q", linesOf(fields), authority)
	}
}

// What one request does to its fields must not show in another's.
func TestHeadersAreNotSharedByAppending(t *testing.T) {
	headers := action.NewHeaders(&spec.HeaderChanges{
		Set: map[spec.HeaderName]spec.HeaderValue{"A": "set", "Host": "h"}, Append: map[spec.HeaderName]spec.HeaderValue{"B": "add"},
	})
	var first, second exchange.Fields
	headers.Apply(&first)
	headers.Apply(&second)
	for i := range first {
		first[i].Value = append(first[i].Value, "-first"...)
		second[i].Value = append(second[i].Value, "-other"...)
	}
	if diff := cmp.Diff([]string{"A: set-first", "B: add-first"}, linesOf(first)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var third exchange.Fields
	headers.Apply(&third)
	if diff := cmp.Diff([]string{"A: set", "B: add"}, linesOf(third)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Fields of other names keep their order and their values.
func TestHeadersLeaveTheRestAlone(t *testing.T) {
	names := rapid.SampledFrom([]string{"A", "a", "B-c", "b_C", "D", "E_f", "e-F"})
	rapid.Check(t, func(rt *rapid.T) {
		changes := &spec.HeaderChanges{Set: map[spec.HeaderName]spec.HeaderValue{}, Append: map[spec.HeaderName]spec.HeaderValue{}}
		touched := map[string]bool{}
		key := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "-")) }
		for _, name := range rapid.SliceOfNDistinct(names, 0, 2, key).Draw(rt, "set") {
			changes.Set[spec.HeaderName(name)], touched[key(name)] = "set", true
		}
		for _, name := range rapid.SliceOfN(names, 0, 2).Draw(rt, "remove") {
			changes.Remove, touched[key(name)] = append(changes.Remove, spec.HeaderName(name)), true
		}
		var before exchange.Fields
		for i, name := range rapid.SliceOfN(names, 0, 6).Draw(rt, "fields") {
			before.Add(name, fmt.Append(nil, i))
		}
		after := slices.Clone(before)
		action.NewHeaders(changes).Apply(&after)
		rest := func(fields exchange.Fields) exchange.Fields {
			fields = slices.Clone(fields)
			fields.DelFunc(func(name []byte) bool { return touched[key(string(name))] })
			return fields
		}
		if diff := cmp.Diff(linesOf(rest(before)), linesOf(rest(after))); diff != "" {
			rt.Errorf("(-before +after):\n%s", diff)
		}
		for name := range changes.Set {
			if got := slices.Collect(after.Values(string(name))); len(got) != 1 || string(got[0]) != "set" {
				rt.Errorf("%s is %q", name, got)
			}
		}
		if len(after)-len(rest(after)) != len(changes.Set) {
			rt.Errorf("more than what was set: %q", linesOf(after))
		}
	})
}

func BenchmarkHeadersApply(b *testing.B) {
	headers := action.NewHeaders(&spec.HeaderChanges{
		Set:    map[spec.HeaderName]spec.HeaderValue{"X-Tenant": "acme", "User-Agent": "gateway"},
		Append: map[spec.HeaderName]spec.HeaderValue{"X-Trace": "1"},
		Remove: []spec.HeaderName{"X-Debug", "Cookie"},
	})
	all := fieldLines("Accept: */*", "User-Agent: a", "Cookie: b", "Accept-Encoding: gzip", "X-Request-Id: 1", "Referer: c")
	fields := make(exchange.Fields, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		fields = append(fields[:0], all...)
		headers.Apply(&fields)
	}
}
