package http1_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// An empty line may stand before a request (RFC 9112 §2.2), and old clients send
// one behind a body. When no request follows nothing is answered: the client might
// take it for the answer to its next request.
func TestEmptyLineWithoutARequest(t *testing.T) {
	slow(t, func(t *testing.T, c *client, bound func(time.Duration) time.Duration) {
		c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello")
		c.receive("POST")
		begin := time.Now()
		c.send("\r\n")
		if rest := c.endsAfter(bound(http1.DefaultHeadTimeout), begin); rest != "" {
			t.Errorf("got %q", rest)
		}
	})
}

// hookedConn lets a test stand where deadlines are set: set does it.
type hookedConn struct {
	net.Conn
	read, write func(at time.Time, set func())
}

func (c *hookedConn) SetReadDeadline(at time.Time) (err error) {
	set := func() { err = c.Conn.SetReadDeadline(at) }
	if c.read == nil {
		set()
	} else {
		c.read(at, set)
	}
	return err
}

func (c *hookedConn) SetWriteDeadline(at time.Time) (err error) {
	set := func() { err = c.Conn.SetWriteDeadline(at) }
	if c.write == nil {
		set()
	} else {
		c.write(at, set)
	}
	return err
}

// A read of the body ends with Abandon, and with its exchange, also when that is
// just setting its bound.
func TestAbandonMeetsABound(t *testing.T) {
	for _, how := range []string{"abandoned", "answered"} {
		t.Run(how, func(t *testing.T) {
			near, far := net.Pipe()
			setting, stopped, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			conn := &hookedConn{Conn: far}
			s := &http1.Server{BodyTimeout: 4 * time.Second, Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
				body, abandon := x.Request.Body, x.Request.Abandon
				var first, last sync.Once
				conn.read = func(at time.Time, set func()) {
					if at.Before(time.Now()) && !at.IsZero() {
						set()
						last.Do(func() { close(stopped) })
						return
					}
					first.Do(func() {
						close(setting)
						<-stopped
					})
					set()
				}
				go func() {
					_, err := body.Read(make([]byte, 1))
					ended <- err
				}()
				if <-setting; how == "abandoned" {
					abandon()
				}
				text(x, "answer")
			})}
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.ServeConn(conn)
			}()
			c := &client{TB: t, Conn: near, in: newReader(near)}
			begin := time.Now()
			c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 10\r\n\r\n")
			c.receive("POST")
			if err := <-ended; err == nil || time.Since(begin) > 2*time.Second {
				t.Errorf("the read ended after %v: %v", time.Since(begin), err)
			}
			c.Close()
			<-done
		})
	}
}

// A client that takes nothing does not keep a Shutdown waiting, however short the
// bound of a write is: each sets the connection's own deadline anew.
func TestShutdownOfATunnelThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nearClient, farClient := net.Pipe()
		nearBackend, farBackend := net.Pipe()
		conn := &hookedConn{Conn: farClient}
		s := &http1.Server{WriteTimeout: time.Second, Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
			x.Response.Status, x.Response.Tunnel = 101, nearBackend
			x.Response.Fields.Add("X", []byte("1"))
		})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeConn(conn)
		}()
		c := &client{TB: t, Conn: nearClient, in: newReader(nearClient)}
		c.send(upgrade)
		c.expect(switched)
		synctest.Wait()
		conn.write = func(_ time.Time, set func()) { // the deadline of the farewell, and then that of a write
			conn.write = nil
			set()
			go io.WriteString(farBackend, "\x89\x00")
			c.expect("\x89\x00")
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		_ = s.Shutdown(ctx)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		c.Close()
		<-done
	})
}

// A body that ends with its connection is read in pieces as large as another.
func TestBodyUntilTheEndIsReadInLargePieces(t *testing.T) {
	body := &measured{left: 1 << 20}
	c := dial(t, serve(t, func(x *exchange.Exchange) { stream(x, body) }))
	c.send("GET / HTTP/1.0\r\n\r\n")
	if _, got := c.receive("GET"); len(got) != 1<<20 {
		t.Errorf("got %d bytes", len(got))
	}
	if largest := body.largest.Load(); largest < 64<<10 {
		t.Errorf("it was read in pieces of %d bytes at most", largest)
	}
}

// measured is a body that tells how large a piece was asked for.
type measured struct {
	left    int
	largest atomic.Int64
}

func (b *measured) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.largest.Store(max(b.largest.Load(), int64(len(p))))
	n := min(len(p), b.left)
	b.left -= n
	return n, nil
}

// A client that takes less than a write's worth within its bound is cut also where
// the kernel moves the bytes, though it takes some.
func TestSplicedBodyThatIsTakenTooSlowly(t *testing.T) {
	t.Parallel() // it takes its bound three times
	address, ended, body := spliceServer(t, 100<<20, 0, 0)
	small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) }), err)
	}}
	conn, err := small.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, getRoot); err != nil {
		t.Fatal(err)
	}
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	piece := make([]byte, 600) // 30 KB in a bound of 5 s
	for {
		select {
		case err := <-ended:
			if err == nil || body.spliced == 0 {
				t.Errorf("ended with %v, %d bytes were spliced", err, body.spliced)
			}
			return
		case <-time.After(40 * time.Second):
			t.Fatal("it is served for ever")
		case <-pace.C:
			_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if n, err := conn.Read(piece); n == 0 && !strings.Contains(err.Error(), "timeout") {
				t.Logf("the client sees %v", err)
			}
		}
	}
}

// A client that is cut because it does not read is reset: what it has not taken
// would lie in the kernel until it does, which may be never.
func TestSlowReaderIsReset(t *testing.T) {
	for _, target := range []string{"/plain", "/chunks"} {
		ended := make(chan error, 1)
		c := dial(t, listen(t, &http1.Server{WriteTimeout: 100 * time.Millisecond, Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
			x.OnFinish(hook(ended))
			if body := strings.Repeat("x", 50<<20); string(x.Request.Target) == "/plain" {
				text(x, body)
			} else {
				stream(x, strings.NewReader(body))
			}
		})}))
		c.send("GET " + target + " HTTP/1.1\r\n" + host + "\r\n")
		if err := <-ended; err == nil {
			t.Fatal("the response was sent")
		}
		if rest, clean := c.ends(); clean {
			t.Errorf("%s: after %d bytes comes an end as any other", target, len(rest))
		}
	}
}

// So is the client of a tunnel.
func TestSlowReaderOfATunnelIsReset(t *testing.T) {
	address, fars, ended := tunnelServer(t, &http1.Server{WriteTimeout: 100 * time.Millisecond})
	c := dial(t, address)
	c.send(upgrade)
	c.expect(switched)
	far := <-fars
	defer far.Close()
	go func() { _, _ = io.CopyN(far, zeros{}, 50<<20) }()
	if err := <-ended; err == nil {
		t.Error("it ended well")
	}
	if rest, clean := c.ends(); clean {
		t.Errorf("after %d bytes comes an end as any other", len(rest))
	}
}

// A response that breaks off ends its connection, but takes nothing from the answers
// before it that are still on their way: what the client has sent behind must not
// make a reset of the end (RFC 9112 §9.6).
func TestBrokenResponseTakesNothingFromOthers(t *testing.T) {
	ended := make(chan error, 1)
	whole := strings.Repeat("x", 1<<20)
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		if string(x.Request.Target) == "/whole" {
			text(x, whole)
			return
		}
		x.OnFinish(hook(ended))
		stream(x, io.MultiReader(strings.NewReader("half"), errorReader{io.ErrUnexpectedEOF}))
	}))
	c.send("GET /whole HTTP/1.1\r\n" + host + "\r\nGET /broken HTTP/1.1\r\n" + host + "\r\n" + strings.Repeat(getRoot, 2000))
	<-ended // and only now it reads
	if _, body := c.receive("GET"); body != whole {
		t.Errorf("got %d bytes", len(body))
	}
	if rest, _ := c.ends(); !strings.HasSuffix(rest, "half\r\n") {
		t.Errorf("behind it came %.200q", rest)
	}
}
