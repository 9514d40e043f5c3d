package http1_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"grapevine/gateway/http1"
)

// numbers is n bytes that differ from place to place.
func numbers(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.String()[:n]
}

// chunks frames s in chunks of n bytes.
func chunks(s string, n int) string {
	var b []byte
	for ; len(s) > 0; s = s[min(n, len(s)):] {
		b = http1.AppendChunk(b, []byte(s[:min(n, len(s))]))
	}
	return string(http1.AppendLastChunk(b, nil))
}

// Every way to read a body gives the same bytes, and leaves the connection to the
// next exchange.
func TestUpstreamWaysToReadABody(t *testing.T) {
	ways := map[string]func(t *testing.T, s http1.Stream) string{
		"at once": func(_ *testing.T, s http1.Stream) string { return drain(s) },
		"by bytes": func(_ *testing.T, s http1.Stream) string {
			var got []byte
			for b := make([]byte, 7); ; {
				n, err := s.Read(b)
				if got = append(got, b[:n]...); err != nil {
					return string(got)
				}
			}
		},
		"written to a buffer": func(t *testing.T, s http1.Stream) string {
			var got bytes.Buffer
			if n, err := s.WriteTo(&got); err != nil || n != int64(got.Len()) {
				t.Errorf("WriteTo says %d, %v", n, err)
			}
			return got.String()
		},
		"written to a socket": func(t *testing.T, s http1.Stream) string {
			near, far := tcpPair(t)
			done := make(chan error, 1)
			go func() {
				_, err := s.WriteTo(near)
				near.Close()
				done <- err
			}()
			got := drain(far)
			if err := await(t, "end", done); err != nil {
				t.Errorf("WriteTo says %v", err)
			}
			return got
		},
		"a part from memory": func(_ *testing.T, s http1.Stream) string {
			begin := string(s.Buffered())
			begin = begin[:len(begin)/2]
			s.Discard(len(begin))
			return begin + drain(s)
		},
		"all of memory": func(_ *testing.T, s http1.Stream) string {
			begin := string(s.Buffered())
			s.Discard(len(begin))
			return begin + drain(s)
		},
		"moved by the caller": func(t *testing.T, s http1.Stream) string {
			begin := string(s.Buffered())
			s.Discard(len(begin))
			conn, left := s.Begin()
			if conn == nil {
				return begin + drain(s)
			}
			moved, err := io.ReadAll(io.LimitReader(conn, left))
			s.End(int64(len(moved)), err)
			return begin + string(moved) + drain(s)
		},
		"half moved by the caller": func(t *testing.T, s http1.Stream) string {
			begin := string(s.Buffered())
			s.Discard(len(begin))
			conn, left := s.Begin()
			if conn == nil {
				return begin + drain(s)
			}
			moved, err := io.ReadAll(io.LimitReader(conn, left/2))
			s.End(int64(len(moved)), err)
			return begin + string(moved) + drain(s)
		},
	}
	for _, size := range []int{0, 5, 20 << 10, 5 << 18} {
		body := numbers(size)
		for framing, response := range map[string]string{
			"by length": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, body),
			"by chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(body, 5000),
		} {
			d := serveRaw(t, answers(response))
			u := newUpstream(t, d)
			for way, read := range ways {
				x := ask("GET", "/")
				if err := u.RoundTrip(x, wide); err != nil {
					t.Fatal(err)
				}
				got := read(t, x.Response.Body.(http1.Stream))
				if x.Finish(nil); got != body {
					t.Errorf("%d bytes %s %s: got %d bytes %.50q", size, framing, way, len(got), got)
				}
			}
			if n := d.visits.Load(); n != 1 {
				t.Errorf("%d bytes %s: %d connections", size, framing, n)
			}
		}
	}
}

func drain(r io.Reader) string {
	b, _ := io.ReadAll(r)
	return string(b)
}

// A body that breaks says so in every way.
func TestUpstreamBrokenBodies(t *testing.T) {
	for name, response := range map[string]string{
		"in memory":   "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
		"later":       "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + numbers(5<<18),
		"in chunks":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"in a chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"after bytes": "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
	} {
		for _, reset := range []bool{false, true} {
			d := serveRaw(t, func(c *visit) {
				c.head()
				if c.say(response); reset {
					c.Conn.(*net.TCPConn).SetLinger(0)
				}
			})
			for way, read := range map[string]func(s http1.Stream) error{
				"read":     func(s http1.Stream) error { _, err := io.ReadAll(s); return err },
				"a buffer": func(s http1.Stream) error { _, err := s.WriteTo(new(bytes.Buffer)); return err },
				"a socket": func(s http1.Stream) error {
					near, far := tcpPair(t)
					go io.Copy(io.Discard, far)
					_, err := s.WriteTo(near)
					return err
				},
			} {
				u := newUpstream(t, d)
				x := ask("GET", "/")
				if err := u.RoundTrip(x, wide); err != nil {
					if !reset {
						t.Errorf("%s: %v", name, err)
					}
					continue // the reset took the head along
				}
				if err := read(x.Response.Body.(http1.Stream)); err == nil || err == io.EOF {
					t.Errorf("%s, %s, reset %v: %v", name, way, reset, err)
				}
				if n, err := x.Response.Body.Read(make([]byte, 9)); n > 0 || err == nil || err == io.EOF {
					t.Errorf("%s, %s, reset %v: then %d, %v", name, way, reset, n, err)
				}
				x.Finish(nil)
				if all, _ := u.Links(); all != 0 {
					t.Errorf("%s, %s: the connection is kept", name, way)
				}
			}
		}
	}
}

// A writer that fails ends WriteTo; what it took is counted.
func TestUpstreamWriterFails(t *testing.T) {
	d := serveRaw(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+numbers(100000)))
	x := ask("GET", "/")
	if err := newUpstream(t, d).RoundTrip(x, wide); err != nil {
		t.Fatal(err)
	}
	n, err := x.Response.Body.(http1.Stream).WriteTo(&full{room: 70000})
	if n != 70000 || err != io.ErrShortWrite {
		t.Errorf("got %d, %v", n, err)
	}
	x.Finish(err)
}

// full is a writer that has room for some bytes.
type full struct{ room int }

func (w *full) Write(p []byte) (int, error) {
	n := min(w.room, len(p))
	if w.room -= n; n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
