package stdhttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/gateway/exchange"
	"grapevine/gateway/stdhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var wide = exchange.Bounds{Timeout: time.Minute, Idle: time.Minute, Connect: time.Minute}

// destination answers the first request of each connection with raw bytes, and
// then holds the connection until the other side closes it.
func destination(t *testing.T, response string) *stdhttp.Upstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				_, _ = io.WriteString(conn, response)
				_, _ = io.Copy(io.Discard, in)
			})
		}
	})
	u := stdhttp.NewUpstream(&url.URL{Scheme: "http", Host: listener.Addr().String()}, stdhttp.UpstreamOptions{})
	t.Cleanup(func() {
		u.Close()
		listener.Close()
		open.Wait()
	})
	return u
}

func post(x *exchange.Exchange, ctx context.Context, body io.Reader, length int64) {
	x.Reset(ctx)
	x.Request.Method, x.Request.Target, x.Request.Authority = "POST", []byte("/"), []byte("a.example")
	x.Request.Body, x.Request.ContentLength = body, length
}

// changing is a body that has its exchange go on to another request when it is
// first read.
type changing struct {
	x    *exchange.Exchange
	next io.Reader
	left int
}

func (b *changing) Read(p []byte) (int, error) {
	b.x.Request.Body = b.next
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	p[0] = 'x'
	return 1, nil
}

// forbidden is a body that nobody may read.
type forbidden struct{ t *testing.T }

func (b forbidden) Read([]byte) (int, error) {
	b.t.Error("the body of another request was read")
	return 0, io.EOF
}

// The transport may go on reading a request's body when its response has ended. A
// front uses an exchange again, and what is then in it is another request's.
func TestBodyIsReadFromItsOwnRequest(t *testing.T) {
	for name, length := range map[string]int64{"length": 5, "chunks": -1} {
		t.Run(name, func(t *testing.T) {
			u := destination(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			x := new(exchange.Exchange)
			body := &changing{x: x, next: forbidden{t}, left: 5}
			post(x, t.Context(), body, length)
			if err := u.RoundTrip(x, wide); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(x.Response.Body); err != nil || string(got) != "ok" {
				t.Fatalf("got %q, %v", got, err)
			}
			x.Finish(nil)
		})
	}
}

// A body that has ended is not asked again: its front may have begun another
// request with it.
func TestEndedBodyIsLeftAlone(t *testing.T) {
	u := destination(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	x := new(exchange.Exchange)
	body := &endingBody{}
	post(x, t.Context(), body, 1)
	if err := u.RoundTrip(x, wide); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(x.Response.Body); err != nil {
		t.Fatal(err)
	}
	x.Finish(nil)
	if n := body.reads.Load(); n != 1 {
		t.Errorf("it was read %d times", n)
	}
}

// endingBody says with its last byte that it ends.
type endingBody struct{ reads atomic.Int32 }

func (b *endingBody) Read(p []byte) (int, error) {
	b.reads.Add(1)
	p[0] = 'x'
	return 1, io.EOF
}

// An informational response is relayed while RoundTrip is under way, also when the
// client leaves meanwhile, and not when it has returned.
func TestInterimEndsBeforeTheAttempt(t *testing.T) {
	u := destination(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	x := new(exchange.Exchange)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	post(x, ctx, nil, 0)
	var relayed atomic.Bool
	x.Interim = func(int, exchange.Fields) {
		leave()
		<-time.After(20 * time.Millisecond) // longer than it takes to return
		relayed.Store(true)
	}
	var attempt *exchange.AttemptError
	if err := u.RoundTrip(x, wide); !errors.As(err, &attempt) || attempt.Phase != exchange.PhaseClientGone {
		t.Fatalf("got %v", err)
	}
	if !relayed.Load() {
		t.Error("RoundTrip returned while a response was being relayed")
	}
}
