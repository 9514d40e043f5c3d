package stdhttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/stdhttp"
)

// What is drained is used no more: idle connections are closed, and the next
// request makes its own.
func TestDrain(t *testing.T) {
	closed := make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) }))
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- conn.RemoteAddr().String()
		}
	}
	server.Start()
	defer server.Close()
	origin, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	u := stdhttp.NewUpstream(origin, stdhttp.UpstreamOptions{})
	defer u.Close()
	ask := func() string {
		x := new(exchange.Exchange)
		x.Reset(context.Background())
		x.Request.Method, x.Request.Target, x.Request.Authority = "GET", []byte("/"), []byte("a.example")
		if err := u.RoundTrip(x, wide); err != nil {
			t.Fatal(err)
		}
		defer x.Finish(nil)
		from, err := io.ReadAll(x.Response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(from)
	}
	all, none := func(net.Addr) bool { return true }, func(net.Addr) bool { return false }
	if n := u.Drain(all); n != 0 {
		t.Errorf("%d connections before the first request", n)
	}
	first := ask()
	if n := u.Drain(all); n != 1 || ask() != first {
		t.Errorf("%d connections; or the one was not used again", n)
	}
	u.Drain(none)
	select {
	case got := <-closed:
		if got != first {
			t.Errorf("closed %s, not %s", got, first)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the idle connection is open still")
	}
	if ask() == first {
		t.Error("a drained connection was used")
	}
}
