package http1_test

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// heldBy is what the exchanges of these tests are for.
type heldBy struct{ name string }

func recalling(name string) func(any, netip.Addr) bool {
	return func(by any, client netip.Addr) bool { return by.(*heldBy).name == name && client.IsLoopback() }
}

func TestRecallAnswersWhoWaits(t *testing.T) {
	waiting := make(chan string)
	goOn := make(chan struct{})
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		name := string(x.Request.Target)
		if name == "/now" {
			text(x, name)
			return
		}
		if name != "/unheld" {
			x.Hold(&heldBy{name})
		}
		waiting <- name
		select {
		case <-x.Context().Done():
			if !x.Recalled() {
				t.Error(name, "ended, and not by the recall")
			}
			x.Fail(exchange.Problem{Status: 503, Code: "recalled"})
		case <-goOn:
			text(x, name)
		}
	})}
	address := listen(t, s)
	clients := map[string]*client{}
	for _, name := range []string{"/a", "/b", "/unheld"} {
		clients[name] = dial(t, address)
		clients[name].send("GET " + name + " HTTP/1.1\r\n" + host + "\r\n")
		<-waiting
	}
	if n := s.Recall(recalling("/a")); n != 1 {
		t.Errorf("%d were told", n)
	}
	if response, body := clients["/a"].receive("GET"); response.StatusCode != 503 || code(body) != "recalled" || response.Close {
		t.Error(response, body)
	}
	// The next exchange of the connection is another one, which nobody holds so far.
	clients["/a"].send("GET /now HTTP/1.1\r\n" + host + "\r\n")
	if response, body := clients["/a"].receive("GET"); response.StatusCode != 200 || body != "/now" {
		t.Error(response, body)
	}
	if n := s.Recall(recalling("/a")); n != 0 {
		t.Errorf("%d were told, and none is under way", n)
	}
	close(goOn)
	for _, name := range []string{"/b", "/unheld"} {
		if response, body := clients[name].receive("GET"); response.StatusCode != 200 || body != name {
			t.Error(name, response, body)
		}
	}
}

// breaking is a body that ends with the exchange.
type breaking struct {
	x     *exchange.Exchange
	begun bool
}

func (b *breaking) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		return copy(p, "begun"), nil
	}
	<-b.x.Context().Done()
	return 0, io.ErrUnexpectedEOF
}

func TestRecallBreaksOffAResponse(t *testing.T) {
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		x.Hold(&heldBy{"stream"})
		stream(x, &breaking{x: x})
	})}
	c := dial(t, listen(t, s))
	c.send(getRoot)
	c.expect("HTTP/1.1 200 OK\r\nDate: *\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n")
	if n := s.Recall(recalling("stream")); n != 1 {
		t.Errorf("%d were told", n)
	}
	if rest, _ := c.ends(); rest != "" {
		t.Errorf("behind the break came %q", rest)
	}
}

func TestRecallTellsWebSockets(t *testing.T) {
	near, far := net.Pipe()
	ended := make(chan error, 1)
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		x.OnFinish(hook(ended))
		x.Hold(&heldBy{"socket"})
		x.Response.Status, x.Response.Tunnel = 101, near
		x.Response.Fields.Add("X", []byte("1"))
	})}
	c := dial(t, listen(t, s))
	c.send(upgrade)
	c.expect(switched)
	go func() { _, _ = far.Write([]byte{0x82, 1, 'x'}) }()
	c.expect("\x82\x01x")
	if n := s.Recall(recalling("another")); n != 0 {
		t.Errorf("%d were told", n)
	}
	if n := s.Recall(recalling("socket")); n != 1 {
		t.Errorf("%d were told", n)
	}
	c.expect("\x88\x02\x03\xe9") // 1001
	if n := s.Recall(recalling("socket")); n != 0 {
		t.Errorf("%d were told again", n)
	}
	c.mustEnd()
	<-ended
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the far side stays open")
	}
}
