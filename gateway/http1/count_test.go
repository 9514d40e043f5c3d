package http1_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// counts is told how many bytes of bodies went by.
type counts chan string

func (c counts) Finished(x *exchange.Exchange, _ error) {
	c <- fmt.Sprintf("%d in, %d out", x.BytesIn, x.BytesOut)
}

// The bytes of bodies are counted, without what frames them, and those of a tunnel.
func TestBytesAreCounted(t *testing.T) {
	const size = 3 << 20 // so that the kernel moves some of it
	d := serveRaw(t, func(c *visit) {
		for r := c.request(); r != nil; r = c.request() {
			switch r.URL.Path {
			case "/chunks":
				c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(strings.Repeat("x", 1000), 300))
			case "/large":
				c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size) + strings.Repeat("x", size))
			case "/close":
				c.say("HTTP/1.1 200 OK\r\n\r\nuntil the end")
				return
			case "/ws":
				c.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
				io.Copy(c, c.in)
				return
			default:
				if c.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"); r.Method != "HEAD" {
					c.say("hello")
				}
			}
		}
	})
	u := newUpstream(t, d)
	ended := make(counts, 1)
	address := listen(t, &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		x.OnFinish(ended)
		if err := u.RoundTrip(x, wide); err != nil {
			t.Error(err)
		}
	})})
	for _, row := range []struct{ name, request, want string }{
		{"none in", "GET / HTTP/1.1\r\n" + host + "\r\n", "0 in, 5 out"},
		{"HEAD", "HEAD / HTTP/1.1\r\n" + host + "\r\n", "0 in, 0 out"},
		{"length", "POST / HTTP/1.1\r\n" + host + "Content-Length: 7\r\n\r\n1234567", "7 in, 5 out"},
		{"chunks", "POST /chunks HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + chunks(strings.Repeat("y", 2000), 700), "2000 in, 1000 out"},
		{"large", "PUT /large HTTP/1.1\r\n" + host + "Content-Length: 100000\r\n\r\n" + strings.Repeat("y", 100000), fmt.Sprintf("100000 in, %d out", size)},
		{"to an old client", "GET /chunks HTTP/1.0\r\n\r\n", "0 in, 1000 out"},
		{"until the end", "GET /close HTTP/1.1\r\n" + host + "\r\n", "0 in, 13 out"},
	} {
		c := dial(t, address)
		go io.WriteString(c.Conn, row.request)
		method, _, _ := strings.Cut(row.request, " ")
		c.receive(method)
		expect(t, row.name, await(t, "end of "+row.name, ended), row.want)
	}

	c := dial(t, address)
	c.send("GET /ws HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
	if response, err := http.ReadResponse(c.in, nil); err != nil || response.StatusCode != 101 {
		t.Fatal(response, err)
	}
	c.send("second")
	c.expect("earlyfirstsecond")
	c.Close()
	expect(t, "tunnel", await(t, "end of the tunnel", ended), "11 in, 16 out")
}
