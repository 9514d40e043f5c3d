package http1_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// refusal is the status and code of err.
func refusal(err error) string {
	var r *http1.Refusal
	if !errors.As(err, &r) {
		return fmt.Sprint(err)
	}
	return fmt.Sprint(r.Status, " ", r.Code)
}

// request describes a parsed head in one line.
func request(h *http1.RequestHead) string {
	s := fmt.Sprintf("%s %s host=%s 1.%d %s %d", h.Method, h.Target, h.Authority, h.Minor, framing(h.Framing), h.ContentLength)
	for flag, set := range map[string]bool{" keep": h.KeepAlive} {
		if set {
			s += flag
		}
	}
	if h.ExpectContinue {
		s += " expect"
	}
	if h.Upgrade != "" {
		s += " upgrade=" + h.Upgrade
	}
	return s + lines(" ", h.Fields) + lines(" trailer ", h.Trailers)
}

func lines(prefix string, fields exchange.Fields) (s string) {
	for _, f := range fields {
		s += fmt.Sprintf("%s%s=%q", prefix, f.Name, f.Value)
	}
	return s
}

func framing(f http1.Framing) string {
	return [...]string{"none", "length", "chunks", "close"}[f]
}

const host = "Host: a.example\r\n"

func TestRequestHeads(t *testing.T) {
	for raw, want := range map[string]string{
		"GET / HTTP/1.1\r\n" + host + "\r\n":                                         "GET / host=a.example 1.1 none -1 keep",
		"GET /a/../b?x=%zz&y HTTP/1.1\r\n" + host + "X: 1\r\nx:\t2 \t\r\ny:\r\n\r\n": `GET /a/../b?x=%zz&y host=a.example 1.1 none -1 keep X="1" x="2" y=""`,
		"GET //b/ HTTP/1.1\r\nhOST:A.example:8080\r\n\r\n":                           "GET //b/ host=A.example:8080 1.1 none -1 keep",
		"GET / HTTP/1.0\r\n\r\n":                                                     "GET / host= 1.0 none -1",
		"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n":                           `GET / host= 1.0 none -1 keep Connection="Keep-Alive"`,
		"GET / HTTP/1.1\r\n" + host + "Connection: a, CLOSE\r\n\r\n":                 `GET / host=a.example 1.1 none -1 Connection="a, CLOSE"`,
		"GET / HTTP/1.1\r\n" + host + "Connection: keep-alive,close\r\n\r\n":         `GET / host=a.example 1.1 none -1 Connection="keep-alive,close"`,
		"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n":                                   "GET / host=[::1]:80 1.1 none -1 keep",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                  "GET / host=127.0.0.1 1.1 none -1 keep",
		"GET / HTTP/1.1\r\nHost: my_host-1~.x:0\r\n\r\n":                             "GET / host=my_host-1~.x:0 1.1 none -1 keep",
		"OPTIONS * HTTP/1.1\r\n" + host + "\r\n":                                     "OPTIONS * host=a.example 1.1 none -1 keep",
		"OPTIONS http://a.example HTTP/1.1\r\n" + host + "\r\n":                      "OPTIONS * host=a.example 1.1 none -1 keep",
		"GET http://a.example HTTP/1.1\r\n" + host + "\r\n":                          "GET / host=a.example 1.1 none -1 keep",
		"GET HTTP://A.EXAMPLE?q HTTP/1.1\r\n" + host + "\r\n":                        "GET /?q host=A.EXAMPLE 1.1 none -1 keep",
		"GET https://a.example/b?c HTTP/1.0\r\n\r\n":                                 "GET /b?c host=a.example 1.0 none -1",
		"X-Y!# / HTTP/1.1\r\n" + host + "\r\n":                                       "X-Y!# / host=a.example 1.1 none -1 keep",
		"get / HTTP/1.1\r\n" + host + "\r\n":                                         "get / host=a.example 1.1 none -1 keep",
		"GET / HTTP/1.1\r\n" + host + "Obs: caf\xe9 \x80\r\n\r\n":                    `GET / host=a.example 1.1 none -1 keep Obs="caf\xe9 \x80"`,

		"POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n":                                    "POST / host=a.example 1.1 length 0 keep",
		"POST / HTTP/1.1\r\n" + host + "content-length:\t0042 \r\n\r\n":                               "POST / host=a.example 1.1 length 42 keep",
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 9223372036854775807\r\n\r\n":                  "POST / host=a.example 1.1 length 9223372036854775807 keep",
		"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: Chunked\r\n\r\n":                           "POST / host=a.example 1.1 chunks -1 keep",
		"POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n":                        `POST / host= 1.0 length 3 Expect="100-continue"`,
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nExpect: 100-Continue\r\n\r\n":            `POST / host=a.example 1.1 length 3 keep expect Expect="100-Continue"`,
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\nExpect: 100-continue\r\n\r\n":            `POST / host=a.example 1.1 length 0 keep Expect="100-continue"`,
		"PUT / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTrailer: X-A, Host,,b d\r\n\r\n": `PUT / host=a.example 1.1 chunks -1 keep Trailer="X-A, Host,,b d" trailer X-A=""`,

		"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n":                      `GET / host=a.example 1.1 none -1 keep upgrade=websocket Connection="Upgrade" Upgrade="WebSocket"`,
		"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n":                            `GET / host=a.example 1.1 none -1 keep Connection="Upgrade" Upgrade="h2c"`,
		"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n":                 `GET / host=a.example 1.1 none -1 keep Connection="Upgrade" Upgrade="websocket, h2c"`,
		"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n\r\n":      `GET / host=a.example 1.1 none -1 keep Connection="Upgrade" Upgrade="h2c" Upgrade="websocket"`,
		"GET / HTTP/1.1\r\n" + host + "Upgrade: websocket\r\n\r\n":                                             `GET / host=a.example 1.1 none -1 keep Upgrade="websocket"`,
		"GET / HTTP/1.0\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n":                      `GET / host=a.example 1.0 none -1 Connection="Upgrade" Upgrade="websocket"`,
		"POST / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n":                     `POST / host=a.example 1.1 none -1 keep Connection="Upgrade" Upgrade="websocket"`,
		"GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n": `GET / host=a.example 1.1 length 1 keep Connection="Upgrade" Upgrade="websocket"`,
	} {
		var h http1.RequestHead
		n, err := h.Parse([]byte(raw+"next"), 0)
		if err != nil || n != len(raw) {
			t.Errorf("%q: got %d bytes, %v", raw, n, err)
			continue
		}
		if got := request(&h); got != want {
			t.Errorf("%q:\n got %s\nwant %s", raw, got, want)
		}
	}
}

func TestRequestHeadsThatAreRefused(t *testing.T) {
	for _, row := range hostile() {
		want := row.want
		if row.reaches {
			want = "<nil>"
		}
		var h http1.RequestHead
		if _, err := h.Parse([]byte(row.raw), 0); refusal(err) != want {
			t.Errorf("%s: got %s, want %s (RFC %s)", row.name, refusal(err), want, row.rfc)
		}
	}
}

// Every head is refused or taken alike however it is cut into reads, and what is
// refused is refused as soon as the line that is at fault has ended.
func TestRequestHeadsInPieces(t *testing.T) {
	for _, row := range hostile() {
		whole := []byte(row.raw)
		var h http1.RequestHead
		n, err := h.Parse(whole, 0)
		var pieces http1.RequestHead
		for end := 1; end <= len(whole); end++ {
			m, pieceErr := pieces.Parse(whole[:end], end-1)
			if m == 0 && pieceErr == nil {
				continue
			}
			if m != n || refusal(pieceErr) != refusal(err) {
				t.Errorf("%s: in pieces of one byte got %d, %v at byte %d, whole %d, %v", row.name, m, pieceErr, end, n, err)
			}
			break
		}
	}
}

func TestRequestHeadLimits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	line := len("GET / HTTP/1.1\r\n")
	for name, row := range map[string]struct{ raw, want string }{
		"line of 8 KiB":            {"GET /" + long(http1.MaxRequestLine-line) + " HTTP/1.1\r\n" + host + "\r\n", "<nil>"},
		"line above 8 KiB":         {"GET /" + long(http1.MaxRequestLine-line+1) + " HTTP/1.1\r\n" + host + "\r\n", "414 target_too_long"},
		"endless line":             {"GET /" + long(http1.MaxRequestLine), "414 target_too_long"},
		"endless method":           {long(40), "501 method_too_long"},
		"100 fields":               {"GET / HTTP/1.1\r\n" + host + strings.Repeat("a:\r\n", 99) + "\r\n", "<nil>"},
		"101 fields":               {"GET / HTTP/1.1\r\n" + host + strings.Repeat("a:\r\n", 100), "431 too_many_fields"},
		"head above 64 KiB":        {"GET / HTTP/1.1\r\n" + host + "a: " + long(http1.MaxHead) + "\r\n\r\n", "431 head_too_large"},
		"endless value":            {"GET / HTTP/1.1\r\n" + host + "a: " + long(http1.MaxHead), "431 head_too_large"},
		"endless name":             {"GET / HTTP/1.1\r\n" + host + long(http1.MaxHead), "431 head_too_large"},
		"60 KiB in one field":      {"GET / HTTP/1.1\r\n" + host + "a: " + long(60<<10) + "\r\n\r\n", "<nil>"},
		"60 KiB, not ended so far": {"GET / HTTP/1.1\r\n" + host + "a: " + long(60<<10), "<nil>"},
	} {
		var h http1.RequestHead
		if _, err := h.Parse([]byte(row.raw), 0); refusal(err) != row.want {
			t.Errorf("%s: got %s, want %s", name, refusal(err), row.want)
		}
	}
}

func TestParsingAllocatesNothing(t *testing.T) {
	raw := []byte(browserRequest)
	var h http1.RequestHead
	var r http1.ResponseHead
	response := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: x\r\nContent-Length: 5\r\n\r\n")
	out := make([]byte, 0, 4096)
	x := exchange.Request{Method: "GET", Target: []byte("/a"), Authority: []byte("b"), Fields: exchange.Fields{{Name: []byte("C"), Value: []byte("d")}}}
	if n := testing.AllocsPerRun(100, func() {
		if n, err := h.Parse(raw, 0); n != len(raw) || err != nil {
			t.Fatal(n, err)
		}
		if n, err := r.Parse(response, 0, "GET"); n != len(response) || err != nil {
			t.Fatal(n, err)
		}
		if _, err := http1.AppendRequestHead(out, &x); err != nil {
			t.Fatal(err)
		}
		if _, err := http1.AppendResponseHead(out, &exchange.Response{Status: 200}, http1.ByLength, 5, ""); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

const browserRequest = "GET /api/v1/orders/12345?expand=lines HTTP/1.1\r\nHost: shop.example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\nAccept: application/json\r\n" +
	"Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef\r\nReferer: https://shop.example.com/\r\nCache-Control: no-cache\r\n\r\n"

func BenchmarkParseRequest(b *testing.B) {
	raw := []byte(browserRequest)
	var h http1.RequestHead
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Parse(raw, 0); err != nil {
			b.Fatal(err)
		}
	}
}
