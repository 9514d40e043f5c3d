package http1_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// gatewayTo is a server of ours in front of an upstream of ours.
func gatewayTo(t testing.TB, u *http1.Upstream) (address string) {
	return serve(t, func(x *exchange.Exchange) {
		if err := u.RoundTrip(x, wide); err != nil {
			x.Fail(exchange.Problem{Status: 502, Code: "bad_response", Detail: failed(err)})
		}
	})
}

// What goes through both halves arrives as it was.
func TestUpstreamBehindServer(t *testing.T) {
	large := numbers(5 << 18)
	d := serveRaw(t, func(c *visit) {
		for r := c.request(); r != nil; r = c.request() {
			body, _ := io.ReadAll(r.Body)
			if body = append(body, r.Method...); r.URL.Path == "/chunks" {
				c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(string(body), 1000))
			} else if c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body))); r.Method != "HEAD" {
				c.say(string(body))
			}
		}
	})
	c := dial(t, gatewayTo(t, newUpstream(t, d)))
	for _, path := range []string{"/plain", "/chunks"} {
		for _, row := range []struct{ method, framing, body string }{
			{"GET", "", ""},
			{"POST", "Content-Length: 5\r\n\r\n", "hello"},
			{"POST", "Transfer-Encoding: chunked\r\n\r\n", chunks("hello", 2)},
			{"PUT", fmt.Sprintf("Content-Length: %d\r\n\r\n", len(large)), large},
			{"PUT", "Transfer-Encoding: chunked\r\n\r\n", chunks(large, 9000)},
			{"DELETE", "", ""},
		} {
			if row.framing == "" {
				row.framing = "\r\n"
			}
			go io.WriteString(c.Conn, row.method+" "+path+" HTTP/1.1\r\n"+host+row.framing+row.body)
			want := row.method
			switch {
			case strings.Contains(row.body, "hello") || strings.Contains(row.body, "he\r\n"):
				want = "hello" + want
			case row.body != "":
				want = large + want
			}
			if _, body := c.receive(row.method); body != want {
				t.Errorf("%s %s %.30q: got %d bytes %.50q", row.method, path, row.framing, len(body), body)
			}
		}
	}
	if n := d.visits.Load(); n != 1 {
		t.Errorf("%d connections to the destination", n)
	}
}

// A body that is in memory goes on with its head, in one write.
func TestUpstreamWritesOnceBehindServer(t *testing.T) {
	d := serveRaw(t, answers(helloOK))
	var conn *recorder
	c := dial(t, gatewayTo(t, newUpstreamTo(t, d.origin(), dialer(&conn))))
	c.send("POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello")
	if _, body := c.receive("POST"); body != "hello" {
		t.Errorf("got %q", body)
	}
	expect(t, "writes", strings.Join(conn.writes, "|"), "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello")
}

// A body whose first byte has not come holds nothing up: the destination may have
// something to say first.
func TestUpstreamDoesNotWaitForBodies(t *testing.T) {
	heads := make(chan string, 1)
	d := serveRaw(t, func(c *visit) {
		for r, err := http.ReadRequest(c.in); err == nil; r, err = http.ReadRequest(c.in) {
			heads <- r.Method
			body, _ := io.ReadAll(r.Body)
			c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		}
	})
	c := dial(t, gatewayTo(t, newUpstream(t, d)))
	for begin, rest := range map[string]string{
		"Content-Length: 5\r\n\r\n":                 "hello",
		"Transfer-Encoding: chunked\r\n\r\n":        chunks("hello", 9),
		"Transfer-Encoding: chunked\r\n\r\n5":       chunks("hello", 9)[1:],
		"Transfer-Encoding: chunked\r\n\r\n5\r\n":   chunks("hello", 9)[3:],
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhe": chunks("hello", 9)[5:],
	} {
		c.send("POST / HTTP/1.1\r\n" + host + begin)
		await(t, "head of "+begin, heads)
		c.send(rest)
		if _, body := c.receive("POST"); body != "hello" {
			t.Errorf("%q: got %q", begin, body)
		}
	}
}

// A client that leaves is noticed while its response is awaited (O06).
func TestUpstreamEndsWithItsClient(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	d := serveRaw(t, func(c *visit) {
		c.head()
		close(arrived)
		c.untilClosed()
		close(ended)
	})
	c := dial(t, gatewayTo(t, newUpstream(t, d)))
	c.send("GET / HTTP/1.1\r\n" + host + "\r\n")
	await(t, "request", arrived)
	c.Close()
	await(t, "end of the connection", ended)
}

// An error that comes early reaches a client that is still sending (O07).
func TestUpstreamEarlyErrorBehindServer(t *testing.T) {
	d := serveRaw(t, func(c *visit) {
		c.head()
		io.CopyN(io.Discard, c.in, 1024)
		c.say("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge")
	})
	address := gatewayTo(t, newUpstream(t, d))
	for range 100 {
		c := dial(t, address)
		go io.WriteString(c.Conn, "POST / HTTP/1.1\r\n"+host+"Content-Length: 5242880\r\n\r\n"+strings.Repeat("x", 5<<20))
		if response, body := c.receive("POST"); response.StatusCode != 413 || body != "large" {
			t.Fatalf("got %s %q", response.Status, body)
		}
		c.Close()
	}
}

// A WebSocket's first frame may come with the handshake (O16).
func TestUpstreamTunnelBehindServer(t *testing.T) {
	d := serveRaw(t, func(c *visit) {
		if r, err := http.ReadRequest(c.in); err != nil || r.Header.Get("Upgrade") != "websocket" {
			return
		}
		c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nwelcome ")
		io.Copy(c, c.in)
	})
	c := dial(t, gatewayTo(t, newUpstream(t, d)))
	c.send("GET /ws HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\nfirst")
	response, err := http.ReadResponse(c.in, nil)
	if err != nil || response.StatusCode != 101 {
		t.Fatalf("got %v, %v", response, err)
	}
	got := make([]byte, len("welcome first"))
	if _, err := io.ReadFull(c.in, got); err != nil || string(got) != "welcome first" {
		t.Errorf("got %q, %v", got, err)
	}
	c.Conn.(*net.TCPConn).CloseWrite()
	c.mustEnd()
}
