package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

func TestValuesAreRead(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("booking.yaml", []byte("path: /x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		word, stdin, data string
		form              spec.Form
		mime              string
	}{
		{"a:b,c:d", "", "a:b,c:d", spec.FormShorthand, "application/x-grapevine-shorthand"},
		{"on", "", "on", spec.FormShorthand, "application/x-grapevine-shorthand"},
		{"", "", "", spec.FormShorthand, "application/x-grapevine-shorthand"},
		{` {"a":1}`, "", ` {"a":1}`, spec.FormJSON, "application/json"},
		{`["a"]`, "", `["a"]`, spec.FormJSON, "application/json"},
		{`"a"`, "", `"a"`, spec.FormJSON, "application/json"},
		{"a: 1\nb: 2", "", "a: 1\nb: 2", spec.FormYAML, "application/yaml"},
		{"a:1\n", "", "a:1\n", spec.FormShorthand, "application/x-grapevine-shorthand"},
		{"-", "{}", "{}", spec.FormYAML, "application/yaml"},
		{"-", "enabled:true\n", "enabled:true\n", spec.FormYAML, "application/yaml"},
		{"@booking.yaml", "", "path: /x\n", spec.FormYAML, "application/yaml"},
	} {
		v, err := readValue(test.word, strings.NewReader(test.stdin))
		if err != nil || string(v.data) != test.data || v.form != test.form || v.contentType(false) != test.mime {
			t.Errorf("%q: %q as form %d, %s, %v", test.word, v.data, v.form, v.contentType(false), err)
		}
		if got := v.contentType(true); got != "application/octet-stream" {
			t.Errorf("%q for a free key: %s", test.word, got)
		}
	}
}

func TestValuesThatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, test := range []struct{ word, stdin, want string }{
		{"@missing.yaml", "", "missing.yaml: no such file or directory"},
		{"@.", "", ".: is a directory"},
		{"-", strings.Repeat("x", kv.MaxValueBytes+1), "the standard input: more than the 262144 bytes that a value may have"},
	} {
		_, err := readValue(test.word, strings.NewReader(test.stdin))
		if err == nil || err.Error() != test.want || exitCode(err) != exitInvalid {
			t.Errorf("%q: %v (exit %d), want %s", test.word, err, exitCode(err), test.want)
		}
	}
	if _, err := readValue("-", brokenReader{}); err == nil || !strings.Contains(err.Error(), "the standard input: the disk is gone") {
		t.Errorf("broken input: %v", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }
