package http1_test

import (
	"net"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// A client may close its side together with its last request. The request is
// served, and the connection does not stay open for one that can't come.
func TestLastRequestComesWithTheEnd(t *testing.T) {
	t.Parallel() // it takes 0.2 s
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, l.Addr().String())
	c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	// Only now is the connection accepted, so that both are there when it is read.
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) { text(x, "served") })}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	if _, body := c.receive("GET"); body != "served" {
		t.Errorf("got %q", body)
	}
	c.mustEnd()
}

// Close cuts a connection at once, and does not wait for its handler.
func TestCloseDoesNotWaitForHandlers(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		began <- struct{}{}
		<-release
		text(x, "late")
	})}
	c := dial(t, listen(t, s))
	c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	s.Close()
	if rest, _ := c.ends(); rest != "" {
		t.Errorf("the client got %q", rest)
	}
	close(release)
}

// Requests that come while one is being answered are answered as well, in their
// order, however they are cut.
func TestRequestsComeWhileOneIsAnswered(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	c := dial(t, serve(t, func(x *exchange.Exchange) {
		if string(x.Request.Target) == "/1" {
			began <- struct{}{}
			<-release
		}
		text(x, string(x.Request.Target))
	}))
	c.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
	<-began
	c.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHo")
	close(release)
	for _, want := range []string{"/1", "/2"} {
		if _, body := c.receive("GET"); body != want {
			t.Errorf("got %q, want %q", body, want)
		}
	}
	c.send("st: a\r\n\r\n")
	if _, body := c.receive("GET"); body != "/3" {
		t.Errorf("got %q, want /3", body)
	}
}
