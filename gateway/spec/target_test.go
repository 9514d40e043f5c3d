package spec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"grapevine/gateway/spec"
)

func TestTargetParts(t *testing.T) {
	text := func(s string) spec.TargetPiece { return spec.TargetPiece{Text: s} }
	name := func(s string) spec.TargetPiece { return spec.TargetPiece{Text: s, Placeholder: true} }
	for target, want := range map[string]spec.TargetParts{
		"/x":                           {Path: []spec.TargetPiece{text("/x")}},
		"/x?":                          {Path: []spec.TargetPiece{text("/x")}, Query: "?"},
		"/x?a=/b?c#d?e":                {Path: []spec.TargetPiece{text("/x")}, Query: "?a=/b?c", Fragment: "#d?e"},
		"/{a}-{b}/c":                   {Path: []spec.TargetPiece{text("/"), name("a"), text("-"), name("b"), text("/c")}},
		"https://n.example":            {Origin: "https://n.example"},
		"https://n.example?a=b":        {Origin: "https://n.example", Query: "?a=b"},
		"https://[::1]:8443/{r}?a#b":   {Origin: "https://[::1]:8443", Path: []spec.TargetPiece{text("/"), name("r")}, Query: "?a", Fragment: "#b"},
		"http://n.example/%7Ba%7D/{r}": {Origin: "http://n.example", Path: []spec.TargetPiece{text("/%7Ba%7D/"), name("r")}},
	} {
		var decoded spec.Target
		if err := decoded.UnmarshalText([]byte(target)); err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		if diff := cmp.Diff(want, decoded.Parts()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
}
