package http1_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// secure is a TLS configuration that clients need not trust.
func secure(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS
}

// A client that leaves ends the context, whatever the exchange waits for.
func TestClientLeaves(t *testing.T) {
	t.Parallel() // it takes 0.2 s a row
	waits := make(chan struct{})
	left := make(chan time.Time)
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		ctx := x.Context()
		if string(x.Request.Target) == "/stream" {
			stream(x, waitingReader{ctx, waits, left})
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		waits <- struct{}{}
		<-ctx.Done()
		left <- time.Now()
	})}
	plainAddress := listen(t, s)
	config := secure(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()

	for name, leave := range map[string]func(net.Conn) error{
		"close":      net.Conn.Close,
		"half close": func(c net.Conn) error { return c.(interface{ CloseWrite() error }).CloseWrite() },
		"reset": func(c net.Conn) error {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			return c.Close()
		},
	} {
		for _, target := range []string{"/", "/stream"} {
			for _, address := range []string{plainAddress, l.Addr().String()} {
				c := dial(t, address)
				if address == l.Addr().String() {
					if name == "half close" {
						continue // says goodbye inside of TLS only
					}
					c.Conn = tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
				}
				c.send("GET " + target + " HTTP/1.1\r\n" + host + "\r\n")
				<-waits
				begin := time.Now()
				if err := leave(c.Conn); err != nil {
					t.Fatal(err)
				}
				if late := (<-left).Sub(begin); late > time.Second {
					t.Errorf("%s, %s, %s: noticed after %v", name, target, address, late)
				} else {
					t.Logf("%s, %s, %s: noticed after %v", name, target, address, late)
				}
				c.Close()
			}
		}
	}
}

// waitingReader never has anything.
type waitingReader struct {
	ctx   context.Context
	waits chan struct{}
	left  chan time.Time
}

func (r waitingReader) Read([]byte) (int, error) {
	r.waits <- struct{}{}
	<-r.ctx.Done()
	r.left <- time.Now()
	return 0, r.ctx.Err()
}

// A context is one exchange's, also for who looks at it later.
func TestContextEndsWithItsExchange(t *testing.T) {
	contexts := make(chan context.Context, 1)
	told := make(chan string, 10)
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		ctx := x.Context()
		name := string(x.Request.Target)
		if name != "/unasked" && ctx.Err() != nil {
			t.Errorf("%s: ended before it began", name)
		}
		if name == "/child" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			t.Cleanup(cancel)
		}
		for _, mark := range []string{"a", "b"} {
			context.AfterFunc(ctx, func() { told <- name + mark })
			stopped := context.AfterFunc(ctx, func() { told <- "stopped " + name })
			if !stopped() {
				t.Error("can't be stopped")
			}
		}
		contexts <- ctx
		text(x, name)
	}))
	for _, target := range []string{"/unasked", "/child", "/plain", "/unasked"} {
		c.send("GET " + target + " HTTP/1.1\r\n" + host + "\r\n")
		c.receive("GET")
		got := []string{<-told, <-told}
		if got[0]+got[1] != target+"a"+target+"b" && got[0]+got[1] != target+"b"+target+"a" {
			t.Errorf("told %q", got)
		}
		ctx := <-contexts
		<-ctx.Done()
		if target != "/unasked" && ctx.Err() != context.Canceled {
			t.Error(ctx.Err())
		}
		if _, has := ctx.Deadline(); has || ctx.Value(t) != nil {
			t.Error("it has a deadline or values")
		}
	}
	if len(told) > 0 {
		t.Error(<-told)
	}
}

func TestServeTLS(t *testing.T) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", secure(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		x.Response.Fields.Add("X-Scheme", []byte(x.Request.Scheme))
		echo(x)
		if x.Request.Protocol == "1.0" {
			stream(x, io.MultiReader(x.Response.Body, errorReader{io.ErrUnexpectedEOF}))
		}
	})}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	open := func() *client {
		c := dial(t, l.Addr().String())
		c.Conn = tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
		c.in.Reset(c.Conn)
		return c
	}
	c := open()
	for range 2 {
		c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello")
		if response, body := c.receive("POST"); body != "POST /\nhello" || response.Header.Get("X-Scheme") != "https" {
			t.Error(response, body)
		}
	}
	c = open()
	c.send("GET / HTTP/1.0\r\n\r\n")
	if rest, clean := c.ends(); clean {
		t.Errorf("a response that broke off looks whole: %q", rest)
	}
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
