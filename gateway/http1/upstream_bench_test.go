package http1_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// echoServer answers each write of a request by response, without allocations: a
// destination that is not measured along.
func echoServer(t testing.TB, response string) *destination {
	d := &destination{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.listener = listener
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				for in, out := make([]byte, 4<<10), []byte(response); ; {
					if n, err := conn.Read(in); err != nil || n == 0 {
						return
					}
					if _, err := conn.Write(out); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close(); open.Wait() })
	return d
}

// pooled is an exchange that is used again and again, as a front does.
type pooled struct {
	x    exchange.Exchange
	ctx  context.Context
	body repeated
	page [4 << 10]byte
}

// repeated is a body in memory that can be read again.
type repeated struct {
	b  []byte
	at int
}

func (r *repeated) Buffered() int { return len(r.b) - r.at }

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	if r.at += n; r.at == len(r.b) {
		return n, io.EOF
	}
	return n, nil
}

var (
	benchTarget    = []byte("/api/v1/orders/12345?expand=lines")
	benchAuthority = []byte("shop.example.com")
)

var browserFields = []exchange.Field{
	{Name: []byte("User-Agent"), Value: []byte("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")},
	{Name: []byte("Accept"), Value: []byte("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")},
	{Name: []byte("Accept-Encoding"), Value: []byte("gzip, deflate, br")},
	{Name: []byte("X-Forwarded-For"), Value: []byte("192.0.2.7")},
	{Name: []byte("Via"), Value: []byte("1.1 grapevine")},
}

// exchangeOnce is one exchange from its begin to its end.
func (p *pooled) exchangeOnce(u *http1.Upstream) error {
	x := &p.x
	x.Reset(p.ctx)
	x.Request.Method = "GET"
	x.Request.Target = benchTarget
	x.Request.Authority = benchAuthority
	x.Request.Fields = append(x.Request.Fields[:0], browserFields...)
	if p.body.b != nil {
		p.body.at = 0
		x.Request.Method, x.Request.Body, x.Request.ContentLength = "POST", &p.body, int64(len(p.body.b))
	}
	if err := u.RoundTrip(x, wide); err != nil {
		return err
	}
	for {
		if _, err := x.Response.Body.Read(p.page[:]); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	x.Finish(nil)
	return nil
}

// watched is a context that can end, as a front makes it.
type watched struct {
	context.Context
	stop func() bool
}

func (w *watched) AfterFunc(func()) (stop func() bool) { return w.stop }

func pooledExchange() *pooled {
	return &pooled{ctx: &watched{context.Background(), func() bool { return true }}}
}

const benchResponse = "HTTP/1.1 200 OK\r\nDate: Mon, 30 Nov 2026 09:00:00 GMT\r\nServer: bench\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" +
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

func TestUpstreamRoundTripAllocatesNothing(t *testing.T) {
	if underRace {
		t.Skip("with the race detector, pools drop what they are given at random")
	}
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	for name, row := range map[string]struct {
		response string
		body     []byte
	}{
		"GET":    {benchResponse, nil},
		"POST":   {benchResponse, make([]byte, 1000)},
		"chunks": {chunked, nil},
	} {
		u := newUpstream(t, echoServer(t, row.response))
		p := pooledExchange()
		p.body.b = row.body
		if err := p.exchangeOnce(u); err != nil {
			t.Fatal(err)
		}
		allocs := testing.AllocsPerRun(500, func() {
			if err := p.exchangeOnce(u); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	u := newUpstream(b, echoServer(b, benchResponse))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		p := pooledExchange()
		for pb.Next() {
			if err := p.exchangeOnce(u); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

const worldResponse = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello, world"

const postRequest = "POST /api/v1/orders HTTP/1.1\r\nHost: shop.example.com\r\nContent-Length: 13\r\n\r\n{\"lines\":[1]}"

func TestUpstreamBehindServerAllocatesNothing(t *testing.T) {
	if underRace {
		t.Skip("with the race detector, pools drop what they are given at random")
	}
	for name, request := range map[string]string{"GET": browserRequest, "POST": postRequest} {
		u := newUpstream(t, echoServer(t, worldResponse))
		once := roundTrips(t, dial(t, gatewayTo(t, u)).Conn, request)
		if n := testing.AllocsPerRun(500, once); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkThroughBothHalves(b *testing.B) {
	u := newUpstream(b, echoServer(b, worldResponse))
	once := roundTrips(b, dial(b, gatewayTo(b, u)).Conn, browserRequest)
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}
