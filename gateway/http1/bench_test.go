package http1_test

import (
	"bytes"
	"net"
	"testing"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// plain answers without memory of its own.
func plain() exchange.HandlerFunc {
	name, value := []byte("Content-Type"), []byte("text/plain")
	body := []byte("hello, world")
	readers := make(chan *memoryBody, 1024)
	return func(x *exchange.Exchange) {
		var b *memoryBody
		select {
		case b = <-readers:
		default:
			b = &memoryBody{back: readers}
		}
		b.Reset(body)
		x.Response.Status = 200
		x.Response.Fields = append(x.Response.Fields, exchange.Field{Name: name, Value: value})
		x.Response.Body, x.Response.ContentLength = b, int64(len(body))
	}
}

type memoryBody struct {
	bytes.Reader
	back chan *memoryBody
}

func (b *memoryBody) Close() error {
	b.back <- b
	return nil
}

// roundTrips returns a function that makes one request on a connection and reads
// its response of a length that does not change.
func roundTrips(t testing.TB, conn net.Conn, request string) func() {
	in, out := make([]byte, 4096), []byte(request)
	once := func() {
		if _, err := conn.Write(out); err != nil {
			t.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(in[:n], []byte("hello, world")); {
			m, err := conn.Read(in[n:])
			if n += m; err != nil {
				t.Fatal(err)
			}
		}
	}
	once()
	return once
}

// pipes are a listener-free way in: both ends of a connection in memory.
func pipe(t testing.TB, s *http1.Server) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ServeConn(server)
	}()
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return client
}

func TestServingAllocatesNothing(t *testing.T) {
	if underRace {
		t.Skip("with the race detector, pools drop what they are given at random")
	}
	const post = "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	answer := plain()
	var scratch [64]byte
	s := &http1.Server{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) {
		for x.Request.Body != nil {
			if _, err := x.Request.Body.Read(scratch[:]); err != nil {
				break
			}
		}
		watcher, ok := x.Context().(interface{ AfterFunc(func()) func() bool })
		if !ok || !watcher.AfterFunc(nothing)() {
			t.Error("the context tells nobody of its end")
		}
		answer(x)
	})}
	for name, conn := range map[string]net.Conn{"socket": dial(t, listen(t, s)).Conn, "pipe": pipe(t, &http1.Server{Handler: s.Handler})} {
		for what, request := range map[string]string{"get": browserRequest, "post": post} {
			if n := testing.AllocsPerRun(200, roundTrips(t, conn, request)); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
	}
}

func nothing() {}

func BenchmarkServe(b *testing.B) {
	conn := dial(b, listen(b, &http1.Server{Handler: plain()})).Conn
	if err := conn.SetDeadline(time.Time{}); err != nil {
		b.Fatal(err)
	}
	once := roundTrips(b, conn, browserRequest)
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}
