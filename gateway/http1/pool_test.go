package http1_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
)

// hold begins n exchanges at a time, so that each has a connection.
func hold(t *testing.T, u *http1.Upstream, n int) []*exchange.Exchange {
	t.Helper()
	held := make([]*exchange.Exchange, n)
	for i := range held {
		held[i] = ask("GET", "/")
		if err := u.RoundTrip(held[i], wide); err != nil {
			t.Fatal(err)
		}
	}
	return held
}

func finish(held []*exchange.Exchange) {
	for _, x := range held {
		io.Copy(io.Discard, x.Response.Body)
		x.Finish(nil)
	}
}

// numbered says the number of its connection, in chunks: the connection is in use
// until the body is read.
func numbered(c *visit) {
	for c.request() != nil {
		c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%d\r\n0\r\n\r\n", len(fmt.Sprint(c.n)), c.n))
	}
}

// The connection that was used last is used next: the others may become old.
func TestPoolLastUsedFirst(t *testing.T) {
	u := newUpstream(t, serveRaw(t, numbered))
	held := hold(t, u, 3)
	for _, last := range []int{0, 2, 1} {
		io.Copy(io.Discard, held[last].Response.Body)
	}
	for _, want := range []string{"200 2", "200 2"} {
		expect(t, "next", outcome(u, ask("GET", "/"), wide), want)
	}
	held = append(held, hold(t, u, 1)...)
	expect(t, "while 2 is in use", outcome(u, ask("GET", "/"), wide), "200 3")
	finish(held)
}

func TestPoolIdleConnectionsAreBounded(t *testing.T) {
	u := newUpstream(t, serveRaw(t, numbered))
	const some = http1.MaxIdle + 20
	held := hold(t, u, some)
	if all, idle := u.Links(); all != some || idle != 0 {
		t.Errorf("%d connections, %d idle; want %d in use", all, idle, some)
	}
	finish(held)
	if all, idle := u.Links(); all != http1.MaxIdle || idle != http1.MaxIdle {
		t.Errorf("%d connections, %d idle; want %d idle", all, idle, http1.MaxIdle)
	}
}

func TestPoolIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		u, visits := pipeUpstream(t, func(c *visit) {
			open.Add(1)
			answers(helloOK)(c)
			open.Add(-1)
		})
		for range 2 {
			expect(t, "answer", outcome(u, ask("GET", "/"), wide), "200 hello")
			pass(29 * time.Second)
			synctest.Wait()
			if n := open.Load(); n != 1 {
				t.Errorf("%d connections after 29 s", n)
			}
		}
		pass(2 * time.Second)
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections after 31 s", n)
		}
		expect(t, "answer", outcome(u, ask("GET", "/"), wide), "200 hello")
		if n := visits.Load(); n != 2 {
			t.Errorf("%d connections in all", n)
		}
	})
}

// Of several, those that are used stay.
func TestPoolOldestIdleConnectionsEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := pipeUpstream(t, numbered)
		finish(hold(t, u, 3))
		for range 4 {
			pass(10 * time.Second)
			expect(t, "answer", outcome(u, ask("GET", "/"), wide), "200 3")
		}
		synctest.Wait()
		if all, idle := u.Links(); all != 1 || idle != 1 {
			t.Errorf("%d connections, %d idle; want 1", all, idle)
		}
	})
}

// Close takes the idle connections at once and the others when they are free; the
// sweeper ends with the last.
func TestPoolCloseUpstream(t *testing.T) {
	u := newUpstream(t, serveRaw(t, numbered))
	held := hold(t, u, 3)
	finish(held[:1])
	u.Close()
	if all, idle := u.Links(); all != 2 || idle != 0 {
		t.Errorf("%d connections, %d idle; want the 2 in use", all, idle)
	}
	finish(held[1:])
	expect(t, "after Close", outcome(u, ask("GET", "/"), wide), "200 4")
	if all, _ := u.Links(); all != 0 {
		t.Errorf("%d connections are left", all)
	}
}

// Many exchanges at a time get their own answers.
func TestPoolConcurrentExchanges(t *testing.T) {
	d := serveRaw(t, func(c *visit) {
		for r := c.request(); r != nil; r = c.request() {
			body, _ := io.ReadAll(r.Body)
			c.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(r.URL.Path)+len(body), r.URL.Path, body))
		}
	})
	u := newUpstream(t, d)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 50 {
				target := fmt.Sprintf("/%d/%d", i, j)
				x, want := ask("POST", target), "200 "+target
				switch j % 3 {
				case 1:
					withBody(x, memory("abc"), 3)
					want += "abc"
				case 2:
					withBody(x, &streamed{memory("abcd")}, -1)
					want += "abcd"
				}
				ctx, cancel := context.WithCancel(context.Background())
				if got := outcome(u, withContext(ctx, x), wide); got != want {
					t.Errorf("%s: got %q, want %q", target, got, want)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if n := d.visits.Load(); n > 24 { // a few are lost to a request that ends late
		t.Errorf("%d connections for 16 exchanges at a time", n)
	}
}

// streamed hides that its body is in memory.
type streamed struct{ r io.Reader }

func (b *streamed) Read(p []byte) (int, error) { return b.r.Read(p) }

// pipeUpstream makes an upstream to serve over pipes, which can be in a bubble.
func pipeUpstream(t *testing.T, serve func(c *visit)) (*http1.Upstream, *atomic.Int32) {
	t.Helper()
	visits := new(atomic.Int32)
	u := http1.NewUpstream(nowhere, http1.UpstreamOptions{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(newVisit(theirs, int(visits.Add(1))))
		}()
		return ours, nil
	}})
	t.Cleanup(u.Close)
	return u, visits
}
