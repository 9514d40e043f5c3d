package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"grapevine/gateway/http1"
)

// socketServer is a WebSocket backend: what it does is the path. closed is told how
// each connection ended.
func socketServer(t *testing.T) (address string, closed chan error) {
	t.Helper()
	closed = make(chan error, 1)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(403)
			return
		}
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}, CompressionMode: websocket.CompressionContextTakeover})
		if err != nil {
			return // it has answered
		}
		defer c.CloseNow()
		c.SetReadLimit(64 << 20)
		ctx := r.Context()
		switch what := r.URL.Path[1:]; what {
		case "echo":
			closed <- echoSocket(ctx, c)
		case "ping":
			c.CloseRead(ctx) // so that pongs are read
			_ = c.Write(ctx, websocket.MessageText, fmt.Append(nil, c.Ping(ctx)))
			closed <- c.Close(websocket.StatusNormalClosure, "")
		case "flood":
			closed <- flood(ctx, c)
		case "vanish":
			closed <- c.CloseNow()
		default: // a code
			var code int
			_, _ = fmt.Sscan(what, &code)
			closed <- c.Close(websocket.StatusCode(code), "because "+what)
		}
	}), closed
}

func echoSocket(ctx context.Context, c *websocket.Conn) error {
	for {
		kind, message, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if err := c.Write(ctx, kind, message); err != nil {
			return err
		}
	}
}

// floods are the messages of a flood: 8 MiB each way.
const floods = 32

// flood sends and takes at the same time as much as fits nowhere on the way.
func flood(ctx context.Context, c *websocket.Conn) error {
	sent := make(chan error)
	go func() {
		var err error
		for range floods {
			err = errors.Join(err, c.Write(ctx, websocket.MessageBinary, make([]byte, 256<<10)))
		}
		sent <- err
	}()
	var err error
	for range floods {
		_, message, readErr := c.Read(ctx)
		if err = errors.Join(err, readErr); len(message) != 256<<10 {
			err = errors.Join(err, fmt.Errorf("%d bytes", len(message)))
		}
	}
	return errors.Join(err, <-sent)
}

// socketCase is something to do with a WebSocket. What comes of it is told in words.
type socketCase struct {
	name, path string
	do         func(ctx context.Context, c *websocket.Conn) string
	// want is what comes of it, server a part of how the server's side ends.
	want, server string
	large        bool
}

// largeMessage is what a message may well have.
const largeMessage = 16 << 20

func socketCases() []socketCase {
	const normal = `status = StatusNormalClosure and reason = ""`
	cases := []socketCase{
		{"ping", "echo", func(ctx context.Context, c *websocket.Conn) string {
			c.CloseRead(ctx) // so that pongs are read
			return fmt.Sprint(c.Ping(ctx), c.Ping(ctx), c.Close(websocket.StatusNormalClosure, ""))
		}, "<nil> <nil> <nil>", normal, false},
		{"ping from the server", "ping", func(ctx context.Context, c *websocket.Conn) string {
			_, message, err := c.Read(ctx)
			_, _, end := c.Read(ctx)
			return fmt.Sprintf("%s %v %v", message, err, websocket.CloseStatus(end))
		}, "<nil> <nil> StatusNormalClosure", "<nil>", false},
		{"fragments", "echo", func(ctx context.Context, c *websocket.Conn) string {
			w, err := c.Writer(ctx, websocket.MessageText)
			for i := range 100 {
				_, writeErr := fmt.Fprintf(w, "%d,", i)
				err = errors.Join(err, writeErr)
			}
			err = errors.Join(err, w.Close())
			kind, message, readErr := c.Read(ctx)
			return fmt.Sprintln(kind, strings.Count(string(message), ","), err, readErr, c.Close(websocket.StatusNormalClosure, ""))
		}, "MessageText 100 <nil> <nil> <nil>\n", normal, false},
		{"both at once", "flood", func(ctx context.Context, c *websocket.Conn) string {
			return fmt.Sprint(flood(ctx, c))
		}, "<nil>", "<nil>", true},
		{"the server vanishes", "vanish", func(ctx context.Context, c *websocket.Conn) string {
			_, _, err := c.Read(ctx)
			return fmt.Sprint(err != nil, websocket.CloseStatus(err))
		}, "true StatusCode(-1)", "<nil>", false},
		{"the client vanishes", "echo", func(_ context.Context, c *websocket.Conn) string {
			return fmt.Sprint(c.CloseNow())
		}, "<nil>", "", false},
	}
	for _, size := range []int{0, 1, 125, 126, 65535, 65536, 1 << 20, largeMessage} {
		for _, kind := range []websocket.MessageType{websocket.MessageText, websocket.MessageBinary} {
			if size == largeMessage && kind == websocket.MessageText {
				continue // which the test's own ends are slow to check
			}
			cases = append(cases, socketCase{fmt.Sprintf("%v of %d bytes", kind, size), "echo", func(ctx context.Context, c *websocket.Conn) string {
				message := bytes.Repeat([]byte("x"), size)
				err := c.Write(ctx, kind, message)
				gotKind, got, readErr := c.Read(ctx)
				return fmt.Sprint(err, readErr, gotKind == kind, bytes.Equal(got, message), c.Close(websocket.StatusNormalClosure, ""))
			}, "<nil> <nil> true true <nil>", normal, size == largeMessage})
		}
	}
	for _, code := range []websocket.StatusCode{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 4999} {
		cases = append(cases,
			socketCase{fmt.Sprintf("the client closes with %d", int(code)), "echo", func(_ context.Context, c *websocket.Conn) string {
				return fmt.Sprint(c.Close(code, "bye"))
			}, "<nil>", fmt.Sprintf("status = %v and reason = %q", code, "bye"), false},
			socketCase{fmt.Sprintf("the server closes with %d", int(code)), fmt.Sprint(int(code)), func(ctx context.Context, c *websocket.Conn) string {
				_, _, err := c.Read(ctx)
				var end websocket.CloseError
				_ = errors.As(err, &end)
				return fmt.Sprint(int(end.Code), " ", end.Reason)
			}, fmt.Sprintf("%d because %[1]d", int(code)), "<nil>", false})
	}
	return cases
}

// proxied is a route to a WebSocket server, and the server itself.
func proxied(t *testing.T) (ways map[string]string, closed chan error) {
	t.Helper()
	if overNetHTTP {
		t.Skip("net/http's server forwards no upgrades")
	}
	direct, closed := socketServer(t)
	f := start(t, "")
	f.put("gateway/routes/ws", route("/{**r}", direct))
	return map[string]string{"direct": strings.TrimPrefix(direct, "http://"), "through the gateway": f.address}, closed
}

// A WebSocket is through the gateway what it is without it.
func TestWebSocketIsTransparent(t *testing.T) {
	ways, closed := proxied(t)
	for _, compression := range []websocket.CompressionMode{websocket.CompressionDisabled, websocket.CompressionContextTakeover} {
		for _, tt := range socketCases() {
			if tt.large && compression != websocket.CompressionDisabled && os.Getenv("GRAPEVINE_LONG") == "" {
				continue
			}
			for way, address := range ways {
				ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
				c, response, err := websocket.Dial(ctx, "ws://"+address+"/"+tt.path, &websocket.DialOptions{Subprotocols: []string{"other", "chat"}, CompressionMode: compression})
				if err != nil {
					t.Fatalf("%s, %s: %v", tt.name, way, err)
				}
				if c.Subprotocol() != "chat" || (response.Header.Get("Sec-WebSocket-Extensions") != "") != (compression != websocket.CompressionDisabled) {
					t.Errorf("%s, %s: agreed on %q, %v", tt.name, way, c.Subprotocol(), response.Header)
				}
				c.SetReadLimit(64 << 20)
				if got := tt.do(ctx, c); got != tt.want {
					t.Errorf("%s, %s: %.200s; want %s", tt.name, way, got, tt.want)
				}
				select {
				case err := <-closed:
					if got := fmt.Sprint(err); !strings.Contains(got, tt.server) {
						t.Errorf("%s, %s: the server's side ended with %s; want %s", tt.name, way, got, tt.server)
					}
				case <-ctx.Done():
					t.Errorf("%s, %s: the server's side did not end", tt.name, way)
				}
				c.CloseNow()
				cancel()
			}
		}
	}
}

// A server that wants no WebSocket says so itself.
func TestWebSocketIsRefused(t *testing.T) {
	ways, _ := proxied(t)
	for way, address := range ways {
		_, response, err := websocket.Dial(t.Context(), "ws://"+address+"/forbidden", nil)
		if err == nil || response == nil || response.StatusCode != 403 {
			t.Errorf("%s: %v, %v", way, response, err)
		}
	}
}

// rawFrames are frames that a server must answer in some way, or refuse, after the
// cases of the Autobahn suite. Those of a client are masked, here with zeros.
var rawFrames = map[string]string{
	"text":                          "\x81\x85\x00\x00\x00\x00hello",
	"empty text":                    "\x81\x80\x00\x00\x00\x00",
	"length of 16 bits":             "\x82\xfe\x00\x7e\x00\x00\x00\x00" + strings.Repeat("x", 126),
	"longer length than needed":     "\x82\xfe\x00\x05\x00\x00\x00\x00hello",
	"length of 64 bits":             "\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" + strings.Repeat("x", 65536),
	"length with its highest bit":   "\x82\xff\x80\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00hello",
	"ping":                          "\x89\x84\x00\x00\x00\x00ping",
	"ping of 126 bytes":             "\x89\xfe\x00\x7e\x00\x00\x00\x00" + strings.Repeat("x", 126),
	"ping in fragments":             "\x09\x81\x00\x00\x00\x00p\x80\x81\x00\x00\x00\x00i",
	"pong that nobody asked for":    "\x8a\x80\x00\x00\x00\x00\x89\x80\x00\x00\x00\x00",
	"fragments":                     "\x01\x82\x00\x00\x00\x00he\x00\x82\x00\x00\x00\x00ll\x80\x81\x00\x00\x00\x00o",
	"ping between fragments":        "\x01\x82\x00\x00\x00\x00he\x89\x80\x00\x00\x00\x00\x80\x83\x00\x00\x00\x00llo",
	"text between fragments":        "\x01\x82\x00\x00\x00\x00he\x81\x83\x00\x00\x00\x00llo",
	"continuation of nothing":       "\x80\x83\x00\x00\x00\x00llo",
	"reserved bit":                  "\xa1\x85\x00\x00\x00\x00hello",
	"compressed without agreement":  "\xc1\x85\x00\x00\x00\x00hello",
	"reserved opcode":               "\x83\x85\x00\x00\x00\x00hello",
	"reserved control opcode":       "\x8b\x80\x00\x00\x00\x00",
	"not masked":                    "\x81\x05hello",
	"no UTF-8":                      "\x81\x82\x00\x00\x00\x00\xc3\x28",
	"close":                         "\x88\x82\x00\x00\x00\x00\x03\xe8",
	"close without a code":          "\x88\x80\x00\x00\x00\x00",
	"close with half a code":        "\x88\x81\x00\x00\x00\x00\x03",
	"close with a forbidden code":   "\x88\x82\x00\x00\x00\x00\x03\xed",
	"close with a reason":           "\x88\x87\x00\x00\x00\x00\x03\xe8hello",
	"close with too long a reason":  "\x88\xfe\x00\x7e\x00\x00\x00\x00\x03\xe8" + strings.Repeat("x", 124),
	"close, and then text":          "\x88\x82\x00\x00\x00\x00\x03\xe8\x81\x85\x00\x00\x00\x00hello",
	"close between fragments":       "\x01\x82\x00\x00\x00\x00he\x88\x82\x00\x00\x00\x00\x03\xe8",
	"no frames at all":              "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"half a frame, and then an end": "\x81\x85\x00\x00\x00\x00hel",
}

// What a server makes of frames, good and bad, reaches the client byte by byte, and
// the other way round, whether they come with the handshake or behind it.
func TestWebSocketFramesAreNotTouched(t *testing.T) {
	ways, closed := proxied(t)
	for name, frames := range rawFrames {
		want := playFrames(t, ways["direct"], frames, false)
		<-closed
		for _, early := range []bool{false, true} {
			if got := playFrames(t, ways["through the gateway"], frames, early); got != want {
				t.Errorf("%s, early: %v:\n got %.300q\nwant %.300q", name, early, got, want)
			}
			<-closed
		}
	}
}

// playFrames gives all that a server sends back.
func playFrames(t *testing.T, address, frames string, early bool) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	const handshake = "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	if early {
		io.WriteString(conn, handshake+frames)
	} else {
		io.WriteString(conn, handshake)
	}
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != 101 {
		t.Fatalf("%v, %v", response, err)
	}
	if !early {
		io.WriteString(conn, frames)
	}
	conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(in)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q: the connection stays open behind %q", frames, answer)
	}
	return string(answer)
}

// When the server goes away WebSockets live through its grace, and then are told.
func TestWebSocketsAreToldOfAShutdown(t *testing.T) {
	if overNetHTTP {
		t.Skip("net/http's server forwards no upgrades")
	}
	to, closed := socketServer(t)
	f := start(t, "")
	f.put("gateway/routes/ws", route("/{**r}", to))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http1.Server{Handler: f.gateway}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	var sockets []*websocket.Conn
	for range 10 {
		c, _, err := websocket.Dial(t.Context(), "ws://"+listener.Addr().String()+"/echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		sockets = append(sockets, c)
	}
	exchange := func() {
		t.Helper()
		for _, c := range sockets {
			if err := c.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, message, err := c.Read(t.Context()); err != nil || string(message) != "hello" {
				t.Fatalf("%q, %v", message, err)
			}
		}
	}
	exchange()
	grace, end := context.WithCancel(t.Context())
	defer end()
	down := make(chan error, 1)
	go func() { down <- server.Shutdown(grace) }()
	if err := <-served; err != nil { // it accepts no more
		t.Error(err)
	}
	exchange()
	end()
	var told sync.WaitGroup
	for _, c := range sockets {
		told.Go(func() {
			_, _, err := c.Read(t.Context())
			if websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the client sees %v", err)
			}
		})
	}
	told.Wait()
	if err := <-down; err != nil {
		t.Error(err)
	}
	for range sockets {
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatal("a backend's side stays open")
		}
	}
}
