package http1_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// socketBody is a body of known length that comes from a socket.
type socketBody struct {
	*net.TCPConn
	left    int64
	spliced int64
	err     error
}

func (b *socketBody) Read(p []byte) (int, error) {
	if b.err != nil || b.left == 0 {
		return 0, errors.Join(b.err, io.EOF)
	}
	n, err := b.TCPConn.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (b *socketBody) Begin() (*net.TCPConn, int64) { return b.TCPConn, b.left }

func (b *socketBody) End(n int64, err error) {
	b.left, b.spliced, b.err = b.left-n, b.spliced+n, err
}

// spliceServer answers with a body of some size, of which the source sends less by
// lack, and a tenth at a time.
func spliceServer(t *testing.T, size, lack int64, pause time.Duration) (address string, ended chan error, body *socketBody) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ended, body = make(chan error, 1), new(socketBody)
	s := &http1.Server{WriteTimeout: 5 * time.Second, Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		x.OnFinish(hook(ended))
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		*body = socketBody{TCPConn: conn.(*net.TCPConn), left: size}
		x.Response.Status, x.Response.Body, x.Response.ContentLength = 200, body, size
	})}
	go func() {
		source, err := l.Accept()
		if err != nil {
			return
		}
		defer source.Close()
		for left := size - lack; left > 0; {
			n, err := io.CopyN(source, zeros{}, min(left, size/10))
			if left -= n; err != nil || left == 0 {
				return
			}
			<-time.After(pause)
		}
	}()
	return listen(t, s), ended, body
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestSplicedBody(t *testing.T) {
	const size = 20<<20 + 7
	address, ended, body := spliceServer(t, size, 0, 0)
	c := dial(t, address)
	c.send("GET / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n")
	if _, got := c.receive("GET"); len(got) != size {
		t.Errorf("got %d bytes", len(got))
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if body.spliced < size-(2<<20) {
		t.Errorf("%d bytes were spliced", body.spliced)
	}
}

// The bound is the client's, who can't take what the source has not sent.
func TestSplicedBodyOfASlowSource(t *testing.T) {
	t.Parallel() // it takes longer than the bound
	const size = 3 << 20
	address, ended, _ := spliceServer(t, size, 0, time.Second)
	c := dial(t, address)
	_ = c.SetDeadline(time.Now().Add(3 * patience))
	c.send("GET / HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n")
	if _, got := c.receive("GET"); len(got) != size {
		t.Errorf("got %d bytes", len(got))
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSplicedBodyThatBreaksOff(t *testing.T) {
	const size = 20 << 20
	address, ended, _ := spliceServer(t, size, 1000, 0)
	c := dial(t, address)
	c.send(getRoot)
	if rest, _ := c.ends(); len(rest) > size {
		t.Errorf("got %d bytes", len(rest))
	}
	if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestSplicedBodyThatNobodyTakes(t *testing.T) {
	t.Parallel() // it takes its bound twice
	address, ended, _ := spliceServer(t, 100<<20, 0, 0)
	c := dial(t, address)
	c.send(getRoot)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it was sent")
		}
	case <-time.After(15 * time.Second):
		t.Error("it waits for ever")
	}
}
