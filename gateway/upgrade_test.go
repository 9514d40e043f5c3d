package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// upgrading answers each request with a response, and then sends back what comes.
func upgrading(t *testing.T, response string) string {
	return tcp(t, func(conn net.Conn) {
		defer conn.Close()
		reader := bufio.NewReader(conn)
		if _, err := http.ReadRequest(reader); err != nil {
			return
		}
		io.WriteString(conn, strings.ReplaceAll(response, "\n", "\r\n"))
		io.Copy(conn, reader)
	})
}

const asksForWebSocket = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// A WebSocket is a tunnel that loses none of the bytes that came with the
// handshake, outlives changes of other routes, and is counted until it ends.
func TestWebSocket(t *testing.T) {
	if overNetHTTP {
		t.Skip("net/http's server forwards no upgrades")
	}
	f := start(t, "")
	f.put("gateway/routes/ws", route("/ws", upgrading(t, "HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: websocket\n\nearly")))
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, asksForWebSocket+"first")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != 101 || response.Header.Get("Upgrade") != "websocket" || response.Header.Get("X-Correlation-Id") == "" {
		t.Fatalf("%v, %v", response, err)
	}
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(reader, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	expect("earlyfirst")
	f.metric(t, `grapevine_upstream_in_flight{cluster="ws"}`, 1)
	f.put("gateway/routes/other", route("/other", unused(t)))
	io.WriteString(conn, "again")
	expect("again")
	conn.Close()
	f.metric(t, `grapevine_upstream_in_flight{cluster="ws"}`, 0)
}

// What is no upgrade to websocket that was asked for opens no tunnel.
func TestNoOtherUpgrade(t *testing.T) {
	if overNetHTTP {
		t.Skip("net/http's server forwards no upgrades")
	}
	f := start(t, "")
	for _, tt := range []struct{ name, response, want string }{
		{"another protocol", "HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: foo\n\n", "502"},
		{"no protocol", "HTTP/1.1 101 Switching Protocols\n\n", "502"},
		{"refused", "HTTP/1.1 403 Forbidden\nContent-Length: 0\n\n", "403"},
	} {
		f.put("gateway/routes/ws", route("/ws", upgrading(t, tt.response)))
		if got := f.raw(strings.TrimSuffix(strings.ReplaceAll(asksForWebSocket, "\r\n", "\n"), "\n") + "\n"); !strings.HasPrefix(got.Status, tt.want) {
			t.Errorf("%s: %s %s; want %s", tt.name, got.Status, got.body, tt.want)
		}
	}
	f.put("gateway/routes/b", route("/b", backend(t, "b")))
	got := f.raw("GET /b HTTP/1.1\nHost: x\nConnection: Upgrade, HTTP2-Settings, close\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\n\n").seen(t)
	if got.Header["Upgrade"] != nil || got.Header["Http2-Settings"] != nil {
		t.Errorf("the backend got %v", got.Header)
	}
}

// What is no request has an id and is counted, as any answer.
func TestRefusedRequests(t *testing.T) {
	if overNetHTTP {
		t.Skip("net/http's server answers these itself")
	}
	f := start(t, "")
	f.raw("GET / HTTP/1.1\nHost: x\nContent-Length: 3\nTransfer-Encoding: chunked\n\n0\n\n").problem(t, 400, "length_and_coding")
	f.metric(t, `grapevine_requests_total{class="4xx",route=""}`, 1)
}
