package http1_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// decode decodes src in pieces of a size, into pieces of another.
func decode(src []byte, in, out int) (data []byte, used int, trailers exchange.Fields, err error) {
	var d http1.ChunkedDecoder
	dst := make([]byte, out)
	for {
		piece := src[used:min(used+in, len(src))]
		if len(piece) == 0 {
			return data, used, d.Trailers, nil
		}
		nd, ns, err := d.Decode(dst, piece)
		data, used = append(data, dst[:nd]...), used+ns
		if err != nil {
			return data, used, d.Trailers, err
		}
	}
}

func TestDecodeChunks(t *testing.T) {
	for raw, want := range map[string]string{
		"0\r\n\r\n":                              "",
		"5\r\nhello\r\n0\r\n\r\n":                "hello",
		"5;ext=1;b=\"c\"\r\nhello\r\n00\r\n\r\n": "hello",
		"1\r\na\r\n0000000000000002\r\nbc\r\n0\r\nX: 1\r\nHost: b\r\nY:\r\n\r\n": `abc X="1" Y=""`,
		"A\r\n0123456789\r\na\r\n0123456789\r\n0;\r\n\r\n":                       "01234567890123456789",
	} {
		for _, in := range []int{1, 2, 3, 1000} {
			for _, out := range []int{1, 7, 1000} {
				data, used, trailers, err := decode([]byte(raw+"next"), in, out)
				if err != io.EOF || used != len(raw) || string(data)+lines(" ", trailers) != want {
					t.Errorf("%q in %d, out %d: got %q%s, %d bytes, %v", raw, in, out, data, lines(" ", trailers), used, err)
				}
			}
		}
	}
}

func TestChunkedBodiesThatAreRefused(t *testing.T) {
	for _, row := range hostile() {
		if !row.reaches {
			continue
		}
		_, body, _ := strings.Cut(row.raw, "\r\n\r\n")
		for _, in := range []int{1, 1 << 20} {
			if _, _, _, err := decode([]byte(body), in, 100); refusal(err) != row.want {
				t.Errorf("%s: got %s, want %s", row.name, refusal(err), row.want)
			}
		}
	}
}

func TestDecodeInPlace(t *testing.T) {
	b := []byte("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
	var d http1.ChunkedDecoder
	nd, ns, err := d.Decode(b, b)
	if string(b[:nd]) != "hello world" || ns != len(b) || err != io.EOF {
		t.Errorf("got %q, %d, %v", b[:nd], ns, err)
	}
}

// Whoever reads a chunk's data past the decoder tells it.
func TestSkipChunkData(t *testing.T) {
	var d http1.ChunkedDecoder
	if _, _, err := d.Decode(nil, []byte("5\r\n")); err != nil || d.Data() != 5 {
		t.Fatal(err, d.Data())
	}
	d.Skip(3)
	if d.Data() != 2 {
		t.Error(d.Data())
	}
	d.Skip(2)
	if _, ns, err := d.Decode(nil, []byte("\r\n0\r\n\r\n")); ns != 7 || err != io.EOF {
		t.Error(ns, err)
	}
}

func TestWriteChunks(t *testing.T) {
	b := http1.AppendChunk(nil, []byte("hello"))
	b = http1.AppendChunk(b, nil)
	var headroom [http1.ChunkHeadroom]byte
	begin := http1.PutChunkHead(headroom[:], len(headroom), 0x7fffffffffffffff)
	if got := string(headroom[begin:]); got != "7fffffffffffffff\r\n" {
		t.Errorf("got %q", got)
	}
	begin = http1.PutChunkHead(headroom[:], len(headroom), 16)
	b = append(b, headroom[begin:]...)
	b = append(b, "0123456789abcdef\r\n"...)
	b = http1.AppendLastChunk(b, exchange.Fields{
		{Name: []byte("X"), Value: []byte("1")},
		{Name: []byte("Announced")},
		{Name: []byte("Evil"), Value: []byte("a\r\nB: c")},
		{Name: []byte("Content-Length"), Value: []byte("1")},
	})
	want := "5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nX: 1\r\n\r\n"
	if string(b) != want {
		t.Errorf("got %q, want %q", b, want)
	}
	data, _, _, err := decode(b, 5, 3)
	if !bytes.Equal(data, []byte("hello0123456789abcdef")) || err != io.EOF {
		t.Errorf("got %q, %v", data, err)
	}
}
