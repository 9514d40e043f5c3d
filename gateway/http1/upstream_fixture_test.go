package http1_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// longWait bounds what a test waits for.
const longWait = 10 * time.Second

// wide are bounds that no test reaches.
var wide = exchange.Bounds{Timeout: time.Minute, Idle: time.Minute, Connect: time.Minute}

// destination is a server of raw bytes that an upstream talks to.
type destination struct {
	t        *testing.T
	listener net.Listener
	serve    func(c *visit)
	visits   atomic.Int32 // connections so far
	open     sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

// visit is one connection to a destination.
type visit struct {
	net.Conn
	in *bufio.Reader
	n  int // 1 for the destination's first
}

// serveRaw serves each connection by serve, and closes it when serve returns.
func serveRaw(t *testing.T, serve func(c *visit)) *destination {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &destination{t: t, listener: listener, serve: serve}
	d.open.Go(d.accept)
	t.Cleanup(func() {
		listener.Close()
		d.mu.Lock()
		for _, conn := range d.conns {
			conn.Close()
		}
		d.mu.Unlock()
		d.open.Wait()
	})
	return d
}

func (d *destination) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		c := newVisit(conn, int(d.visits.Add(1)))
		d.mu.Lock()
		d.conns = append(d.conns, conn)
		d.mu.Unlock()
		d.open.Go(func() {
			defer conn.Close()
			d.serve(c)
		})
	}
}

func (d *destination) origin() *url.URL {
	return &url.URL{Scheme: "http", Host: d.listener.Addr().String()}
}

func newVisit(conn net.Conn, n int) *visit {
	return &visit{Conn: conn, in: bufio.NewReader(conn), n: n}
}

// nowhere is an origin that a test dials by itself.
var nowhere = &url.URL{Scheme: "http", Host: "nowhere.example:80"}

// request reads a request with its body, or nil when the connection ends.
func (c *visit) request() *http.Request {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// head reads up to the empty line.
func (c *visit) head() string {
	var head strings.Builder
	for {
		line, err := c.in.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}

func (c *visit) say(s string) { _, _ = io.WriteString(c, s) }

// untilClosed waits for the other side to close.
func (c *visit) untilClosed() { _, _ = io.Copy(io.Discard, c.in) }

// answers gives every request the same response.
func answers(response string) func(c *visit) {
	return func(c *visit) {
		for c.request() != nil {
			c.say(response)
		}
	}
}

const helloOK = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// newUpstream makes an upstream that leaves nothing behind.
func newUpstream(t testing.TB, d *destination) *http1.Upstream {
	return newUpstreamTo(t, d.origin(), http1.UpstreamOptions{})
}

func newUpstreamTo(t testing.TB, origin *url.URL, options http1.UpstreamOptions) *http1.Upstream {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	u := http1.NewUpstream(origin, options)
	t.Cleanup(func() {
		u.Close()
		goleak.VerifyNone(t, leaks)
	})
	return u
}

// ask makes an exchange. The body is none when it is nil, and its length
// is unknown when it is negative.
func ask(method, target string, fields ...string) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset(context.Background())
	x.Request.Method, x.Request.Target = method, []byte(target)
	x.Request.Authority = []byte("a.example")
	for i := 0; i < len(fields); i += 2 {
		x.Request.Fields.Add(fields[i], []byte(fields[i+1]))
	}
	return x
}

func withBody(x *exchange.Exchange, body io.Reader, length int64) *exchange.Exchange {
	x.Request.Body, x.Request.ContentLength = body, length
	return x
}

// inMemory is a request's body that the front has in memory.
type inMemory struct{ *bytes.Buffer }

func (b inMemory) Buffered() int { return b.Len() }

func memory(s string) inMemory { return inMemory{bytes.NewBufferString(s)} }

// outcome sends x, reads the response to its end, finishes, and says what came of
// it: "200 body", "200 body, then cut", or the failed phase and its cause.
func outcome(u *http1.Upstream, x *exchange.Exchange, b exchange.Bounds) string {
	if err := u.RoundTrip(x, b); err != nil {
		return failed(err)
	}
	body, err := io.ReadAll(x.Response.Body)
	got := fmt.Sprintf("%d %s", x.Response.Status, body)
	if err != nil {
		got += ", then cut"
	}
	x.Finish(err)
	return got
}

func failed(err error) string {
	var attempt *exchange.AttemptError
	if !errors.As(err, &attempt) {
		return "no attempt error: " + err.Error()
	}
	return fmt.Sprintf("%s: %v", attempt.Phase, attempt.Err)
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %.200q\nwant %.200q", what, got, want)
	}
}

// await waits for something to happen.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(longWait):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}
