package action_test

import (
	"bytes"
	"testing"

	"grapevine/gateway/action"
)

// Who appends to a target must not write into what stands behind it in the
// memory of the request.
func TestTargetEndsItsMemory(t *testing.T) {
	for _, row := range []struct{ route, raw string }{
		{`path=/{**r}`, "/a"},
		{`path=/{**r}`, "/a?b=1"},
		{`path=/{**r},transforms.query.remove=[b]`, "/a?b=1"},
		{`path=/a/{**r},pathRemovePrefix=/a`, "/a"},
		{`path=/a/{**r},pathRemovePrefix=/a`, "/a/b?b=1"},
		{`path=/a/{**r},pathRemovePrefix=/a,transforms.query.remove=[b]`, "/a?b=1"},
		{`path=/{**r},rewrite.regex=^/b,transforms.query.remove=[b]`, "/a?b=1"},
		{`path=/{**r},transforms.query.set.b=2`, "/a?b=1"},
	} {
		const behind = " HTTP/1.1"
		buffer := []byte(row.raw + behind)
		path, query, marked := bytes.Cut(buffer[:len(row.raw)], []byte("?"))
		if marked {
			query = buffer[len(path):len(row.raw)]
		}
		target, err := action.NewTarget(route(t, row.route)).Apply(path, query)
		if err != nil {
			t.Fatal(err)
		}
		if _ = append(target, "&more"...); string(buffer) != row.raw+behind {
			t.Errorf("%s: appending to %q makes %q of the request", row.route, target, buffer)
		}
	}
}
