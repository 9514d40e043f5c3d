package http1_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// canned is a connection that has some bytes to read, piece by piece, and then an
// end. It counts what is read past the first response.
type canned struct {
	net.Conn
	rest   []byte
	piece  int
	closed bool
}

func (c *canned) Read(p []byte) (int, error) {
	if len(c.rest) == 0 || c.closed {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *canned) Write(p []byte) (int, error)      { return len(p), nil }
func (c *canned) Close() error                     { c.closed = true; return nil }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

// got is what an exchange made of a response.
type got struct {
	err      error // of the head
	status   int
	body     string
	bodyErr  error
	trailers string
	reused   bool
}

func carry(t *testing.T, method string, response []byte, piece int) got {
	conn := &canned{rest: response, piece: piece}
	u := http1.NewUpstream(nowhere, http1.UpstreamOptions{Dial: func(context.Context, string, string) (net.Conn, error) {
		return conn, nil
	}})
	defer u.Close()
	x := ask(method, "/")
	x.Interim = func(status int, _ exchange.Fields) {
		if status < 100 || status > 199 || status == 101 {
			t.Errorf("interim %d", status)
		}
	}
	if err := u.RoundTrip(x, wide); err != nil {
		if all, _ := u.Links(); all != 0 || !conn.closed {
			t.Error("a connection is left")
		}
		return got{err: err}
	}
	g := got{status: x.Response.Status}
	body, err := io.ReadAll(x.Response.Body)
	g.body, g.bodyErr, g.trailers = string(body), err, listed(x.Response.Trailers)
	x.Finish(err)
	_, idle := u.Links()
	if g.reused = idle == 1; g.reused == conn.closed {
		t.Error("a connection is neither kept nor closed")
	}
	return g
}

// Whatever comes: what is taken, net/http takes for the same; the pieces in which
// it came don't matter; and a connection is kept only when all of it was the
// response.
func FuzzUpstreamResponse(f *testing.F) {
	for _, row := range hostileResponses() {
		if len(row.bytes) < 2000 {
			f.Add([]byte(row.bytes), "GET", 3)
		}
	}
	f.Add([]byte(helloOK), "HEAD", 100)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: 1\r\n\r\n"), "GET", 1)
	f.Fuzz(func(t *testing.T, response []byte, method string, piece int) {
		if method = strings.ToUpper(method); method != "HEAD" {
			method = "GET"
		}
		g := carry(t, method, response, 1<<20)
		if other := carry(t, method, response, max(1, piece&0xff)); (g.err == nil) != (other.err == nil) ||
			g.status != other.status || g.body != other.body || (g.bodyErr == nil) != (other.bodyErr == nil) || g.trailers != other.trailers {
			t.Fatalf("%q at once: %+v, in pieces: %+v", response, g, other)
		}
		if g.err == nil {
			compare(t, method, response, g)
		}
	})
}

// compare compares what was taken with what net/http takes.
func compare(t *testing.T, method string, response []byte, g got) {
	in := bytes.NewReader(response)
	r := bufio.NewReader(in)
	var want *http.Response
	for want == nil || want.StatusCode < 200 {
		var err error
		if want, err = http.ReadResponse(r, &http.Request{Method: method}); err != nil {
			t.Fatalf("%q: got %+v, and net/http says %v", response, g, err)
		}
	}
	body, err := io.ReadAll(want.Body)
	if want.StatusCode == http.StatusResetContent {
		return // it has no content for us, whatever comes
	}
	if g.status != want.StatusCode {
		t.Errorf("%q: status %d, net/http has %d", response, g.status, want.StatusCode)
	}
	if g.bodyErr == nil && (err != nil || g.body != string(body)) {
		t.Errorf("%q: got %q, net/http has %q, %v", response, g.body, body, err)
	}
	if g.bodyErr != nil && !strings.HasPrefix(string(body), g.body) && err == nil {
		t.Errorf("%q: got %q before the break, net/http has %q", response, g.body, body)
	}
	if rest, _ := io.ReadAll(r); g.reused && len(rest) > 0 {
		t.Errorf("%q: the connection is kept with %q left", response, rest)
	}
}
