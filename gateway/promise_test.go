package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An answer that comes while the body is still being sent arrives: 99 times of 100 at
// least, whatever the client is (O07).
func TestEarlyAnswersArrive(t *testing.T) {
	tries := 20
	if os.Getenv("GRAPEVINE_LONG") != "" {
		tries = 100
	}
	body := bytes.Repeat([]byte("x"), 5<<20)
	for _, status := range []int{413, 401} {
		for name, backend := range map[string]http.HandlerFunc{
			"before it reads": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) },
			"when it has read some": func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.CopyN(io.Discard, r.Body, 100<<10)
				w.WriteHeader(status)
			},
		} {
			f := start(t, "")
			f.put("gateway/routes/r", route("/r", serve(t, backend)))
			for client, ask := range map[string]func() (int, error){
				"net/http": func() (int, error) {
					transport := &http.Transport{}
					defer transport.CloseIdleConnections()
					response, err := (&http.Client{Transport: transport, Timeout: patience}).Post("http://"+f.address+"/r", "", bytes.NewReader(body))
					if err != nil {
						return 0, err
					}
					defer response.Body.Close()
					return response.StatusCode, nil
				},
				"one that sends all first": func() (int, error) { return sendAllFirst(f.address, body) },
			} {
				arrived := 0
				var last error
				for range tries {
					if got, err := ask(); got == status {
						arrived++
					} else {
						last = fmt.Errorf("%d, %w", got, err)
					}
				}
				if arrived < tries-tries/100 {
					t.Errorf("%d %s to %s: %d of %d arrived; %v", status, name, client, arrived, tries, last)
				}
			}
		}
	}
}

func sendAllFirst(address string, body []byte) (int, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	_, sendErr := conn.Write(fmt.Appendf(nil, "POST /r HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, fmt.Errorf("%w; sending: %v", err, sendErr)
	}
	return response.StatusCode, nil
}

// A backend that is silent in the midst of its answer is given up, and the answer
// has no clean end.
func TestBackendIsSilentInTheMidst(t *testing.T) {
	f := start(t, "")
	for name, head := range map[string]string{
		"length": "Content-Length: 10", "chunks": "Transfer-Encoding: chunked", "until the end": "X: 1",
	} {
		ended := make(chan struct{}, 2)
		f.put("gateway/routes/r", fmt.Sprintf(`{"path":"/r","idleTimeout":"100ms","backends":[%q]}`, tcp(t, func(conn net.Conn) {
			defer conn.Close()
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				return
			}
			piece := "hello"
			if name == "chunks" {
				piece = "5\r\nhello\r\n"
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+head+"\r\n\r\n"+piece)
			io.Copy(io.Discard, conn)
			ended <- struct{}{}
		})))
		for _, version := range []string{"1.0", "1.1"} {
			conn, err := net.Dial("tcp", f.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(patience))
			io.WriteString(conn, "GET /r HTTP/"+version+"\r\nHost: x\r\n\r\n")
			answer, err := io.ReadAll(conn)
			clean := err == nil && (strings.HasSuffix(string(answer), "0\r\n\r\n") || !strings.Contains(string(answer), "ength:") && !strings.Contains(string(answer), "chunked"))
			if clean || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") && err == nil {
				t.Errorf("%s, HTTP/%s: %q, %v", name, version, answer, err)
			}
			await(t, ended)
		}
	}
}

// A destination that dies has idle connections. Whatever is asked next, body and
// all, is another destination's, and nobody notices.
func TestDestinationDiesWithIdleConnections(t *testing.T) {
	f := start(t, "")
	for _, method := range []string{"GET", "POST"} {
		dying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "dying") }))
		live := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s", r.Method, body)
		})
		f.put("gateway/routes/r", route("/r", dying.URL, live))
		var asking sync.WaitGroup
		for range 20 { // some of which leave idle connections to it
			asking.Go(func() { f.get("/r") })
		}
		asking.Wait()
		dying.CloseClientConnections()
		dying.Close()
		for range 20 {
			if got := f.ask(method, "/r", "Content-Length: 5", "", "hello"); got.StatusCode != 200 || got.body != method+" hello" {
				t.Fatalf("%s: %d %q", method, got.StatusCode, got.body)
			}
		}
	}
}

// A connection that its backend resets when it is used again costs nothing: what may
// be sent again is, once, and no POST runs twice.
func TestResetOfAUsedConnection(t *testing.T) {
	f := start(t, "")
	var executed atomic.Int32
	f.put("gateway/routes/r", route("/r", tcp(t, func(conn net.Conn) {
		defer conn.Close()
		in := bufio.NewReader(conn)
		for n := 0; ; n++ {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			executed.Add(1)
			if n > 0 {
				conn.(*net.TCPConn).SetLinger(0)
				return // in the midst of the second one
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})))
	for _, tt := range []struct {
		method, body string
		status       int
		runs         int32
	}{
		{"GET", "", 200, 2},
		{"HEAD", "", 200, 2},
		{"OPTIONS", "", 200, 2},
		{"PUT", "", 200, 2},
		{"DELETE", "", 200, 2},
		{"POST", "", 502, 1},
		{"PATCH", "", 502, 1},
		{"POST", "hello", 502, 1},
		{"PUT", "hello", 502, 1},
		{"DELETE", "hello", 502, 1}, // the body was read, and is gone
	} {
		for f.get("/r").StatusCode != 200 { // until a connection is idle that was used once
		}
		before := executed.Load()
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", tt.method, len(tt.body), tt.body)
		response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: tt.method})
		if err != nil {
			t.Fatalf("%s: %v", tt.method, err)
		}
		conn.Close()
		if runs := executed.Load() - before; response.StatusCode != tt.status || runs != tt.runs {
			t.Errorf("%s %q: %d, executed %d times; want %d, %d", tt.method, tt.body, response.StatusCode, runs, tt.status, tt.runs)
		}
	}
}
