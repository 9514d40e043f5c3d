package http1_test

import (
	"fmt"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

func response(h *http1.ResponseHead) string {
	s := fmt.Sprintf("%d 1.%d %s %d", h.Status, h.Minor, framing(h.Framing), h.ContentLength)
	if h.KeepAlive {
		s += " keep"
	}
	if h.Upgrade != "" {
		s += " upgrade=" + h.Upgrade
	}
	return s + lines(" ", h.Fields) + lines(" trailer ", h.Trailers)
}

func TestResponseHeads(t *testing.T) {
	const ok, length, chunked = "HTTP/1.1 200 OK\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"
	for _, row := range []struct{ method, raw, want string }{
		{"GET", ok + length + "X: 1\r\n\r\n", `200 1.1 length 5 keep X="1"`},
		{"GET", ok + chunked + "Trailer: a\r\n\r\n", `200 1.1 chunks -1 keep Trailer="a" trailer a=""`},
		{"GET", ok + "\r\n", "200 1.1 close -1"},
		{"GET", "HTTP/1.0 200 OK\r\n\r\n", "200 1.0 close -1"},
		{"GET", "HTTP/1.0 200 OK\r\n" + length + "\r\n", "200 1.0 length 5"},
		{"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + length + "\r\n", `200 1.0 length 5 keep Connection="keep-alive"`},
		{"GET", ok + length + "Connection: close\r\n\r\n", `200 1.1 length 5 Connection="close"`},
		{"GET", "HTTP/1.1 200\r\n" + length + "\r\n", "200 1.1 length 5 keep"},
		{"GET", "HTTP/1.1 299 \xe9t\xe9\r\n" + length + "\r\n", "299 1.1 length 5 keep"},
		// RFC 9112 §6.3 item 1.
		{"HEAD", ok + length + "\r\n", "200 1.1 none 5 keep"},
		{"HEAD", ok + chunked + "\r\n", "200 1.1 none -1 keep"},
		{"HEAD", ok + "\r\n", "200 1.1 none -1 keep"},
		{"GET", "HTTP/1.1 304 Not Modified\r\n" + length + "\r\n", "304 1.1 none 5 keep"},
		{"GET", "HTTP/1.1 304 Not Modified\r\n\r\n", "304 1.1 none -1 keep"},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", "204 1.1 none -1 keep"},
		{"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204 1.1 none -1 keep"},
		{"GET", "HTTP/1.1 204 No Content\r\n" + length + "\r\n", "204 1.1 none -1"},
		{"GET", "HTTP/1.1 204 No Content\r\n" + chunked + "\r\n", "204 1.1 none -1"},
		{"GET", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", `103 1.1 none -1 keep Link="a"`},
		{"GET", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", `101 1.1 none -1 keep upgrade=websocket Connection="upgrade" Upgrade="websocket"`},
		{"GET", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n", `101 1.1 none -1 keep Connection="upgrade" Upgrade="foo"`},
		{"GET", "HTTP/1.1 200 OK\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" + length + "\r\n", `200 1.1 length 5 keep Connection="upgrade" Upgrade="websocket"`},
		// A server's Host and Expect are fields like others.
		{"GET", ok + length + "Host: a b\r\nExpect: x\r\n\r\n", `200 1.1 length 5 keep Host="a b" Expect="x"`},
	} {
		var h http1.ResponseHead
		n, err := h.Parse([]byte(row.raw+"next"), 0, row.method)
		if err != nil || n != len(row.raw) {
			t.Errorf("%q: got %d bytes, %v", row.raw, n, err)
			continue
		}
		if got := response(&h); got != row.want {
			t.Errorf("%s %q:\n got %s\nwant %s", row.method, row.raw, got, row.want)
		}
	}
}

func TestResponseHeadsThatAreRefused(t *testing.T) {
	const ok, length, chunked = "HTTP/1.1 200 OK\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"
	for raw, want := range map[string]string{
		"HTTP/1.1 20 OK\r\n\r\n":                          "bad_status_line",
		"HTTP/1.1 2000 OK\r\n\r\n":                        "bad_status_line",
		"HTTP/1.1 099 OK\r\n\r\n":                         "bad_status_line",
		"HTTP/1.1 600 OK\r\n\r\n":                         "bad_status_line",
		"HTTP/1.1  200 OK\r\n\r\n":                        "bad_status_line",
		"HTTP/2.0 200 OK\r\n\r\n":                         "bad_status_line",
		"HTTP/1.2 200 OK\r\n\r\n":                         "bad_status_line",
		"http/1.1 200 OK\r\n\r\n":                         "bad_status_line",
		"\r\nHTTP/1.1 200 OK\r\n\r\n":                     "bad_status_line",
		"SSH-2.0-OpenSSH_9":                               "bad_status_line",
		"HTTP/1.1 200 OK\n\n":                             "bare_lf",
		"HTTP/1.1 200 O\x00K\r\n\r\n":                     "control_in_field",
		ok + "X: 1\r\n 2\r\n\r\n":                         "folded_line",
		ok + "X : 1\r\n\r\n":                              "space_before_colon",
		ok + "X: a\rb\r\n\r\n":                            "bare_cr",
		ok + length + chunked + "\r\n":                    "length_and_coding",
		ok + length + length + "\r\n":                     "many_content_lengths",
		ok + "Content-Length: 5,5\r\n\r\n":                "bad_content_length",
		ok + chunked + chunked + "\r\n":                   "bad_transfer_encoding",
		ok + "Transfer-Encoding: gzip, chunked\r\n\r\n":   "coding_not_supported",
		"HTTP/1.0 200 OK\r\n" + chunked + "\r\n":          "coding_in_http10",
		"HTTP/1.1 204 OK\r\n" + length + chunked + "\r\n": "length_and_coding",
		"HTTP/1.1 304 OK\r\nContent-Length: x\r\n\r\n":    "bad_content_length",
	} {
		var h http1.ResponseHead
		_, err := h.Parse([]byte(raw), 0, "GET")
		refused, is := err.(*http1.Refusal)
		if !is || refused.Code != want {
			t.Errorf("%q: got %v, want %s", raw, refusal(err), want)
		}
	}
}

func TestWriteHeads(t *testing.T) {
	fields := exchange.Fields{
		{Name: []byte("X"), Value: []byte("1")},
		{Name: []byte("content-length"), Value: []byte("99")},
		{Name: []byte("Transfer-Encoding"), Value: []byte("gzip")},
		{Name: []byte("host"), Value: []byte("evil")},
		{Name: []byte("Connection"), Value: []byte("x")},
		{Name: []byte("x"), Value: nil},
	}
	request := exchange.Request{Method: "GET", Target: []byte("/a?b"), Authority: []byte("c:1"), Fields: fields, ContentLength: -1}
	check := func(name string, got []byte, err error, want string) {
		t.Helper()
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
	const begin = "GET /a?b HTTP/1.1\r\nHost: c:1\r\nX: 1\r\nx: \r\n"
	got, err := http1.AppendRequestHead(nil, &request)
	check("no body", got, err, begin+"\r\n")
	request.Upgrade = "websocket"
	got, err = http1.AppendRequestHead(nil, &request)
	check("upgrade", got, err, begin+"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	request.Upgrade, request.Body, request.ContentLength = "", http1body{}, 3
	got, err = http1.AppendRequestHead([]byte("_"), &request)
	check("length", got, err, "_"+begin+"Content-Length: 3\r\n\r\n")
	request.Trailers = exchange.Fields{{Name: []byte("T")}}
	got, err = http1.AppendRequestHead(nil, &request)
	check("chunks", got, err, begin+"Transfer-Encoding: chunked\r\nTrailer: T\r\n\r\n")
	got, err = http1.AppendRequestHead(nil, &exchange.Request{Method: "POST", Target: []byte("*"), Authority: []byte("h")})
	check("post without a body", got, err, "POST * HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")

	resp := exchange.Response{Status: 200, Fields: fields[:2]}
	got, err = http1.AppendResponseHead(nil, &resp, http1.ByLength, 0, "")
	check("200", got, err, "HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 0\r\n\r\n")
	resp.Status = 599
	got, err = http1.AppendResponseHead(nil, &resp, http1.ByChunks, 7, "close")
	check("599", got, err, "HTTP/1.1 599 \r\nX: 1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
	got, err = http1.AppendResponseHead(nil, &resp, http1.NoBody, -1, "")
	check("no body", got, err, "HTTP/1.1 599 \r\nX: 1\r\n\r\n")
}

type http1body struct{}

func (http1body) Read([]byte) (int, error) { panic("a head is written without its body") }

// What would split a message is never written (RFC 9112 §11.1).
func TestHeadsThatCannotBeWritten(t *testing.T) {
	field := func(name, value string) exchange.Fields {
		return exchange.Fields{{Name: []byte(name), Value: []byte(value)}}
	}
	for name, r := range map[string]exchange.Request{
		"LF in a value":     {Method: "GET", Target: []byte("/"), Fields: field("X", "1\nY: 2")},
		"CR in a value":     {Method: "GET", Target: []byte("/"), Fields: field("X", "1\r")},
		"NUL in a value":    {Method: "GET", Target: []byte("/"), Fields: field("X", "\x00")},
		"colon in a name":   {Method: "GET", Target: []byte("/"), Fields: field("X: 1\r\nY", "1")},
		"no name":           {Method: "GET", Target: []byte("/"), Fields: field("", "1")},
		"space in target":   {Method: "GET", Target: []byte("/ HTTP/1.1\r\nX:")},
		"no target":         {Method: "GET"},
		"space in method":   {Method: "GET /", Target: []byte("/")},
		"no method":         {Target: []byte("/")},
		"CRLF in authority": {Method: "GET", Target: []byte("/"), Authority: []byte("a\r\nX: 1")},
	} {
		got, err := http1.AppendRequestHead([]byte("_"), &r)
		if err == nil || string(got) != "_" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if _, err := http1.AppendResponseHead(nil, &exchange.Response{Status: 200, Fields: field("X", "a\r\n")}, http1.NoBody, 0, ""); err == nil {
		t.Error("a response was split")
	}
	if _, err := http1.AppendResponseHead(nil, &exchange.Response{Status: 99}, http1.NoBody, 0, ""); err == nil {
		t.Error("status 99 was written")
	}
}
