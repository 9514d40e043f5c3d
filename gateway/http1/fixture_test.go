package http1_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

func TestMain(m *testing.M) {
	http1.Poison()
	goleak.VerifyTestMain(m)
}

// patience bounds what a test waits for; it passes only when something is wrong.
const patience = 10 * time.Second

// listen serves with s on a port of its own until the test ends.
func listen(t testing.TB, s *http1.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// serve serves with a handler.
func serve(t testing.TB, handler exchange.HandlerFunc) string {
	t.Helper()
	return listen(t, &http1.Server{Handler: handler})
}

// client is a raw connection to a server.
type client struct {
	testing.TB
	net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(raw string) {
	c.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		c.Fatal(err)
	}
}

// receive reads a response to a request with this method, and its body.
func (c *client) receive(method string) (*http.Response, string) {
	c.Helper()
	response, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err != nil {
		c.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatalf("%s, then %q: %v", response.Status, body, err)
	}
	return response, string(body)
}

// expect reads exactly these bytes. A line "Date: *" is any date.
func (c *client) expect(want string) {
	c.Helper()
	for i, line := range strings.SplitAfter(want, "\n") {
		var got string
		var err error
		if strings.HasSuffix(line, "\n") {
			got, err = c.in.ReadString('\n')
		} else {
			b := make([]byte, len(line))
			var n int
			n, err = io.ReadFull(c.in, b)
			got = string(b[:n])
		}
		if line == "Date: *\r\n" && strings.HasPrefix(got, "Date: ") && len(got) == len("Date: \r\n")+len(http.TimeFormat) {
			continue
		}
		if err != nil || got != line {
			rest, _ := c.in.Peek(c.in.Buffered())
			c.Fatalf("line %d: got %q (%v), want %q; then %q", i+1, got, err, line, rest)
		}
	}
}

// ends reads to the connection's end, and tells what came and whether the end was
// a clean one.
func (c *client) ends() (rest string, clean bool) {
	c.Helper()
	b, err := io.ReadAll(c.in)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.Fatalf("the connection stays open behind %q", b)
	}
	return string(b), err == nil
}

func (c *client) mustEnd() {
	c.Helper()
	if rest, clean := c.ends(); rest != "" || !clean {
		c.Fatalf("the connection ends with %q, cleanly: %v", rest, clean)
	}
}

// text answers 200 with a body.
func text(x *exchange.Exchange, body string) {
	x.Response.Status = 200
	x.Response.Body, x.Response.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

// stream answers 200 with a body of unknown length.
func stream(x *exchange.Exchange, body io.Reader) {
	x.Response.Status = 200
	x.Response.Body, x.Response.ContentLength = io.NopCloser(body), -1
}

// echo answers with the request's line and body, or with why that can't be read.
func echo(x *exchange.Exchange) {
	var body []byte
	if x.Request.Body != nil {
		var err error
		body, err = io.ReadAll(x.Request.Body)
		var refusal *http1.Refusal
		if errors.As(err, &refusal) {
			x.Fail(exchange.Problem{Status: refusal.Status, Code: refusal.Code})
			return
		} else if err != nil {
			x.Fail(exchange.Problem{Status: 400, Code: "bad_request_body", Detail: err.Error()})
			return
		}
	}
	// After the body, which must have left the head as it was.
	text(x, x.Request.Method+" "+string(x.Request.Target)+"\n"+string(bytes.TrimSpace(body)))
}

func itoa(n int) string { return strconv.Itoa(n) }

// code is the code of a problem document.
func code(document string) string {
	_, title, _ := strings.Cut(document, `"title":"`)
	code, _, _ := strings.Cut(title, `"`)
	return code
}

func newReader(conn net.Conn) *bufio.Reader { return bufio.NewReader(conn) }

// noDescriptors is what accept says under ulimit -n.
var noDescriptors = &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
