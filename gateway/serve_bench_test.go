package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"grapevine/gateway"
	"grapevine/gateway/http1"
	"grapevine/kv"
)

// answering is a backend that costs as little as one can: it answers each head
// with the same bytes.
func answering(b testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	response := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n" + string(make([]byte, 100)))
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 4096)
				for {
					if n, err := conn.Read(buffer); err != nil || n < 4 {
						return
					}
					if _, err := conn.Write(response); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// proxying gives a function that sends one request over a connection that is kept,
// through our engine, the whole chain and a route, to a backend and back.
func proxying(b testing.TB, more ...kv.Op) (ask func()) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	apply(b, store, append(more, kv.Put("gateway/routes/r", []byte(route("/r/{**rest}", answering(b)))))...)
	g := gateway.New(gateway.Options{Source: store, Keeper: store})
	if err := g.Load(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(g.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http1.Server{Handler: g}
	go server.Serve(listener)
	b.Cleanup(func() { server.Close() })
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	request := []byte("GET /r/a HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	reader := bufio.NewReader(conn)
	return func() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		for {
			line, err := reader.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := reader.Discard(100); err != nil {
			b.Fatal(err)
		}
	}
}

// guarding takes the requests away from the plain route, to one that asks for
// retries and every limit, of a cluster with a breaker.
func guarding(b testing.TB) []kv.Op {
	cluster := fmt.Appendf(nil, `{"destinations":{"a":%q},"resilience":{"circuitBreaker":{}},"maxConcurrent":100,"maxConnections":100}`, answering(b))
	route := `{"path":"/r/a","cluster":"guarded","retry":{"attempts":2,"on":["connect","reset","503"]},"limits":{"maxConcurrent":100,"maxBodyBytes":"1MB"}}`
	return []kv.Op{kv.Put("gateway/clusters/guarded", cluster), kv.Put("gateway/routes/guarded", []byte(route))}
}

func BenchmarkProxy(b *testing.B) {
	for name, more := range map[string][]kv.Op{"plain": nil, "guarded": guarding(b)} {
		b.Run(name, func(b *testing.B) {
			ask := proxying(b, more...)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}

// A plain request costs no allocation, with its id, forwarding fields, Via and
// metrics.
func TestProxyAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools drop at random")
	}
	for name, more := range map[string][]kv.Op{
		"plain":                         nil,
		"guarded":                       guarding(t),
		"maintenance of other clusters": {kv.Put("gateway/maintenance/other", []byte(`{"enabled":true}`))},
	} {
		ask := proxying(t, more...)
		ask()
		if n := testing.AllocsPerRun(500, ask); n > 0 {
			t.Errorf("%s: %v allocations a request", name, n)
		}
	}
}
