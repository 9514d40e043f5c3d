package api

import (
	"encoding/json"
	"testing"
)

// The examples of RFC 7396, appendix A.
func TestMergePatch(t *testing.T) {
	for _, c := range []struct{ target, patch, result string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"n":12345678901234567890}`, `{"m":1.50}`, `{"m":1.50,"n":12345678901234567890}`},
	} {
		target, err := neutral([]byte(c.target))
		if err != nil {
			t.Fatal(err)
		}
		patch, err := neutral([]byte(c.patch))
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(mergePatch(target, patch))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != c.result {
			t.Errorf("%s with %s gives %s, want %s", c.target, c.patch, got, c.result)
		}
	}
}

func TestNeutralRefusesANameGivenTwice(t *testing.T) {
	for _, document := range []string{`{"a":1,"a":2}`, `{"a":{"b":1,"b":null}}`, `[{"a":1,"a":1}]`, `{} {}`, `{"a":`, `[1`, ``} {
		if v, err := neutral([]byte(document)); err == nil {
			t.Errorf("%s is %v", document, v)
		}
	}
}
