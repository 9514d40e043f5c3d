package http1_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
)

const getRoot = "GET / HTTP/1.1\r\n" + host + "\r\n"

func TestServe(t *testing.T) {
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		r := &x.Request
		x.Response.Fields.Add("X-Seen", []byte(r.Method+" "+string(r.Target)+" "+string(r.Authority)+" "+r.Protocol+" "+r.Scheme+lines(" ", r.Fields)))
		if r.Peer.Addr().String() != "127.0.0.1" || r.Client != r.Peer.Addr() || x.Started.IsZero() {
			t.Error(r.Peer, r.Client, x.Started)
		}
		text(x, "hello")
	}))
	for range 3 {
		c.send("GET /a?b HTTP/1.1\r\n" + host + "A: 1\r\nb:2\r\n\r\n")
		c.expect("HTTP/1.1 200 OK\r\nX-Seen: GET /a?b a.example 1.1 http A=\"1\" b=\"2\"\r\nDate: *\r\nContent-Length: 5\r\n\r\nhello")
	}
	c.send("HEAD / HTTP/1.1\r\n" + host + "\r\n" + getRoot)
	c.expect("HTTP/1.1 200 OK\r\nX-Seen: HEAD / a.example 1.1 http\r\nDate: *\r\nContent-Length: 5\r\n\r\n")
	c.expect("HTTP/1.1 200 OK\r\nX-Seen: GET / a.example 1.1 http\r\nDate: *\r\nContent-Length: 5\r\n\r\nhello")
}

// What frames a response depends on the request's version and method and on the
// status.
func TestResponseFraming(t *testing.T) {
	address := serve(t, func(x *exchange.Exchange) {
		switch string(x.Request.Target) {
		case "/known":
			text(x, "hello")
		case "/unknown":
			stream(x, strings.NewReader("hello"))
		case "/trailers":
			x.Response.Trailers = exchange.Fields{{Name: []byte("T"), Value: []byte("1")}}
			stream(x, strings.NewReader("hello"))
		case "/204":
			x.Response.Status = 204
		case "/304":
			x.Response.Status, x.Response.ContentLength = 304, 7
		case "/empty":
			x.Response.Status = 200
		case "/none":
			x.Response.Status, x.Response.Body, x.Response.ContentLength = 200, io.NopCloser(strings.NewReader("")), 0
		}
	})
	const ok = "HTTP/1.1 200 OK\r\nDate: *\r\n"
	for _, row := range []struct {
		request, want string
		stays         bool
	}{
		{"GET /known HTTP/1.1", ok + "Content-Length: 5\r\n\r\nhello", true},
		{"HEAD /known HTTP/1.1", ok + "Content-Length: 5\r\n\r\n", true},
		{"GET /unknown HTTP/1.1", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true},
		{"GET /trailers HTTP/1.1", ok + "Transfer-Encoding: chunked\r\nTrailer: T\r\n\r\n5\r\nhello\r\n0\r\nT: 1\r\n\r\n", true},
		{"HEAD /unknown HTTP/1.1", ok + "\r\n", true},
		{"GET /204 HTTP/1.1", "HTTP/1.1 204 No Content\r\nDate: *\r\n\r\n", true},
		{"GET /304 HTTP/1.1", "HTTP/1.1 304 Not Modified\r\nDate: *\r\nContent-Length: 7\r\n\r\n", true},
		{"GET /empty HTTP/1.1", ok + "Content-Length: 0\r\n\r\n", true},
		{"GET /none HTTP/1.1", ok + "Content-Length: 0\r\n\r\n", true},
		{"GET /known HTTP/1.1\r\nConnection: close", ok + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", false},
		{"GET /known HTTP/1.0", ok + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", false},
		{"GET /known HTTP/1.0\r\nConnection: keep-alive", ok + "Connection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", true},
		{"GET /unknown HTTP/1.0\r\nConnection: keep-alive", ok + "Connection: close\r\n\r\nhello", false},
		{"GET /trailers HTTP/1.0", ok + "Connection: close\r\n\r\nhello", false},
	} {
		t.Run(row.request, func(t *testing.T) {
			c := dial(t, address)
			c.send(row.request + "\r\n" + host + "\r\n")
			c.expect(row.want)
			if !row.stays {
				c.mustEnd()
				return
			}
			c.send("GET /204 HTTP/1.1\r\n" + host + "\r\n")
			c.expect("HTTP/1.1 204 No Content\r\nDate: *\r\n\r\n")
		})
	}
}

func TestRequestBodies(t *testing.T) {
	address := serve(t, echo)
	big := strings.Repeat("0123456789abcdef", 40<<10)
	for name, row := range map[string]struct{ request, want string }{
		"length":      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", "POST /\nhello"},
		"chunks":      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x\r\n!!!\r\n0\r\nT: 1\r\n\r\n", "POST /\nhello!!!"},
		"none":        {getRoot, "GET /\n"},
		"large":       {"POST / HTTP/1.1\r\n" + host + "Content-Length: 655360\r\n\r\n" + big, "POST /\n" + big},
		"large chunk": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nA0000\r\n" + big + "\r\n0\r\n\r\n", "POST /\n" + big},
		"behind a large head": {
			"POST / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 60000) + "\r\nTransfer-Encoding: chunked\r\n\r\nA0000\r\n" + big + "\r\n0\r\n\r\n", "POST /\n" + big,
		},
		"behind a head that fills a page": {
			"POST / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 8000) + "\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\na\r\n", 5000) + "0\r\n\r\n", "POST /\n" + strings.Repeat("a", 5000),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{len(row.request), 1000, 7} {
				if piece == 7 && len(row.request) > 100<<10 {
					continue
				}
				c := dial(t, address)
				go func() {
					for request := row.request + row.request; request != ""; {
						n := min(piece, len(request))
						if _, err := io.WriteString(c, request[:n]); err != nil {
							return
						}
						request = request[n:]
					}
				}()
				for range 2 {
					if _, body := c.receive("POST"); body != row.want {
						t.Fatalf("in pieces of %d: got %d bytes, %.50q", piece, len(body), body)
					}
				}
			}
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	c := dial(t, serve(t, echo))
	var requests, want strings.Builder
	for i := range 500 {
		body := strings.Repeat("b", i%40)
		target := "/" + strings.Repeat("p", i)
		if i%3 == 0 {
			requests.WriteString("GET " + target + " HTTP/1.1\r\n" + host + "\r\n")
			body = ""
		} else if i%3 == 1 {
			requests.WriteString("GET " + target + " HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\n\r\n")
			body = "b"
		} else {
			requests.WriteString("GET " + target + " HTTP/1.1\r\n" + host + "Content-Length: " + itoa(len(body)) + "\r\n\r\n" + body)
		}
		want.WriteString("GET " + target + "\n" + body)
	}
	go func() { _, _ = io.WriteString(c, requests.String()) }()
	var got strings.Builder
	for range 500 {
		_, body := c.receive("GET")
		got.WriteString(body)
	}
	if got.String() != want.String() {
		t.Errorf("got %.2000q", got.String())
	}
}

// One empty line may stand before a request (RFC 9112 §2.2).
func TestEmptyLineBeforeARequest(t *testing.T) {
	c := dial(t, serve(t, echo))
	c.send("\r\n" + getRoot + "\r\n" + getRoot)
	c.receive("GET")
	c.receive("GET")
	c.send("\r")
	c.send("\n")
	c.send(getRoot)
	c.receive("GET")
	c.send("\r\n\r\n")
	if response, _ := c.receive("GET"); response.StatusCode != 400 {
		t.Error(response.Status)
	}
}

// A response that breaks off never looks whole.
func TestBrokenResponses(t *testing.T) {
	broken := errors.New("broken")
	address := serve(t, func(x *exchange.Exchange) {
		body := io.MultiReader(strings.NewReader("half"), errorReader{broken})
		switch string(x.Request.Target) {
		case "/known":
			stream(x, body)
			x.Response.ContentLength = 8
		case "/short":
			stream(x, strings.NewReader("half"))
			x.Response.ContentLength = 8
		case "/unknown":
			stream(x, body)
		case "/none":
			stream(x, errorReader{broken})
			x.Response.ContentLength = 8
		case "/panic":
			stream(x, io.MultiReader(strings.NewReader("half"), panicReader{}))
		}
	})
	const ok = "HTTP/1.1 200 OK\r\nDate: *\r\n"
	for _, row := range []struct{ request, want string }{
		{"GET /known HTTP/1.1", ok + "Content-Length: 8\r\n\r\nhalf"},
		{"GET /short HTTP/1.1", ok + "Content-Length: 8\r\n\r\nhalf"},
		{"GET /unknown HTTP/1.1", ok + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
		{"GET /panic HTTP/1.1", ok + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
	} {
		c := dial(t, address)
		c.send(row.request + "\r\n" + host + "\r\n")
		c.expect(row.want)
		if rest, _ := c.ends(); rest != "" {
			t.Errorf("%s: %q follows", row.request, rest)
		}
	}
	// In HTTP/1.0 the end of the connection would be the end of the body.
	for _, target := range []string{"/unknown", "/panic"} {
		c := dial(t, address)
		c.send("GET " + target + " HTTP/1.0\r\n\r\n")
		if rest, clean := c.ends(); clean {
			t.Errorf("HTTP/1.0, %s: a clean end behind %q", target, rest)
		}
	}
	// Nothing was sent, so that there can be an answer.
	c := dial(t, address)
	c.send("GET /none HTTP/1.1\r\n" + host + "\r\n")
	if response, body := c.receive("GET"); response.StatusCode != 502 || !response.Close || !strings.Contains(body, "bad_response") {
		t.Error(response.Status, body)
	}
	c.mustEnd()
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("a body panics") }

func TestPanickingHandler(t *testing.T) {
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		text(x, "half done")
		panic("a handler panics")
	}))
	c.send(getRoot)
	if response, body := c.receive("GET"); response.StatusCode != 500 || !response.Close || !strings.Contains(body, "internal_error") {
		t.Error(response.Status, body)
	}
	c.mustEnd()
}

// What a handler leaves behind is told once, with how it ended.
func TestFinish(t *testing.T) {
	ended := make(chan error, 1)
	address := serve(t, func(x *exchange.Exchange) {
		x.OnFinish(hook(ended))
		switch string(x.Request.Target) {
		case "/ok":
			text(x, "ok")
		case "/broken":
			stream(x, errorReader{io.ErrUnexpectedEOF})
		}
	})
	for target, want := range map[string]string{"/ok": "<nil>", "/broken": "unexpected EOF", "/nobody": "the client left"} {
		c := dial(t, address)
		c.send("GET " + target + " HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n")
		c.ends()
		if err := <-ended; str(err) != want {
			t.Errorf("%s: got %v, want %s", target, err, want)
		}
	}
}

type hook chan error

func (h hook) Finished(_ *exchange.Exchange, err error) { h <- err }

func str(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}

func TestHostileRequests(t *testing.T) {
	reached := make(chan string, 1)
	address := serve(t, func(x *exchange.Exchange) {
		reached <- string(x.Request.Target)
		echo(x)
	})
	rows := hostile()
	if len(rows) < 80 {
		t.Fatalf("%d requests", len(rows))
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := dial(t, address)
			go func() { _, _ = io.WriteString(c, row.raw+"GET /smuggled HTTP/1.1\r\n"+host+"\r\n") }()
			response, body := c.receive("GET")
			if got := itoa(response.StatusCode) + " " + code(body); got != row.want || !response.Close {
				t.Errorf("got %s, close: %v; want %s (RFC %s); %q", got, response.Close, row.want, row.rfc, body)
			}
			c.mustEnd()
			select {
			case target := <-reached:
				if !row.reaches || target != "/" {
					t.Errorf("the handler saw %q", target)
				}
			default:
				if row.reaches {
					t.Error("the handler was not reached")
				}
			}
		})
	}
}
