package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// Every bound ends what it bounds, in time: not before, and at most two rounds of
// the sweeper after.
func TestUpstreamBounds(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
	silent := func(c *visit) { c.head(); c.untilClosed() }
	for _, row := range []struct {
		name  string
		serve func(c *visit)
		x     func() *exchange.Exchange
		want  string
	}{
		{"no head", silent, func() *exchange.Exchange { return ask("GET", "/") }, "timeout: timed out"},
		{"no head for a body", silent, func() *exchange.Exchange { return withBody(ask("POST", "/"), memory("hi"), 2) }, "timeout: timed out"},
		{"no head for a streamed body", silent, func() *exchange.Exchange { return withBody(ask("POST", "/"), strings.NewReader("hi"), 2) }, "timeout: timed out"},
		{"no end of interim responses", func(c *visit) { c.head(); c.say("HTTP/1.1 102 Processing\r\n\r\n"); c.untilClosed() }, func() *exchange.Exchange { return ask("GET", "/") }, "timeout: timed out"},
		{"no body", func(c *visit) { c.head(); c.say(head); c.untilClosed() }, func() *exchange.Exchange { return ask("GET", "/") }, "200 , then cut"},
		{"no more of the body", func(c *visit) { c.head(); c.say(head + "hello"); c.untilClosed() }, func() *exchange.Exchange { return ask("GET", "/") }, "200 hello, then cut"},
		{"no more chunks", func(c *visit) {
			c.head()
			c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			c.untilClosed()
		}, func() *exchange.Exchange { return ask("GET", "/") }, "200 hello, then cut"},
		{"a client that is silent", silent, func() *exchange.Exchange {
			x := ask("POST", "/")
			newSending(x, 5)
			return x
		}, "request_body: timed out"},
	} {
		for _, bound := range []time.Duration{2 * time.Second, 10 * time.Second} {
			t.Run(fmt.Sprint(row.name, " ", bound), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u, _ := pipeUpstream(t, row.serve)
					begun := time.Now()
					expect(t, row.name, outcome(u, row.x(), exchange.Bounds{Timeout: bound, Idle: bound, Connect: time.Second}), row.want)
					if took := time.Since(begun); took < bound || took > bound+500*time.Millisecond {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

func TestUpstreamDestinationTakesNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		u, _ := pipeUpstream(t, func(c *visit) { io.ReadFull(c.Conn, make([]byte, 20)); <-release })
		x := withBody(ask("POST", "/"), endless{}, 1<<40)
		expect(t, "answer", outcome(u, x, exchange.Bounds{Timeout: 20 * time.Second, Idle: 10 * time.Second, Connect: time.Second}), "timeout: timed out")
		close(release)
	})
}

// A head that comes byte by byte is still late; a body that does is not.
func TestUpstreamSlowButNotSilent(t *testing.T) {
	drip := func(c *visit, s string) {
		for i := range len(s) {
			pass(time.Second)
			if _, err := io.WriteString(c, s[i:i+1]); err != nil {
				return
			}
		}
	}
	for _, bound := range []time.Duration{3 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			u, _ := pipeUpstream(t, func(c *visit) { c.head(); drip(c, helloOK) })
			expect(t, "head", outcome(u, ask("GET", "/"), exchange.Bounds{Timeout: bound, Idle: bound, Connect: bound}), "timeout: timed out")
			pass(2 * time.Second) // until the destination has noticed
		})
		synctest.Test(t, func(t *testing.T) {
			u, _ := pipeUpstream(t, func(c *visit) {
				c.head()
				c.say("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
				drip(c, "01234567890123456789")
			})
			expect(t, "body", outcome(u, ask("GET", "/"), exchange.Bounds{Timeout: bound, Idle: bound, Connect: bound}), "200 01234567890123456789")
		})
	}
}

// The wait for the head begins when the request has ended, however long the
// client took to send it.
func TestUpstreamTimeoutBeginsAtTheRequestsEnd(t *testing.T) {
	for _, bound := range []time.Duration{3 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			u, _ := pipeUpstream(t, func(c *visit) {
				c.request()
				pass(2 * time.Second)
				c.say(helloOK)
			})
			x := ask("POST", "/")
			sender := newSending(x, -1)
			go func() {
				for range 20 {
					pass(time.Second)
					sender.pieces <- "x"
				}
				close(sender.pieces)
			}()
			expect(t, "answer", outcome(u, x, exchange.Bounds{Timeout: bound, Idle: 2 * time.Second, Connect: bound}), "200 hello")
		})
	}
}

// A wait that ended leaves no bound behind for the connection's next exchange.
func TestUpstreamBoundsEndWithTheirExchange(t *testing.T) {
	for _, bound := range []time.Duration{3 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			u, visits := pipeUpstream(t, func(c *visit) {
				for c.request() != nil {
					if n++; n > 1 {
						pass(25 * time.Second)
					}
					c.say(helloOK)
				}
			})
			expect(t, "first", outcome(u, ask("GET", "/"), exchange.Bounds{Timeout: bound, Idle: bound, Connect: bound}), "200 hello")
			pass(20 * time.Second)
			expect(t, "second", outcome(u, ask("GET", "/"), wide), "200 hello")
			if n := visits.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// A used connection that is only slow is not asked again elsewhere.
func TestUpstreamNoReplayOfTimeouts(t *testing.T) {
	for _, bound := range []time.Duration{3 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			u, visits := pipeUpstream(t, func(c *visit) {
				c.request()
				c.say(helloOK)
				c.head()
				c.untilClosed()
			})
			b := exchange.Bounds{Timeout: bound, Idle: bound, Connect: bound}
			expect(t, "first", outcome(u, ask("GET", "/"), b), "200 hello")
			expect(t, "second", outcome(u, ask("GET", "/"), b), "timeout: timed out")
			if n := visits.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestUpstreamConnectBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := http1.NewUpstream(nowhere, http1.UpstreamOptions{Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			expect(t, "address", address, "nowhere.example:80")
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		x := withBody(ask("POST", "/"), memory("hello"), 5)
		expect(t, "connect", outcome(u, x, exchange.Bounds{Timeout: time.Minute, Idle: time.Minute, Connect: 3 * time.Second}), "connect: timed out")
		ctx, cancel := context.WithCancel(context.Background())
		go func() { pass(time.Second); cancel() }()
		expect(t, "client", outcome(u, withContext(ctx, x), wide), "client_gone: the client left")
		if n := x.Request.Body.(inMemory).Len(); n != 5 {
			t.Errorf("the body was touched: %d bytes left", n)
		}
	})
}

// Where the kernel moves the bytes, silence ends the body as well, but neither a
// trickle nor a client that is slow to take it.
func TestUpstreamBoundOfMovedBodies(t *testing.T) {
	const size = 1 << 40
	pieces, full := make(chan int), make(chan int)
	d := serveRaw(t, func(c *visit) {
		c.head()
		c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
		for n := range pieces {
			c.say(strings.Repeat("x", n))
		}
		for n, buffer := 0, make([]byte, 64<<10); ; {
			c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			m, err := c.Write(buffer)
			if n += m; err != nil { // nobody takes any more
				full <- n
				break
			}
		}
		c.untilClosed()
	})
	u := newUpstream(t, d)
	x := ask("GET", "/")
	if err := u.RoundTrip(x, wide); err != nil {
		t.Fatal(err)
	}
	body := x.Response.Body.(http1.Stream)
	conn, left := body.Begin()
	if conn == nil || left != size {
		t.Fatalf("got %v, %d", conn, left)
	}
	near, far := tcpPair(t)
	far.SetDeadline(time.Now().Add(longWait))
	done := make(chan error, 1)
	go func() {
		n, err := near.ReadFrom(&io.LimitedReader{R: conn, N: left})
		body.End(n, err)
		_, err = body.Read(make([]byte, 1))
		done <- err
	}()
	arrives := func(n int) {
		t.Helper()
		if _, err := io.CopyN(io.Discard, far, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // bytes move between the passes
		pieces <- 1000
		arrives(1000)
		u.Pass(wide.Idle)
	}
	close(pieces)
	n := await(t, "full connection", full)
	for range 3 {
		u.Pass(wide.Idle)
	}
	arrives(n)
	u.Pass(wide.Idle) // counts what came
	u.Pass(wide.Idle)
	if err := await(t, "end", done); err == nil || err.Error() != "timed out" {
		t.Errorf("got %v", err)
	}
	x.Finish(nil)
}

// Bytes that come are no reason to wait longer for a head.
func TestUpstreamBoundOfHeads(t *testing.T) {
	said := make(chan struct{})
	d := serveRaw(t, func(c *visit) { c.head(); c.say(helloOK[:20]); close(said); c.untilClosed() })
	u := newUpstream(t, d)
	go func() { <-said; u.Pass(wide.Timeout) }()
	begun := time.Now()
	expect(t, "half a head", outcome(u, ask("GET", "/"), wide), "timeout: timed out")
	if time.Since(begun) > longWait {
		t.Error("the bound itself ended it")
	}
}

// tcpPair is the two ends of a TCP connection.
func tcpPair(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}
