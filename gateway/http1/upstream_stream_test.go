package http1_test

import (
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
		"moved to a socket by the kernel": func(t *testing.T, s http1.Stream) string {
			begin := string(s.Buffered())
			s.Discard(len(begin))
			conn, left := s.Begin()
			if conn == nil {
				return begin + drain(s)
			}
			near, far := tcpPair(t)
			moved := make(chan string, 1)
			go func() { moved <- drain(far) }()
			n, err := near.ReadFrom(&io.LimitedReader{R: conn, N: left})
			s.End(n, err)
			near.Close()
			return begin + await(t, "end", moved) + drain(s)
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
				"read": func(s http1.Stream) error { _, err := io.ReadAll(s); return err },
				"moved": func(s http1.Stream) error {
					s.Discard(len(s.Buffered()))
					if conn, left := s.Begin(); conn != nil {
						near, far := tcpPair(t)
						go io.Copy(io.Discard, far)
						n, err := near.ReadFrom(&io.LimitedReader{R: conn, N: left})
						s.End(n, err)
					}
					_, err := io.ReadAll(s)
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
