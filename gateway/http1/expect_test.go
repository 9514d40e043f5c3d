package http1_test

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

const (
	expectHead = "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
	goOn       = "HTTP/1.1 100 Continue\r\n\r\n"
)

func TestExpectIsAnsweredWhenTheBodyIsRead(t *testing.T) {
	read := make(chan bool)
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		if <-read {
			echo(x)
		} else {
			text(x, "no")
		}
	}))
	c.send(expectHead)
	read <- true
	c.expect(goOn)
	c.send("hello")
	if _, body := c.receive("POST"); body != "POST /\nhello" {
		t.Errorf("got %q", body)
	}
	// A client that does not wait needs no leave (RFC 9110 §10.1.1).
	c.send(expectHead + "hello")
	read <- true
	c.expect("HTTP/1.1 200 OK\r\nDate: *\r\nContent-Length: 12\r\n\r\nPOST /\nhello")
	// Without leave the client may never send the body, so nothing can follow.
	c.send(expectHead)
	read <- false
	c.expect("HTTP/1.1 200 OK\r\nDate: *\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
	c.mustEnd()
}

func TestInterimResponsesAreRelayed(t *testing.T) {
	hints := exchange.Fields{{Name: []byte("Link"), Value: []byte("a")}}
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		if x.Request.Protocol == "1.0" {
			if x.Interim != nil {
				t.Error("HTTP/1.0 has no interim responses")
			}
			text(x, "old")
			return
		}
		x.Interim(101, nil) // not what the client asked for
		x.Interim(103, hints)
		x.Interim(100, nil)
		x.Interim(200, nil) // not interim
		echo(x)
	}))
	const early = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
	c.send(getRoot)
	c.expect(early + "HTTP/1.1 200 OK\r\nDate: *\r\nContent-Length: 6\r\n\r\nGET /\n")
	c.send(expectHead)
	c.expect(early + goOn)
	c.send("hello")
	c.expect("HTTP/1.1 200 OK\r\nDate: *\r\nContent-Length: 12\r\n\r\nPOST /\nhello")
	c.send("GET / HTTP/1.0\r\n\r\n")
	c.receive("GET")
}

// A client that sends all before it reads gets an answer that came before.
func TestEarlyAnswer(t *testing.T) {
	address := serve(t, func(x *exchange.Exchange) {
		x.Fail(exchange.Problem{Status: 413, Code: "too_large"})
	})
	body := strings.Repeat("x", 5<<20)
	tries := 20
	if os.Getenv("GRAPEVINE_LONG") != "" {
		tries = 200
	}
	for range tries {
		c := dial(t, address)
		c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: " + itoa(len(body)) + "\r\n\r\n")
		if _, err := io.WriteString(c, body); err != nil {
			t.Fatalf("the body can't be sent: %v", err)
		}
		if response, _ := c.receive("POST"); response.StatusCode != 413 || !response.Close {
			t.Fatal(response.Status, response.Close)
		}
	}
}

// A small body that nobody read does not cost the connection.
func TestUnreadBodies(t *testing.T) {
	address := serve(t, func(x *exchange.Exchange) { text(x, "ok") })
	for name, row := range map[string]struct {
		request, rest string
		stays         bool
	}{
		"small":         {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\n", "hello", true},
		"small chunks":  {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", true},
		"large":         {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1000000\r\n\r\n", "hello", false},
		"broken chunks": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "x\r\n", false},
		"large chunks":  {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n", 20) + "0\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, address)
			c.send(row.request)
			if response, _ := c.receive("POST"); response.Close != (name == "large") {
				t.Errorf("close: %v", response.Close)
			}
			go func() { _, _ = io.WriteString(c, row.rest+getRoot) }()
			if !row.stays {
				c.mustEnd()
				return
			}
			c.receive("GET")
		})
	}
}

// The upstream may go on reading the body when the response has begun. Who reads
// when the exchange has ended gets nothing, least of all the next request.
func TestReadingTheBodyBesideTheResponse(t *testing.T) {
	stale := make(chan io.Reader, 1)
	address := serve(t, func(x *exchange.Exchange) {
		if string(x.Request.Target) == "/next" {
			if n, err := (<-stale).Read(make([]byte, 3)); n != 0 || err == nil || err == io.EOF {
				t.Errorf("a stale reader got %d bytes, %v", n, err)
			}
			echo(x)
			return
		}
		out, in := io.Pipe()
		body := x.Request.Body
		stream(x, out)
		go func() {
			var first [5]byte
			_, _ = io.ReadFull(body, first[:])
			_, _ = in.Write(first[:])
			in.Close()
			stale <- body
		}()
	})
	c := dial(t, address)
	c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 10\r\n\r\n")
	c.send("hello")
	if _, body := c.receive("POST"); body != "hello" {
		t.Errorf("got %q", body)
	}
	c.send("worldPOST /next HTTP/1.1\r\n" + host + "Content-Length: 6\r\n\r\nsecret")
	if _, body := c.receive("POST"); body != "POST /next\nsecret" {
		t.Errorf("got %q", body)
	}
}

// A read that waits for the client when the response has ended is ended too.
func TestResponseEndsWhileTheBodyIsRead(t *testing.T) {
	ended := make(chan error, 1)
	address := serve(t, func(x *exchange.Exchange) {
		reading := make(chan struct{})
		body := x.Request.Body
		go func() {
			var b [1]byte
			_, _ = body.Read(b[:])
			close(reading)
			_, err := body.Read(b[:])
			ended <- err
		}()
		<-reading
		text(x, "done")
	})
	c := dial(t, address)
	c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 10\r\n\r\nx")
	if response, _ := c.receive("POST"); !response.Close {
		t.Error("the connection is said to stay")
	}
	if err := <-ended; err == nil {
		t.Error("the body had an end")
	}
	c.mustEnd()
}

func TestAbandonedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
			if x.Request.Body == nil {
				text(x, "next")
				return
			}
			ended := make(chan error)
			go func() {
				_, err := x.Request.Body.Read(make([]byte, 10))
				ended <- err
			}()
			synctest.Wait() // until it waits for the client
			begin := time.Now()
			x.Request.Abandon()
			if err := <-ended; err == nil || err == io.EOF || time.Since(begin) > 0 {
				t.Error(err, time.Since(begin))
			}
			text(x, "sorry")
		})}
		play := func(requests ...string) {
			near, far := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.ServeConn(far)
			}()
			c := &client{TB: t, Conn: near, in: newReader(near)}
			for i, request := range requests {
				c.send(request)
				if response, body := c.receive("GET"); response.Close != (body == "sorry") {
					t.Errorf("request %d: %q, close: %v", i, body, response.Close)
				}
			}
			c.Close()
			<-done
		}
		// Nothing of it is left to whoever gets the memory.
		for range 10 {
			play("POST / HTTP/1.1\r\n" + host + "Content-Length: 10\r\n\r\n")
			play(getRoot, getRoot, getRoot)
		}
	})
}

func TestRequestTrailers(t *testing.T) {
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		announced := lines(" ", x.Request.Trailers)
		if _, err := io.ReadAll(x.Request.Body); err != nil {
			t.Error(err)
		}
		text(x, announced+" then"+lines(" ", x.Request.Trailers))
	}))
	for range 2 {
		c.send("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTrailer: A, Content-Length\r\n\r\n1\r\nx\r\n0\r\nA: 1\r\nB: 2\r\nContent-Length: 5\r\n\r\n")
		if _, body := c.receive("POST"); body != ` A="" then A="1" B="2"` {
			t.Errorf("got %q", body)
		}
	}
}
