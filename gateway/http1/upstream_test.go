package http1_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// recorder keeps what is written to a connection, write by write.
type recorder struct {
	net.Conn
	mu     sync.Mutex // guards writes
	writes []string
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.writes = append(r.writes, string(p))
	r.mu.Unlock()
	return r.Conn.Write(p)
}

// dialer makes connections and records the last.
func dialer(to **recorder) http1.UpstreamOptions {
	return http1.UpstreamOptions{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		*to = &recorder{Conn: conn}
		return *to, err
	}}
}

// A request whose body is in memory goes out in one write.
func TestUpstreamRequestsOnTheWire(t *testing.T) {
	trailed := withBody(ask("POST", "/t"), memory("hello"), 5)
	trailed.Request.Trailers.Add("X-Sum", []byte("1"))
	for _, row := range []struct {
		name string
		x    *exchange.Exchange
		want string
	}{
		{"plain", ask("GET", "/a%2Fb?c", "X-B", "1", "x-a", ""), "GET /a%2Fb?c HTTP/1.1\r\nHost: a.example\r\nX-B: 1\r\nx-a: \r\n\r\n"},
		{"framing of its own", ask("GET", "/", "Content-Length", "5", "Transfer-Encoding", "chunked", "Host", "b", "Connection", "close"), "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"},
		{"no body of a POST", ask("POST", "/"), "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n"},
		{"body by length", withBody(ask("PUT", "/"), memory("hello"), 5), "PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello"},
		{"empty body", withBody(ask("PUT", "/"), memory(""), 0), "PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n"},
	} {
		d := serveRaw(t, answers(helloOK))
		var conn *recorder
		u := newUpstreamTo(t, d.origin(), dialer(&conn))
		expect(t, row.name, outcome(u, row.x, wide), "200 hello")
		expect(t, row.name, strings.Join(conn.writes, "|"), row.want)
	}
}

// A body that is not in memory, or is not known to end there, follows in writes of
// its own.
func TestUpstreamStreamedRequests(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20<<10)
	for _, row := range []struct {
		name   string
		body   io.Reader
		length int64
		want   string
	}{
		{"by length", strings.NewReader("hello"), 5, "5 hello"},
		{"by chunks", strings.NewReader("hello"), -1, "-1 hello"},
		{"empty by chunks", strings.NewReader(""), -1, "-1 "},
		{"by chunks in memory", memory("hello"), -1, "-1 hello"},
		{"large by length", strings.NewReader(large), int64(len(large)), fmt.Sprint(len(large), " ", large)},
		{"large by length in memory", memory(large), int64(len(large)), fmt.Sprint(len(large), " ", large)},
		{"large by chunks", strings.NewReader(large), -1, "-1 " + large},
		{"large by chunks in memory", memory(large), -1, "-1 " + large},
	} {
		seen := make(chan string, 2)
		d := serveRaw(t, func(c *visit) {
			for r := c.request(); r != nil; r = c.request() {
				body, _ := io.ReadAll(r.Body)
				seen <- fmt.Sprint(r.ContentLength, " ", string(body))
				c.say(helloOK)
			}
		})
		u := newUpstream(t, d)
		expect(t, row.name, outcome(u, withBody(ask("POST", "/"), row.body, row.length), wide), "200 hello")
		expect(t, row.name, await(t, "request", seen), row.want)
		expect(t, row.name, outcome(u, ask("GET", "/"), wide), "200 hello")
		if n := d.visits.Load(); n != 1 {
			t.Errorf("%s: %d connections", row.name, n)
		}
	}
}

func TestUpstreamTrailersOfRequests(t *testing.T) {
	for name, body := range map[string]func(*exchange.Exchange) io.Reader{
		"in memory": func(x *exchange.Exchange) io.Reader { return &trailing{inMemory: memory("hello"), x: x} },
		"streamed": func(x *exchange.Exchange) io.Reader {
			return io.MultiReader(&trailing{inMemory: memory("hello"), x: x})
		},
	} {
		seen := make(chan http.Header, 1)
		d := serveRaw(t, func(c *visit) {
			r, err := http.ReadRequest(c.in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			seen <- r.Trailer
			c.say(helloOK)
		})
		x := ask("POST", "/")
		x.Request.Trailers.Add("X-Sum", nil)
		withBody(x, body(x), 5)
		expect(t, name, outcome(newUpstream(t, d), x, wide), "200 hello")
		if got := await(t, "request", seen); got.Get("X-Sum") != "42" || len(got) != 1 {
			t.Errorf("%s: got trailers %v", name, got)
		}
	}
}

// trailing is a body whose trailers are there when it has ended.
type trailing struct {
	inMemory
	x *exchange.Exchange
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.inMemory.Read(p)
	if err == io.EOF {
		b.x.Request.Trailers = exchange.Fields{{Name: []byte("X-Sum"), Value: []byte("42")}, {Name: []byte("Host"), Value: []byte("evil")}}
	}
	return n, err
}

func TestUpstreamResponses(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Host\r\n\r\n"
	for _, row := range []struct {
		name, method, bytes string
		length              int64
		want                string
		fields, trailers    string
		reused              bool
	}{
		{"length", "GET", helloOK, 5, "200 hello", "", "", true},
		{"fields", "GET", "HTTP/1.1 200 OK\r\nx-B: 2\r\nContent-Length: 5\r\nX-A:\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nhello", 5, "200 hello", "x-B=2 X-A= Set-Cookie=a Set-Cookie=b", "", true},
		{"no phrase", "GET", "HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", 0, "404 ", "", "", true},
		{"status of its own", "GET", "HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", 0, "599 ", "", "", true},
		{"chunks", "GET", chunked + "5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 3\r\nHost: evil\r\n\r\n", -1, "200 hello world", "Trailer=X-Sum, Host", "X-Sum=3", true},
		{"no chunk", "GET", chunked + "0\r\n\r\n", -1, "200 ", "Trailer=X-Sum, Host", "", true},
		{"HEAD with a length", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", 5000, "200 ", "", "", true},
		{"HEAD with chunks", "HEAD", chunked, -1, "200 ", "Trailer=X-Sum, Host", "", true},
		{"HEAD without either", "HEAD", "HTTP/1.1 200 OK\r\n\r\n", -1, "200 ", "", "", true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", -1, "204 ", "", "", true},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5000\r\n\r\n", 5000, "304 ", "", "", true},
		{"205 with no length", "GET", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", 0, "205 ", "", "", true},
		{"HTTP/1.0 with keep-alive", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", 5, "200 hello", "Connection=keep-alive", "", true},
		{"by close", "GET", "HTTP/1.1 200 OK\r\n\r\nhello", -1, "200 hello", "", "", false},
		{"large head", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200<<10) + "\r\nContent-Length: 5\r\n\r\nhello", 5, "200 hello", "X=" + strings.Repeat("x", 200<<10), "", true},
		{"head of almost a page", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 14<<10) + "\r\nContent-Length: 50000\r\n\r\n" + strings.Repeat("y", 50000), 50000, "200 " + strings.Repeat("y", 50000), "X=" + strings.Repeat("x", 14<<10), "", true},
	} {
		d := serveRaw(t, func(c *visit) {
			for c.head() != "" {
				c.say(row.bytes)
				if row.want != "" && !row.reused {
					return
				}
			}
		})
		u := newUpstream(t, d)
		for range 2 {
			x := ask(row.method, "/")
			if err := u.RoundTrip(x, wide); err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			if x.Response.ContentLength != row.length {
				t.Errorf("%s: length %d, want %d", row.name, x.Response.ContentLength, row.length)
			}
			body, err := io.ReadAll(x.Response.Body)
			expect(t, row.name, fmt.Sprintf("%d %s", x.Response.Status, body), row.want)
			expect(t, row.name, listed(x.Response.Fields), row.fields) // still there
			expect(t, row.name, listed(x.Response.Trailers), row.trailers)
			x.Finish(err)
		}
		if n := d.visits.Load(); n == 1 != row.reused {
			t.Errorf("%s: %d connections for 2 requests", row.name, n)
		}
	}
}

func listed(fields exchange.Fields) string {
	lines := make([]string, 0, len(fields))
	for _, f := range fields {
		lines = append(lines, string(f.Name)+"="+string(f.Value))
	}
	return strings.Join(lines, " ")
}

// The trailers that are announced are known with the head.
func TestUpstreamAnnouncedTrailers(t *testing.T) {
	d := serveRaw(t, answers("HTTP/1.1 200 OK\r\nTrailer: X-Sum, Host\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n"))
	x := ask("GET", "/")
	if err := newUpstream(t, d).RoundTrip(x, wide); err != nil {
		t.Fatal(err)
	}
	defer x.Finish(nil)
	expect(t, "announced", listed(x.Response.Trailers), "X-Sum=")
}

func TestUpstreamInterimResponses(t *testing.T) {
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
	d := serveRaw(t, answers("HTTP/1.1 100 Continue\r\n\r\n"+strings.Repeat(hints, 9)+helloOK))
	u := newUpstream(t, d)
	for _, relays := range []bool{true, false} {
		x, got := ask("GET", "/"), ""
		if relays {
			x.Interim = func(status int, fields exchange.Fields) { got += fmt.Sprint(status, listed(fields), " ") }
		}
		expect(t, "final", outcome(u, x, wide), "200 hello")
		if relays {
			expect(t, "interim", got, "100 "+strings.Repeat("103Link=</a> ", 9))
		}
	}
}

// The connection serves the next exchange when the body's last byte is read,
// before anybody closes the body.
func TestUpstreamConnectionIsFreeAtTheBodysEnd(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for name, response := range map[string]string{
		"small":   helloOK,
		"long":    "HTTP/1.1 200 OK\r\nContent-Length: 102400\r\n\r\n" + long,
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		d := serveRaw(t, answers(response))
		u := newUpstream(t, d)
		x := ask("GET", "/")
		if err := u.RoundTrip(x, wide); err != nil {
			t.Fatal(err)
		}
		first, _ := io.ReadAll(x.Response.Body)
		second := ask("GET", "/")
		if err := u.RoundTrip(second, wide); err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, second.Response.Body)
		if n := d.visits.Load(); n != 1 {
			t.Errorf("%s: %d connections", name, n)
		}
		x.Finish(nil)
		second.Finish(nil)
		if n := len(first); n != 5 && n != len(long) {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
}

// A body that is left early takes its connection along.
func TestUpstreamBodyLeftEarly(t *testing.T) {
	d := serveRaw(t, func(c *visit) {
		for c.request() != nil {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhello")
		}
	})
	u := newUpstream(t, d)
	for want := int32(1); want < 4; want++ {
		x := ask("GET", "/")
		if err := u.RoundTrip(x, wide); err != nil {
			t.Fatal(err)
		}
		x.Finish(nil)
		x.Finish(nil)
		if n := d.visits.Load(); n != want {
			t.Errorf("%d connections, want %d", n, want)
		}
	}
}

// What comes while a connection is idle answers nothing.
func TestUpstreamPoisonedIdleConnections(t *testing.T) {
	for name, poison := range map[string]string{
		"a response":      strings.Replace(helloOK, "hello", "wrong", 1),
		"half a response": "HTTP/1.1 2",
		"a 408":           "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n",
		"an end":          "",
	} {
		idle, poisoned := make(chan struct{}), make(chan struct{})
		d := serveRaw(t, func(c *visit) {
			if c.n > 1 {
				answers(helloOK)(c)
				return
			}
			c.request()
			c.say(helloOK)
			<-idle
			c.say(poison)
			if poison == "" {
				c.Close()
			}
			close(poisoned)
			c.untilClosed()
		})
		u := newUpstream(t, d)
		expect(t, name, outcome(u, ask("POST", "/"), wide), "200 hello")
		close(idle)
		await(t, "poison", poisoned)
		expect(t, name, outcome(u, ask("POST", "/"), wide), "200 hello")
		if n := d.visits.Load(); n != 2 {
			t.Errorf("%s: %d connections", name, n)
		}
	}
}

// On a used connection that ends without an answer, what may have been executed
// is executed again only if that does no harm; nothing else ever is (O03).
func TestUpstreamReplay(t *testing.T) {
	for _, row := range []struct {
		name string
		x    func() *exchange.Exchange
		want string
		runs int32
	}{
		{"GET", func() *exchange.Exchange { return ask("GET", "/") }, "200 hello", 2},
		{"HEAD", func() *exchange.Exchange { return ask("HEAD", "/") }, "200 ", 2},
		{"DELETE", func() *exchange.Exchange { return ask("DELETE", "/") }, "200 hello", 2},
		{"PUT without a body", func() *exchange.Exchange { return ask("PUT", "/") }, "200 hello", 2},
		{"PUT", func() *exchange.Exchange { return withBody(ask("PUT", "/"), memory("hi"), 2) }, "exchange: EOF", 1},
		{"POST without a body", func() *exchange.Exchange { return ask("POST", "/") }, "exchange: EOF", 1},
		{"POST", func() *exchange.Exchange { return withBody(ask("POST", "/"), memory("hi"), 2) }, "exchange: EOF", 1},
		{"POST with a key", func() *exchange.Exchange { return ask("POST", "/", "Idempotency-Key", "1") }, "exchange: EOF", 1},
		{"PATCH", func() *exchange.Exchange { return ask("PATCH", "/") }, "exchange: EOF", 1},
		{"method of its own", func() *exchange.Exchange { return ask("get", "/") }, "exchange: EOF", 1},
	} {
		var runs atomic.Int32
		d := serveRaw(t, func(c *visit) {
			for r := c.request(); r != nil; r = c.request() {
				if r.URL.Path != "/warm" && runs.Add(1) == 1 {
					return // executed, but no word about it
				}
				if c.say(helloOK); r.Method == "HEAD" {
					return
				}
			}
		})
		u := newUpstream(t, d)
		expect(t, "warm", outcome(u, ask("GET", "/warm"), wide), "200 hello")
		expect(t, row.name, outcome(u, row.x(), wide), row.want)
		if n := runs.Load(); n != row.runs {
			t.Errorf("%s: executed %d times, want %d", row.name, n, row.runs)
		}
	}
}

// A byte of a response is an answer, and a new connection that ends without one is
// no old acquaintance: neither is asked again.
func TestUpstreamNoReplay(t *testing.T) {
	for name, cut := range map[string]func(c *visit){
		"after a byte": func(c *visit) {
			for r := c.request(); r != nil; r = c.request() {
				if r.URL.Path != "/warm" {
					c.say("H")
					return
				}
				c.say(helloOK)
			}
		},
		"after a 100": func(c *visit) {
			for r := c.request(); r != nil; r = c.request() {
				if r.URL.Path != "/warm" {
					c.say("HTTP/1.1 100 Continue\r\n\r\n")
					return
				}
				c.say(helloOK)
			}
		},
	} {
		d := serveRaw(t, cut)
		u := newUpstream(t, d)
		expect(t, "warm", outcome(u, ask("GET", "/warm"), wide), "200 hello")
		if got := outcome(u, ask("GET", "/"), wide); !strings.HasPrefix(got, "exchange: ") {
			t.Errorf("%s: %s", name, got)
		}
		if n := d.visits.Load(); n != 1 {
			t.Errorf("%s: %d connections", name, n)
		}
	}
	d := serveRaw(t, func(c *visit) { c.request() })
	expect(t, "new", outcome(newUpstream(t, d), ask("GET", "/"), wide), "exchange: EOF")
	if n := d.visits.Load(); n != 1 {
		t.Errorf("a new connection was replaced: %d", n)
	}
}

// brokenConn is one whose writes fail before a byte when broken is set.
type brokenConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c brokenConn) Write(p []byte) (int, error) {
	if c.broken.Swap(false) {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// When no byte of it was sent, every request is sent again, with what was read of
// its body.
func TestUpstreamReplayOfWhatWasNotSent(t *testing.T) {
	bodies := make(chan string, 9)
	d := serveRaw(t, func(c *visit) {
		for r := c.request(); r != nil; r = c.request() {
			body, _ := io.ReadAll(r.Body)
			bodies <- r.Method + string(body)
			c.say(helloOK)
		}
	})
	var broken atomic.Bool
	u := newUpstreamTo(t, d.origin(), http1.UpstreamOptions{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return brokenConn{conn, &broken}, err
	}})
	for _, x := range []*exchange.Exchange{
		ask("POST", "/"),
		withBody(ask("POST", "/"), memory("in memory"), 9),
		withBody(ask("POST", "/"), strings.NewReader("streamed"), 8),
	} {
		expect(t, "warm", outcome(u, ask("GET", "/"), wide), "200 hello")
		broken.Store(true)
		expect(t, "again", outcome(u, x, wide), "200 hello")
	}
	broken.Store(true)
	u.Close() // so that the next connection is a new one
	expect(t, "new", outcome(u, ask("POST", "/"), wide), "exchange: broken pipe")
	close(bodies)
	var got []string
	for b := range bodies {
		got = append(got, b)
	}
	expect(t, "bodies", strings.Join(got, " "), "GET POST GET POSTin memory GET POSTstreamed")
}

// A repetition that can't reach the destination leaves the request to another one
// only when its body is untouched.
func TestUpstreamReplayThatCannotConnect(t *testing.T) {
	for _, row := range []struct {
		x    *exchange.Exchange
		want string
	}{
		{ask("POST", "/"), "connect: refused"},
		{withBody(ask("POST", "/"), strings.NewReader("hi"), 2), "connect: refused"},
		{withBody(ask("POST", "/"), memory("hi"), 2), "exchange: refused"},
	} {
		d := serveRaw(t, answers(helloOK))
		var broken atomic.Bool
		u := newUpstreamTo(t, d.origin(), http1.UpstreamOptions{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if broken.Load() {
				return nil, errors.New("refused")
			}
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return stubborn{conn, &broken}, err
		}})
		expect(t, "warm", outcome(u, ask("GET", "/"), wide), "200 hello")
		broken.Store(true)
		expect(t, row.want, outcome(u, row.x, wide), row.want)
	}
}

// stubborn is a connection that stays broken.
type stubborn struct {
	net.Conn
	broken *atomic.Bool
}

func (c stubborn) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

func TestUpstreamConnectFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &destination{listener: listener}
	listener.Close()
	x := withBody(ask("POST", "/"), memory("hello"), 5)
	if err = newUpstream(t, d).RoundTrip(x, wide); !errors.Is(err, errors.ErrUnsupported) && !strings.HasPrefix(err.Error(), d.origin().Host+": connect: ") {
		t.Errorf("got %v", err)
	}
	if n := x.Request.Body.(inMemory).Len(); n != 5 {
		t.Errorf("the body was touched: %d bytes left", n)
	}
}

// A request that would break the message it is written into is not sent.
func TestUpstreamUnwritableRequest(t *testing.T) {
	d := serveRaw(t, answers(helloOK))
	u := newUpstream(t, d)
	got := outcome(u, ask("GET", "/", "X", "a\r\nY: b"), wide)
	expect(t, "injected", got, "exchange: a field or the target has a byte that can't be sent")
	if d.visits.Load() != 0 {
		t.Error("a connection was made")
	}
}

// A client's body that breaks, or is not as long as it says, never looks whole to
// the destination.
func TestUpstreamBrokenRequestBodies(t *testing.T) {
	torn := errors.New("torn")
	for _, row := range []struct {
		name   string
		body   io.Reader
		length int64
		want   string
	}{
		{"short", strings.NewReader("hell"), 5, "request_body: unexpected EOF"},
		{"short in memory", memory("hell"), 5, "request_body: unexpected EOF"},
		{"long", strings.NewReader("hello!"), 5, "request_body: the request's body is longer than its Content-Length"},
		{"long in memory", memory("hello!"), 5, "request_body: the request's body is longer than its Content-Length"},
		{"torn", io.MultiReader(strings.NewReader("he"), errReader{torn}), 5, "request_body: torn"},
		{"torn chunks", io.MultiReader(strings.NewReader("he"), errReader{torn}), -1, "request_body: torn"},
		{"torn in memory", tornMemory{memory("he"), torn}, 5, "request_body: torn"},
		{"torn chunks in memory", tornMemory{memory(""), torn}, -1, "request_body: torn"},
	} {
		whole := make(chan bool, 1)
		d := serveRaw(t, func(c *visit) {
			whole <- c.request() != nil && row.name[:4] != "long"
			c.untilClosed()
		})
		expect(t, row.name, outcome(newUpstream(t, d), withBody(ask("POST", "/"), row.body, row.length), wide), row.want)
		if await(t, "request", whole) {
			t.Errorf("%s: the destination took it for whole", row.name)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// tornMemory gives an error where its memory ends, and says that it has more.
type tornMemory struct {
	inMemory
	err error
}

func (b tornMemory) Buffered() int { return b.Len() + 1 }

func (b tornMemory) Read(p []byte) (int, error) {
	n, err := b.inMemory.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

// sending is a body that a client sends piece by piece, until Abandon.
type sending struct {
	pieces    chan string
	abandoned chan struct{}
	once      sync.Once
}

func newSending(x *exchange.Exchange, length int64) *sending {
	c := &sending{pieces: make(chan string), abandoned: make(chan struct{})}
	withBody(x, c, length)
	x.Request.Abandon = func() { c.once.Do(func() { close(c.abandoned) }) }
	return c
}

func (c *sending) Read(p []byte) (int, error) {
	select {
	case piece, more := <-c.pieces:
		if !more {
			return 0, io.EOF
		}
		return copy(p, piece), nil
	case <-c.abandoned:
		return 0, errors.New("abandoned")
	}
}

// An error that comes before the request's end is the answer, however the rest of
// the request fares (O07).
func TestUpstreamEarlyError(t *testing.T) {
	const refused = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge"
	for name, serve := range map[string]func(c *visit){
		"and reads on": func(c *visit) { c.head(); c.say(refused); c.untilClosed() },
		"and doesn't":  func(c *visit) { c.head(); c.say(refused); <-time.After(50 * time.Millisecond) },
		"and closes":   func(c *visit) { c.head(); io.CopyN(io.Discard, c.in, 1024); c.say(refused) },
		"and keeps open": func(c *visit) {
			c.head()
			c.say(strings.Replace(refused, "Connection: close\r\n", "", 1))
			c.untilClosed()
		},
	} {
		d := serveRaw(t, serve)
		u := newUpstream(t, d)
		for i := range 100 / 4 {
			x := ask("POST", "/")
			if i%2 == 0 { // one that never waits
				withBody(x, endless{}, 1<<40)
			} else {
				c := newSending(x, 5<<20)
				go func() {
					for range 2 {
						select {
						case c.pieces <- strings.Repeat("x", 1024):
						case <-c.abandoned:
						}
					}
				}()
			}
			expect(t, name, outcome(u, x, wide), "413 large")
		}
		if n := d.visits.Load(); n != 25 {
			t.Errorf("%s: %d connections for 25 requests", name, n)
		}
	}
}

// endless is a body of any length.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Request and response stream at the same time: each side sees a piece before the
// next one is sent.
func TestUpstreamFullDuplex(t *testing.T) {
	d := serveRaw(t, func(c *visit) {
		r, err := http.ReadRequest(c.in)
		if err != nil {
			return
		}
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for buffer := make([]byte, 64); ; {
			n, err := r.Body.Read(buffer)
			if n > 0 {
				c.say(fmt.Sprintf("%x\r\n%s\r\n", n, buffer[:n]))
			}
			if err != nil {
				c.say("0\r\n\r\n")
				break
			}
		}
		c.untilClosed()
	})
	u := newUpstream(t, d)
	x := ask("POST", "/")
	c := newSending(x, -1)
	if err := u.RoundTrip(x, wide); err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"one", "two", "three"} {
		c.pieces <- piece
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(x.Response.Body, got); err != nil || string(got) != piece {
			t.Fatalf("got %q, %v; want %q", got, err, piece)
		}
	}
	close(c.pieces)
	if rest, err := io.ReadAll(x.Response.Body); err != nil || len(rest) > 0 {
		t.Errorf("rest %q, %v", rest, err)
	}
	x.Finish(nil)
}

// A response that ends before its request takes the connection along, and the
// client is not waited for.
func TestUpstreamResponseEndsFirst(t *testing.T) {
	d := serveRaw(t, func(c *visit) { c.head(); c.say(helloOK); c.untilClosed() })
	u := newUpstream(t, d)
	x := ask("POST", "/")
	c := newSending(x, 100)
	expect(t, "answer", outcome(u, x, wide), "200 hello")
	await(t, "abandoned body", c.abandoned)
	second := ask("POST", "/")
	expect(t, "second", outcome(u, second, wide), "200 hello")
	if n := d.visits.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// withContext gives x another context.
func withContext(ctx context.Context, x *exchange.Exchange) *exchange.Exchange {
	request := x.Request
	x.Reset(ctx)
	x.Request = request
	return x
}

// A client that leaves ends the attempt, wherever it is, and the destination sees
// the connection end (O06).
func TestUpstreamClientLeaves(t *testing.T) {
	for _, response := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"} {
		arrived, ended := make(chan struct{}), make(chan struct{})
		d := serveRaw(t, func(c *visit) {
			c.head()
			c.say(response)
			close(arrived)
			c.untilClosed()
			close(ended)
		})
		u := newUpstream(t, d)
		ctx, cancel := context.WithCancel(context.Background())
		x := withContext(ctx, ask("GET", "/"))
		if response == "" {
			go func() { <-arrived; cancel() }()
			expect(t, "before the head", outcome(u, x, wide), "client_gone: the client left")
		} else if err := u.RoundTrip(x, wide); err != nil {
			t.Fatal(err)
		} else {
			cancel()
			body, err := io.ReadAll(x.Response.Body)
			expect(t, "within the body", fmt.Sprintf("%.5s %v", body, err), "hello the client left")
			x.Finish(err)
		}
		await(t, "end of the connection", ended)
	}
}

// ownContext ends by its own means, as a front's does.
type ownContext struct {
	context.Context
	told  chan func() // what to call when the client leaves
	stops int
}

func (c *ownContext) AfterFunc(f func()) (stop func() bool) {
	c.told <- f
	return func() bool { c.stops++; return true }
}

func (c *ownContext) Done() <-chan struct{} { panic("asked for a channel") }

func (c *ownContext) Err() error { return nil }

func TestUpstreamClientLeavesByItsOwnContext(t *testing.T) {
	arrived := make(chan struct{}, 2)
	d := serveRaw(t, func(c *visit) {
		for r := c.request(); r != nil; r = c.request() {
			if arrived <- struct{}{}; r.URL.Path == "/plain" {
				c.say(helloOK)
			}
		}
	})
	u := newUpstream(t, d)
	ctx := &ownContext{Context: context.Background(), told: make(chan func(), 1)}
	for target, want := range map[string]string{"/plain": "200 hello", "/silent": "client_gone: the client left"} {
		x := withContext(notDialing{ctx}, ask("GET", target))
		if target == "/silent" {
			go func() { <-arrived; (<-ctx.told)() }()
		}
		expect(t, target, outcome(u, x, wide), want)
		if target == "/plain" {
			<-arrived
			<-ctx.told
		}
	}
	if ctx.stops != 2 {
		t.Errorf("%d of 2 registrations were stopped", ctx.stops)
	}
}

// Who is about to be told that the client left must not meet another exchange.
func TestUpstreamLateLeaving(t *testing.T) {
	u := newUpstream(t, serveRaw(t, answers(helloOK)))
	x := withContext(&watched{context.Background(), func() bool { return false }}, ask("GET", "/"))
	expect(t, "answer", outcome(u, x, wide), "200 hello")
	if all, _ := u.Links(); all != 0 {
		t.Error("the connection is kept")
	}
}

// A destination that answers well and takes no more of the request is not asked
// again on this connection.
func TestUpstreamHalfSentRequest(t *testing.T) {
	d := serveRaw(t, func(c *visit) { c.head(); c.say(helloOK); c.untilClosed() })
	u := newUpstreamTo(t, d.origin(), http1.UpstreamOptions{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &onceWritable{Conn: conn}, err
	}})
	expect(t, "answer", outcome(u, withBody(ask("POST", "/"), strings.NewReader("hi"), 2), wide), "200 hello")
	if all, _ := u.Links(); all != 0 {
		t.Error("the connection is kept")
	}
}

// onceWritable is a connection whose second write fails.
type onceWritable struct {
	net.Conn
	writes int
}

func (c *onceWritable) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// notDialing is an ownContext whose channel a dialer may ask for.
type notDialing struct{ *ownContext }

func (notDialing) Done() <-chan struct{} { return nil }

// A tunnel carries what comes behind the 101, in the same packet or later, both
// ways.
func TestUpstreamUpgrade(t *testing.T) {
	d := serveRaw(t, func(c *visit) {
		head := c.head()
		if !strings.Contains(head, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n") {
			c.say(helloOK)
			return
		}
		c.say("HTTP/1.1 101 Switching Protocols\r\nconnection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\nX-A: b\r\n\r\nearly ")
		io.Copy(c, c.in)
	})
	u := newUpstream(t, d)
	x := ask("GET", "/")
	x.Request.Upgrade = "websocket"
	if err := u.RoundTrip(x, wide); err != nil {
		t.Fatal(err)
	}
	tunnel := x.Response.Tunnel
	if x.Response.Status != 101 || tunnel == nil || string(x.Response.Fields.Get("x-a")) != "b" {
		t.Fatalf("got %d, %v, tunnel %v", x.Response.Status, x.Response.Fields, tunnel)
	}
	io.WriteString(tunnel, "echoed")
	if err := tunnel.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	got, err := io.ReadAll(tunnel)
	if err != nil || string(got) != "early echoed" {
		t.Errorf("got %q, %v", got, err)
	}
	tunnel.Close()
	tunnel.Close()
	x.Finish(nil)
}

// Without a 101, the answer to an upgrade is a response like others.
func TestUpstreamUpgradeDeclined(t *testing.T) {
	d := serveRaw(t, answers(strings.Replace(helloOK, "200 OK", "426 Upgrade Required", 1)))
	u := newUpstream(t, d)
	for range 2 {
		x := ask("GET", "/")
		x.Request.Upgrade = "websocket"
		expect(t, "declined", outcome(u, x, wide), "426 hello")
		if x.Response.Tunnel != nil {
			t.Error("there is a tunnel")
		}
	}
	if n := d.visits.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A switch to something else is refused, and leaves nothing open (O16).
func TestUpstreamUpgradeMismatch(t *testing.T) {
	for _, fields := range []string{
		"Connection: Upgrade\r\nUpgrade: foo\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket, foo\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: foo\r\n",
		"Upgrade: websocket\r\n",
		"Connection: Upgrade\r\n",
	} {
		d := serveRaw(t, func(c *visit) {
			c.head()
			c.say("HTTP/1.1 101 Switching Protocols\r\n" + fields + "\r\nbytes")
			c.untilClosed()
		})
		u := newUpstream(t, d)
		mismatch := func() {
			x := ask("GET", "/")
			x.Request.Upgrade = "websocket"
			expect(t, fields, outcome(u, x, wide), "exchange: switched to a protocol that was not asked for")
		}
		mismatch()
		before := descriptors(t)
		for range 100 {
			mismatch()
		}
		// The destination is in this process too, and closes when it sees our end.
		if now := descriptors(t); now > before+20 {
			t.Errorf("%d descriptors, %d before 100 mismatches", now, before)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc/self/fd: ", err)
	}
	return len(files)
}
