package http1_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// parsed is a request as one of two readers sees it.
type parsed struct {
	method, target, host, body string
	end                        int // where the next request begins
}

// ours reads the first request of raw; ok is false when it is refused or not whole.
func ours(raw []byte) (p parsed, ok bool) {
	var h http1.RequestHead
	n, err := h.Parse(raw, 0)
	if n == 0 || err != nil {
		return p, false
	}
	p = parsed{method: h.Method, target: string(h.Target), host: string(h.Authority), end: n}
	switch h.Framing {
	case http1.ByLength:
		if h.ContentLength > int64(len(raw)-n) {
			return p, false
		}
		p.end += int(h.ContentLength)
		p.body = string(raw[n:p.end])
	case http1.ByChunks:
		body, used, _, err := decode(raw[n:], len(raw), 1<<10)
		if err != io.EOF {
			return p, false
		}
		p.body, p.end = string(body), n+used
	}
	return p, true
}

// theirs reads the first request of raw with net/http.
func theirs(raw []byte) (p parsed, err error) {
	in := bytes.NewReader(raw)
	buffered := bufio.NewReader(in)
	r, err := http.ReadRequest(buffered)
	if err != nil {
		return p, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return p, err
	}
	p = parsed{method: r.Method, target: r.RequestURI, host: r.Host, body: string(body)}
	p.end = len(raw) - in.Len() - buffered.Buffered()
	if r.URL.Host != "" { // absolute-form
		p.target = (&url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}).RequestURI()
	}
	return p, nil
}

// elsewhere are refusals of net/http that are not about where a request ends: the
// chain judges paths, and names that may not trail are ignored.
func elsewhere(err error) bool {
	var escape url.EscapeError
	return errors.As(err, &escape) || strings.Contains(err.Error(), "bad trailer key")
}

// small are the hostile requests that are quick to mutate.
func small() (rows []hostileRequest) {
	for _, row := range hostile() {
		if len(row.raw) < 500 {
			rows = append(rows, row)
		}
	}
	return rows
}

func seeds(f *testing.F) {
	for _, row := range small() {
		f.Add([]byte(row.raw))
	}
	for _, raw := range []string{
		browserRequest, getRoot + getRoot,
		"POST /a?b HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello" + getRoot,
		"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: 1\r\n\r\n" + getRoot,
		"OPTIONS * HTTP/1.1\r\n" + host + "\r\nGET http://a.example/x HTTP/1.1\r\n" + host + "\r\n",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
	} {
		f.Add([]byte(raw))
	}
}

// What we take, net/http takes, as the same requests with the same ends.
func FuzzRequests(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for len(raw) > 0 {
			got, ok := ours(raw)
			if !ok {
				return
			}
			want, err := theirs(raw)
			switch {
			case err != nil && elsewhere(err):
			case err != nil:
				t.Fatalf("%q: taken as %+v, and net/http says %v", raw, got, err)
			case strings.HasPrefix(string(raw[len(got.method)+1:]), "http") && got.target != want.target:
				got.target = want.target // it may spell the path anew
				fallthrough
			case got != want:
				if got != want {
					t.Fatalf("%q:\n  taken as %+v\nby net/http %+v", raw, got, want)
				}
			}
			raw = raw[got.end:]
		}
	})
}

// A chunked body means the same to net/http, and however it is cut.
func FuzzChunks(f *testing.F) {
	for _, row := range small() {
		if _, body, _ := strings.Cut(row.raw, "\r\n\r\n"); row.reaches {
			f.Add([]byte(body), 1, 7)
		}
	}
	f.Add([]byte("5\r\nhello\r\n1;a=b\r\n!\r\n0\r\nX: 1\r\n\r\n"), 2, 3)
	f.Fuzz(func(t *testing.T, raw []byte, in, out int) {
		data, used, trailers, err := decode(raw, 1<<20, 1<<20)
		again, usedAgain, trailersAgain, errAgain := decode(raw, max(1, in&0xff), max(1, out&0xff))
		if err != errAgain || err == nil && used != len(raw) {
			t.Fatalf("%q: %v, and in pieces %v", raw, err, errAgain)
		}
		if err == io.EOF && (!bytes.Equal(data, again) || used != usedAgain || lines(" ", trailers) != lines(" ", trailersAgain)) {
			t.Fatalf("%q: %q%s, and in pieces %q%s", raw, data, lines(" ", trailers), again, lines(" ", trailersAgain))
		}
		if err != io.EOF {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(raw[:used])))
		if err != nil || !bytes.Equal(data, want) {
			t.Fatalf("%q: %q, and net/http says %q, %v", raw, data, want, err)
		}
		inPlace := bytes.Clone(raw)
		var d http1.ChunkedDecoder
		if n, _, _ := d.Decode(inPlace, inPlace); !bytes.Equal(inPlace[:n], data) {
			t.Fatalf("%q: in place %q", raw, inPlace[:n])
		}
	})
}

// However a stream of requests is cut into writes, and whether the handler reads
// the bodies, the server sees the requests that the parser sees, and no other.
func FuzzServe(f *testing.F) {
	for _, row := range small() {
		f.Add([]byte(row.raw), uint16(3), true)
	}
	f.Add([]byte(strings.Repeat("POST / HTTP/1.1\r\n"+host+"Content-Length: 5\r\n\r\nhello"+getRoot, 5)), uint16(7), false)
	f.Add([]byte("POST / HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"+getRoot), uint16(1), true)
	f.Fuzz(func(t *testing.T, raw []byte, piece uint16, read bool) {
		var seen []string
		s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
			var body []byte
			if read && x.Request.Body != nil {
				var err error
				if body, err = io.ReadAll(x.Request.Body); err != nil {
					x.Fail(exchange.Problem{Status: 400, Code: "bad_body"})
					return
				}
			}
			seen = append(seen, fmt.Sprintf("%s %s %q", x.Request.Method, x.Request.Target, body))
			x.Response.Status = 204
		})}
		conn, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeConn(far)
		}()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		for rest := raw; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			if _, err := conn.Write(rest[:n]); err != nil {
				break // it has closed
			}
			rest = rest[n:]
		}
		conn.Close()
		<-done

		rest := raw
		for i, got := range seen {
			rest = bytes.TrimPrefix(rest, []byte("\r\n"))
			want, ok := ours(rest)
			body := want.body
			if !read {
				body = ""
			}
			last := i == len(seen)-1 && !read // its body may be broken
			if !ok && !last || got != fmt.Sprintf("%s %s %q", want.method, want.target, body) {
				t.Fatalf("%q: request %d is %s, the parser says %+v, %v", raw, i, got, want, ok)
			}
			rest = rest[min(want.end, len(rest)):]
		}
	})
}
