package http1_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

func TestShutdown(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		if string(x.Request.Target) == "/wait" {
			begun <- struct{}{}
			<-goOn
		}
		text(x, "ok")
	})}
	address := listen(t, s)
	fresh, idle, busy := dial(t, address), dial(t, address), dial(t, address)
	idle.send(getRoot)
	idle.receive("GET")
	busy.send("GET /wait HTTP/1.1\r\n" + host + "\r\n" + getRoot) // the second one is never answered
	<-begun
	ended := make(chan error)
	go func() { ended <- s.Shutdown(t.Context()) }()
	idle.mustEnd()
	for { // the listener is closed before
		conn, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		conn.Close()
	}
	// What a client has just begun is answered.
	fresh.send(getRoot)
	if response, _ := fresh.receive("GET"); !response.Close {
		t.Error("the connection is said to stay")
	}
	fresh.mustEnd()
	select {
	case err := <-ended:
		t.Fatalf("Shutdown returned %v before the last response", err)
	default:
	}
	close(goOn)
	if response, body := busy.receive("GET"); !response.Close || body != "ok" {
		t.Error(response, body)
	}
	busy.mustEnd()
	busy.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestShutdownGivesUp(t *testing.T) {
	begun := make(chan struct{})
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		begun <- struct{}{}
		<-x.Context().Done()
	})}
	c := dial(t, listen(t, s))
	c.send(getRoot)
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	s.Close()
	if rest, _ := c.ends(); rest != "" {
		t.Errorf("got %q", rest)
	}
	if conn, far := net.Pipe(); true {
		s.ServeConn(far) // serves no more
		if _, err := conn.Write([]byte("x")); err == nil {
			t.Error("it still serves")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Error(err)
	}
}
