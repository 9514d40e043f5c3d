package cli

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEventsAreRead(t *testing.T) {
	for _, test := range []struct {
		stream string
		want   []event
	}{
		{"", nil},
		{": alive\n\n", nil},
		{"id: 1.2\nevent: put\ndata: {}\n\n", []event{{"1.2", "put", "{}"}}},
		{"event:put\r\ndata:{}\r\n\r\n", []event{{"", "put", "{}"}}},
		{"data: a\ndata:\ndata:  b\n\n", []event{{"", "", "a\n\n b"}}},
		{"id: 1\nevent: a\ndata: x\n\nevent: b\ndata: y\n\ndata: z\n\n", []event{{"1", "a", "x"}, {"1", "b", "y"}, {"1", "", "z"}}},
		{"event: a\n\ndata: x\n\n", []event{{"", "", "x"}}},
		{"retry: 5\nunknown\ndata: x\n\n", []event{{"", "", "x"}}},
		{"event: put\ndata: cut short", nil},
		{"event: put\ndata: cut short\n", nil},
	} {
		var got []event
		for e, err := range events(strings.NewReader(test.stream)) {
			if err != nil {
				t.Errorf("%q: %v", test.stream, err)
			}
			got = append(got, e)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q\n got %q\nwant %q", test.stream, got, test.want)
		}
	}
}

func TestBrokenStreams(t *testing.T) {
	lost := errors.New("lost")
	for name, stream := range map[string]io.Reader{
		"connection": io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(lost)),
		"long line":  strings.NewReader("data: a\n\ndata: " + strings.Repeat("x", maxEventLine) + "\n\n"),
	} {
		var got []string
		var last error
		for e, err := range events(stream) {
			if last = err; err == nil {
				got = append(got, e.data)
			}
		}
		if last == nil || !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s: events %q, then %v", name, got, last)
		}
	}
}

// Where the stream is cut into reads must not matter.
func FuzzEvents(f *testing.F) {
	f.Add("id: 1.2\nevent: put\ndata: {}\n\n: alive\n\ndata: a\r\ndata: b\r\n\r\n")
	f.Fuzz(func(t *testing.T, stream string) {
		read := func(r io.Reader) (all []event) {
			for e, err := range events(r) {
				if err == nil {
					all = append(all, e)
				}
			}
			return all
		}
		whole, bytewise := read(strings.NewReader(stream)), read(iotest.OneByteReader(strings.NewReader(stream)))
		if !slices.Equal(whole, bytewise) {
			t.Errorf("%q\nat once %q\nbytewise %q", stream, whole, bytewise)
		}
	})
}
