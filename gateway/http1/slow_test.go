package http1_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// slow runs play against a server whose bounds are its defaults or all of them
// short, over a connection in memory and in fake time.
func slow(t *testing.T, play func(t *testing.T, c *client, bound func(time.Duration) time.Duration)) {
	for name, short := range map[string]time.Duration{"coarse": 0, "exact": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &http1.Server{
					Handler: exchange.HandlerFunc(echo), HeadTimeout: short, IdleTimeout: short, BodyTimeout: short, WriteTimeout: short,
				}
				conn := pipe(t, s)
				play(t, &client{TB: t, Conn: conn, in: newReader(conn)}, func(d time.Duration) time.Duration {
					if short > 0 {
						return short
					}
					return d
				})
			})
		})
	}
}

// after tells how long the server took to end the connection, at most two rounds
// of the sweeper above the bound.
func (c *client) endsAfter(bound time.Duration, begin time.Time) (rest string) {
	c.Helper()
	b, err := io.ReadAll(c.in)
	if late := time.Since(begin); err != nil || late < bound || late > bound+200*time.Millisecond {
		c.Errorf("ended after %v (%v), the bound is %v", late, err, bound)
	}
	return string(b)
}

func TestSlowHead(t *testing.T) {
	slow(t, func(t *testing.T, c *client, bound func(time.Duration) time.Duration) {
		begin := time.Now()
		c.send("GET / HTTP/1.1\r\n")
		var dribble sync.WaitGroup
		defer dribble.Wait()
		defer c.Close()
		dribble.Go(func() {
			for { // the bound is for all of the head
				pass(100 * time.Millisecond)
				if _, err := io.WriteString(c, "a"); err != nil {
					return
				}
			}
		})
		if rest := c.endsAfter(bound(http1.DefaultHeadTimeout), begin); !strings.HasPrefix(rest, "HTTP/1.1 408 ") {
			t.Errorf("got %q", rest)
		}
	})
}

func TestNoHead(t *testing.T) {
	slow(t, func(t *testing.T, c *client, bound func(time.Duration) time.Duration) {
		if rest := c.endsAfter(bound(http1.DefaultHeadTimeout), time.Now()); rest != "" {
			t.Errorf("got %q", rest)
		}
	})
}

func TestIdle(t *testing.T) {
	slow(t, func(t *testing.T, c *client, bound func(time.Duration) time.Duration) {
		for range 3 {
			c.send(getRoot)
			c.receive("GET")
			pass(bound(http1.DefaultIdleTimeout) / 2)
		}
		c.send(getRoot)
		c.receive("GET")
		if rest := c.endsAfter(bound(http1.DefaultIdleTimeout), time.Now()); rest != "" {
			t.Errorf("got %q", rest)
		}
	})
}

func TestSlowBody(t *testing.T) {
	slow(t, func(t *testing.T, c *client, bound func(time.Duration) time.Duration) {
		c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 10\r\n\r\n")
		for range 5 {
			pass(bound(http1.DefaultBodyTimeout) * 3 / 4) // the bound is for each silence
			c.send("x")
		}
		if rest := c.endsAfter(bound(http1.DefaultBodyTimeout), time.Now()); !strings.Contains(rest, "timed out") {
			t.Errorf("got %q", rest)
		}
	})
}

func TestSlowReader(t *testing.T) {
	for _, bound := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			s := &http1.Server{WriteTimeout: bound, Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
				x.OnFinish(hook(ended))
				text(x, "never read")
			})}
			conn := pipe(t, s)
			begin := time.Now()
			if _, err := io.WriteString(conn, getRoot); err != nil {
				t.Fatal(err)
			}
			err := <-ended
			if bound == 0 {
				bound = http1.DefaultWriteTimeout
			}
			if late := time.Since(begin); err == nil || late < bound || late > bound+200*time.Millisecond {
				t.Errorf("%v after %v, the bound is %v", err, late, bound)
			}
		})
	}
}

// A client on a socket that does not read is cut too, in the midst of a large body.
func TestSlowReaderOnASocket(t *testing.T) {
	ended := make(chan error, 1)
	c := dial(t, listen(t, &http1.Server{WriteTimeout: 100 * time.Millisecond, Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		x.OnFinish(hook(ended))
		text(x, strings.Repeat("x", 50<<20))
	})}))
	c.send(getRoot)
	if err := <-ended; err == nil {
		t.Error("the response was sent")
	}
	if rest, _ := c.ends(); len(rest) >= 50<<20 {
		t.Error("the response is whole")
	}
}

func TestAcceptBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failingListener{errs: 12, closed: make(chan struct{})}
		s := &http1.Server{Handler: exchange.HandlerFunc(echo)}
		served := make(chan error)
		go func() { served <- s.Serve(l) }()
		<-l.closed
		// 5 ms doubled up to 1 s: 5+10+...+640 and then four times 1 s.
		if want := 1275*time.Millisecond + 4*time.Second; time.Since(l.begin) != want {
			t.Errorf("12 failures took %v, want %v", time.Since(l.begin), want)
		}
		if err := <-served; !errors.Is(err, errListener) {
			t.Error(err)
		}
	})
}

var errListener = errors.New("broken for good")

// failingListener has no descriptors for a while, and then fails for good.
type failingListener struct {
	net.Listener
	begin  time.Time
	errs   int
	closed chan struct{}
}

func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *failingListener) Accept() (net.Conn, error) {
	if l.begin.IsZero() {
		l.begin = time.Now()
	}
	if l.errs--; l.errs < 0 {
		close(l.closed)
		return nil, errListener
	}
	return nil, noDescriptors
}
