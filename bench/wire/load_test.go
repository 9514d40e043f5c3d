//go:build linux

package wire

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve answers each request of each connection with the next of some bytes, "" being the end of the connection, and
// after the last one with ok.
func serve(t *testing.T, answers ...string) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	next := make(chan string, len(answers))
	for _, answer := range answers {
		next <- answer
	}
	close(next)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn, next)
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"

func answer(conn net.Conn, next <-chan string) {
	defer conn.Close()
	requests := bufio.NewReader(conn)
	for {
		if _, err := http.ReadRequest(requests); err != nil {
			return
		}
		what, more := <-next
		if !more {
			what = ok
		}
		if what == "" {
			return
		}
		io.WriteString(conn, what)
	}
}

func TestLoadCounts(t *testing.T) {
	tests := []struct {
		name   string
		answer string
		want   Result // of Status, Broken and Closed
	}{
		{"good", ok, Result{}},
		{"status", strings.Replace(ok, "200 OK", "502 Bad Gateway", 1), Result{Status: 1}},
		{"closed without an answer", "", Result{Broken: 1, Closed: 1}},
		{"more than the length", ok + "!", Result{Broken: 1, Closed: 1}},
		{"no length", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Result{Broken: 1, Closed: 1}},
		{"bad length", strings.Replace(ok, "5", "x", 1), Result{Broken: 1, Closed: 1}},
		{"no HTTP", "hello\r\n\r\n", Result{Broken: 1, Closed: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			load := Load{Port: serve(t, test.answer), Path: "/", Conns: 1, Duration: 50 * time.Millisecond}

			got, err := load.Run(new(atomic.Bool))
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != test.want.Status || got.Broken != test.want.Broken || got.Closed != test.want.Closed || got.Unanswered+got.Refused > 0 {
				t.Errorf("%+v, want %+v", got, test.want)
			}
			if got.Sent == 0 || got.Sent != got.OK+got.Status+got.Broken {
				t.Errorf("%+v: the numbers do not add up", got)
			}
		})
	}
}

// TestLoadKeepsSchedule holds up the only connection once: the requests that were due meanwhile count as late.
func TestLoadKeepsSchedule(t *testing.T) {
	const held = 100 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		requests := bufio.NewReader(conn)
		for first := true; ; first = false {
			if _, err := http.ReadRequest(requests); err != nil {
				return
			}
			if first {
				<-time.After(held)
			}
			io.WriteString(conn, ok)
		}
	}()
	load := Load{Port: listener.Addr().(*net.TCPAddr).Port, Path: "/", Conns: 1, Rate: 200, Duration: held}

	got, err := load.Run(new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	if got.Sent != 20 || got.OK != 20 || time.Duration(got.P50)*time.Microsecond < held/4 {
		t.Errorf("%+v, want 20 requests, half of them later than %v", got, held/4)
	}
}

// TestLoadWarmsUp counts nothing of what came before the load was warm.
func TestLoadWarmsUp(t *testing.T) {
	var warm time.Time
	load := Load{Port: serve(t, ok, ok, ok), Path: "/", Conns: 3, Rate: 1, Duration: time.Millisecond, Warm: func() error {
		warm = time.Now()
		return nil
	}}

	got, err := load.Run(new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	if warm.IsZero() || got.Sent != 1 || got.OK != 1 || got.Seconds > time.Since(warm).Seconds() {
		t.Errorf("%+v after %v, want the one request that is due in the duration", got, time.Since(warm))
	}

	load.Port = serve(t, strings.Replace(ok, "200 OK", "502 Bad Gateway", 1))
	if got, err := load.Run(new(atomic.Bool)); err == nil {
		t.Errorf("%+v of a server that was never well", got)
	}
}

func TestLoadStops(t *testing.T) {
	var stop atomic.Bool
	port := serve(t)
	time.AfterFunc(20*time.Millisecond, func() { stop.Store(true) })

	got, err := Load{Port: port, Path: "/", Conns: 1, Duration: time.Hour}.Run(&stop)

	if err != nil || got.Failed() > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLastSegment(t *testing.T) {
	for line, want := range map[string]string{
		"GET /bench/100 HTTP/1.1": "100", "GET /a/b/64k HTTP/1.1\r\nX: /1m": "64k", "GET /1m HTTP/1.1": "1m", "GET /x100 HTTP/1.1": "",
		"GET / HTTP/1.1": "", "": "",
	} {
		if got := lastSegment([]byte(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
