package http1_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

const (
	upgrade  = "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	switched = "HTTP/1.1 101 Switching Protocols\r\nX: 1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
)

// tunnelServer switches protocols; far is the other end of each tunnel.
func tunnelServer(t *testing.T, s *http1.Server) (address string, far chan net.Conn, ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	far, ended = make(chan net.Conn, 1), make(chan error, 1)
	s.Handler = exchange.HandlerFunc(func(x *exchange.Exchange) {
		if x.Request.Upgrade != "websocket" {
			t.Error("no upgrade")
		}
		x.OnFinish(hook(ended))
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		other, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_ = other.SetDeadline(time.Now().Add(patience))
		x.Response.Status, x.Response.Tunnel = 101, near
		x.Response.Fields.Add("X", []byte("1"))
		far <- other
	})
	return listen(t, s), far, ended
}

func TestTunnel(t *testing.T) {
	address, fars, ended := tunnelServer(t, new(http1.Server))
	c := dial(t, address)
	c.send(upgrade + "early") // in the segment of the handshake
	c.expect(switched)
	far := &client{TB: t, Conn: <-fars}
	far.in = newReader(far.Conn)
	far.expect("early")
	for range 3 {
		far.send("down")
		c.expect("down")
		c.send("up")
		far.expect("up")
	}
	// Each half is closed by itself.
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	far.mustEnd()
	far.send("last words")
	far.Close()
	c.expect("last words")
	c.mustEnd()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTunnelEndsWithEitherSide(t *testing.T) {
	address, fars, ended := tunnelServer(t, new(http1.Server))
	c := dial(t, address)
	c.send(upgrade)
	c.expect(switched)
	far := <-fars
	far.Close()
	c.mustEnd()
	c.Close()
	<-ended

	c = dial(t, address)
	c.send(upgrade)
	c.expect(switched)
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
	far = <-fars
	if rest, err := io.ReadAll(far); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(rest, err)
	}
	far.Close()
	if err := <-ended; err == nil {
		t.Error("a reset is no end")
	}
}

func TestSilentTunnel(t *testing.T) {
	address, fars, ended := tunnelServer(t, &http1.Server{TunnelIdle: 50 * time.Millisecond})
	c := dial(t, address)
	c.send(upgrade)
	c.expect(switched)
	if err := <-ended; err == nil {
		t.Error("it ended by itself")
	}
	c.mustEnd()
	(<-fars).Close()
}

// A WebSocket is told that the server goes away, if that can be said between two
// frames, once Shutdown has waited for it.
func TestShutdownEndsTunnels(t *testing.T) {
	for name, row := range map[string]struct{ sent, want string }{
		"between frames":        {"\x81\x05hello", "\x88\x02\x03\xe9"},
		"before any":            {"", "\x88\x02\x03\xe9"},
		"behind a long one":     {"\x82\x7e\x00\x80" + string(make([]byte, 128)), "\x88\x02\x03\xe9"},
		"behind a longer one":   {"\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x03abc", "\x88\x02\x03\xe9"},
		"behind a masked one":   {"\x81\x82\x01\x02\x03\x04ab", "\x88\x02\x03\xe9"},
		"behind two":            {"\x89\x00\x81\x01a", "\x88\x02\x03\xe9"},
		"within a head":         {"\x81", ""},
		"within a length":       {"\x82\x7e\x00", ""},
		"within a payload":      {"\x81\x05hell", ""},
		"between two fragments": {"\x01\x01a", "\x88\x02\x03\xe9"},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(http1.Server)
			address, fars, ended := tunnelServer(t, s)
			c := dial(t, address)
			c.send(upgrade)
			c.expect(switched)
			far := &client{TB: t, Conn: <-fars}
			far.in = newReader(far.Conn)
			far.send(row.sent)
			c.expect(row.sent)
			ctx, cancel := context.WithCancel(t.Context())
			var done atomic.Bool
			ending := make(chan error)
			go func() {
				err := s.Shutdown(ctx)
				done.Store(true)
				ending <- err
			}()
			c.send("up") // it lives until ctx ends
			far.expect("up")
			if done.Load() {
				t.Error("Shutdown did not wait")
			}
			cancel()
			if rest, _ := c.ends(); rest != row.want {
				t.Errorf("got %q, want %q", rest, row.want)
			}
			c.Close()
			if err := <-ending; err != nil {
				t.Error(err)
			}
			<-ended
			far.mustEnd()
		})
	}
}

// A client that is just sending is told too: no reset takes the frame from it.
func TestShutdownEndsATunnelThatIsSending(t *testing.T) {
	s := new(http1.Server)
	address, fars, ended := tunnelServer(t, s)
	c := dial(t, address)
	c.send(upgrade)
	c.expect(switched)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.CopyN(c, zeros{}, 64<<20) // more than is held on the way
	}()
	far := <-fars
	defer far.Close()
	if _, err := io.ReadFull(far, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	c.expect("\x88\x02\x03\xe9")
	c.Close()
	<-sent
	<-ended
}

// What was not asked for is not switched to.
func TestSwitchThatNobodyAskedFor(t *testing.T) {
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		near, _ := net.Pipe()
		x.Response.Status, x.Response.Tunnel = 101, near
	}))
	c.send(getRoot)
	if response, _ := c.receive("GET"); response.StatusCode != 502 {
		t.Error(response.Status)
	}
	c.mustEnd()
}
