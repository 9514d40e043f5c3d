package action_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"grapevine/gateway/action"
	"grapevine/gateway/spec"
)

func TestCaptures(t *testing.T) {
	for _, row := range []struct {
		template, path string
		want           map[string]string
	}{
		{"/", "/", map[string]string{}},
		{"/a/{b}", "/a/x", map[string]string{"b": "x"}},
		{"/a/{b}", "/a/x/", map[string]string{"b": "x"}},
		{"/{a}/{b}/{**c}", "/x%2F/%41;z", map[string]string{"a": "x%2F", "b": "%41;z", "c": ""}},
		{"/{a}/{**c}", "/x/", map[string]string{"a": "x", "c": ""}},
		{"/{a}/{**c}", "/x/y/z/", map[string]string{"a": "x", "c": "y/z/"}},
		{"/{**c}", "/", map[string]string{"c": ""}},
	} {
		template, err := spec.ParseTemplate(row.template)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, value := range action.Captures(template, []byte(row.path)) {
			got[name] = string(value)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", row.template, row.path, diff)
		}
	}
}
