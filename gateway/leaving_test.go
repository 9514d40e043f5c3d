package gateway_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
)

// end is how an exchange ended.
type end struct {
	status int
	reason string
	err    error
}

type ends chan end

func (e ends) Finished(x *exchange.Exchange, err error) {
	e <- end{x.Response.Status, x.Reason, err}
}

// A client that leaves, whatever it waits for or is sending, frees the backend
// within a second (O06) and counts as a client that left: neither the backend nor
// the client's request was at fault.
func TestClientLeavesInTheMidst(t *testing.T) {
	if overNetHTTP {
		t.Skip("net/http's server waits for the end of both halves")
	}
	ended := make(ends, 1)
	f := start(t, "", func(g *gateway.Gateway) {
		g.Use(func(next exchange.Handler) exchange.Handler {
			return exchange.HandlerFunc(func(x *exchange.Exchange) {
				x.OnFinish(ended)
				next.Serve(x)
			})
		})
	})
	arrived, cancelled := make(chan struct{}, 1), make(chan time.Time, 1)
	f.put("gateway/routes/r", route("/{**r}", serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { cancelled <- time.Now() }()
		if r.URL.Path == "/download" {
			w.WriteHeader(200)
			http.NewResponseController(w).Flush()
		}
		var piece [1]byte
		if r.ContentLength != 0 {
			r.Body.Read(piece[:])
		}
		arrived <- struct{}{}
		if r.ContentLength != 0 {
			io.Copy(io.Discard, r.Body)
			return
		}
		<-r.Context().Done()
	})))
	for _, row := range []struct {
		name, request string
		status        int // 0 is a client that left
	}{
		{"waiting", "GET /wait HTTP/1.1\nHost: x\n\n", 0},
		{"uploading", "POST /upload HTTP/1.1\nHost: x\nContent-Length: 100\n\nabc", 0},
		{"uploading chunks", "POST /upload HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n", 0},
		{"uploading half a chunk", "POST /upload HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n30\nabc", 0},
		{"downloading", "GET /download HTTP/1.1\nHost: x\n\n", 200},
	} {
		for how, leave := range map[string]func(*net.TCPConn) error{
			"closes":      (*net.TCPConn).Close,
			"half closes": (*net.TCPConn).CloseWrite,
			"is cut off":  func(c *net.TCPConn) error { c.SetLinger(0); return c.Close() },
		} {
			conn, err := net.Dial("tcp", f.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, strings.ReplaceAll(row.request, "\n", "\r\n"))
			await(t, arrived)
			left := time.Now()
			if err := leave(conn.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			select {
			case at := <-cancelled:
				if late := at.Sub(left); late > time.Second {
					t.Errorf("%s, %s: the backend was told after %v", row.name, how, late)
				}
			case <-time.After(patience):
				t.Fatalf("%s, %s: the backend was not told", row.name, how)
			}
			if got := <-ended; got.status != row.status || got.err == nil || row.status == 0 && got.reason != "client_gone" {
				t.Errorf("%s, %s: ended with %d %q, %v", row.name, how, got.status, got.reason, got.err)
			}
		}
	}
	f.metric(t, `grapevine_requests_total{class="499",route="r"}`, 12)
	f.metric(t, `grapevine_requests_total{class="4xx",route="r"}`, 0)
	f.metric(t, `grapevine_upstream_failures_total{cluster="r",phase="exchange"}`, 0)
}

// A body that is malformed is the client's fault, and it is told.
func TestMalformedUpload(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/r", backend(t, "b")))
	f.raw("POST /r HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabcd\n0\n\n").problem(t, 400, "bad_request_body")
}
