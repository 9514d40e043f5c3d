package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// held is a backend whose requests wait for release.
type held struct {
	url     string
	began   chan struct{}
	release chan struct{}
	calls   atomic.Int64
}

func newHeld(t *testing.T) *held {
	h := &held{began: make(chan struct{}, 100), release: make(chan struct{})}
	h.url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		h.began <- struct{}{}
		select {
		case <-h.release:
		case <-r.Context().Done():
		}
	})
	return h
}

// occupy sends a request that waits; the channel has its status.
func (f *fixture) occupy(h *held, path string) <-chan int {
	status := make(chan int, 1)
	go func() { status <- f.get(path).StatusCode }()
	<-h.began
	return status
}

// What is over a limit in flight is refused at once, and no backend hears of it;
// when one has ended there is room for one. A change elsewhere does not forget
// who is in flight.
func TestLimitsInFlight(t *testing.T) {
	h := newHeld(t)
	const ofRoute, ofCluster = `grapevine_route_shed_total{route="r"}`, `grapevine_upstream_shed_total{cluster="c"}`
	for name, keys := range map[string][3]string{
		"route":       {`{"path":"/r","cluster":"c","limits":{"maxConcurrent":2}}`, `{"destinations":{"a":"` + h.url + `"}}`, ofRoute},
		"cluster":     {onCluster("/r", "c"), `{"destinations":{"a":"` + h.url + `"},"maxConcurrent":2}`, ofCluster},
		"destination": {onCluster("/r", "c"), `{"destinations":{"a":"` + h.url + `"},"maxConnections":2}`, ofCluster},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, "")
			f.put("gateway/clusters/c", keys[1])
			f.put("gateway/routes/r", keys[0])
			first, second := f.occupy(h, "/r"), f.occupy(h, "/r")
			f.put("gateway/routes/x", onCluster("/x", "c"))
			f.put("gateway/routes/r", strings.Replace(keys[0], "{", `{"description":"changed",`, 1))
			before := h.calls.Load()
			for range 3 {
				got := f.get("/r")
				got.problem(t, 503, "overloaded")
				if got.Header.Get("Retry-After") == "" {
					t.Error("503 without Retry-After")
				}
			}
			if h.calls.Load() != before {
				t.Error("the backend was asked")
			}
			f.counts(keys[2], 3)
			h.release <- struct{}{}
			h.release <- struct{}{}
			if a, b := <-first, <-second; a != 200 || b != 200 {
				t.Errorf("those in flight got %d and %d", a, b)
			}
			deadline := time.Now().Add(patience)
			var third <-chan int
			for third == nil { // the hooks of the first run when its client has the answer already
				select {
				case <-h.began:
					third = make(chan int)
				default:
					go f.get("/r")
					<-time.After(5 * time.Millisecond)
				}
				if time.Now().After(deadline) {
					t.Fatal("there is no room when they have ended")
				}
			}
			for range 10 {
				select {
				case h.release <- struct{}{}:
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
}

// A place is given back once: however many were served, no more than may be are in flight.
func TestLimitsHoldAgain(t *testing.T) {
	f := start(t, "")
	began := make(chan struct{}, 10)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			began <- struct{}{}
			<-r.Context().Done()
		}
	})
	for name, keys := range map[string][2]string{
		"route":       {`,"limits":{"maxConcurrent":1}`, ""},
		"cluster":     {"", `,"maxConcurrent":1`},
		"destination": {"", `,"maxConnections":1`},
	} {
		f.put("gateway/clusters/c", fmt.Sprintf(`{"destinations":{"a":%q}%s}`, url, keys[1]))
		f.put("gateway/routes/r", fmt.Sprintf(`{"path":"/{**rest}","cluster":"c"%s}`, keys[0]))
		for served, deadline := 0, time.Now().Add(patience); served < 5; {
			if f.get("/").StatusCode == 200 {
				served++
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: %d were served one after the other", name, served)
			}
		}
		held := f.hold("/held", began)
		f.get("/").problem(t, 503, "overloaded")
		held.Close()
		for deadline := time.Now().Add(patience); f.get("/").StatusCode != 200; {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the place of a client that left is not free", name)
			}
		}
	}
}

// hold sends a request that waits, and again while there is no place for it: that of one before is free only when its client
// has the answer already.
func (f *fixture) hold(path string, began <-chan struct{}) net.Conn {
	f.t.Helper()
	for deadline := time.After(patience); ; {
		conn := f.open(path)
		select {
		case <-began:
			return conn
		case <-time.After(100 * time.Millisecond):
			conn.Close()
		case <-deadline:
			f.t.Fatalf("%s does not come to its backend", path)
		}
	}
}

// A destination that has as many as it may is passed by, as long as another has
// room.
func TestFullDestinationIsPassedBy(t *testing.T) {
	f := start(t, "")
	one, two := newHeld(t), newHeld(t)
	f.put("gateway/clusters/c", fmt.Sprintf(`{"destinations":{"a":%q,"b":%q},"maxConnections":1,"loadBalancing":"hash","hashOn":"path"}`, one.url, two.url))
	f.put("gateway/routes/r", onCluster("/r", "c")) // whose requests all go to the same one first
	var results []<-chan int
	for range 2 {
		status := make(chan int, 1)
		go func() { status <- f.get("/r").StatusCode }()
		results = append(results, status)
		select {
		case <-one.began:
		case <-two.began:
		}
	}
	if one.calls.Load() != 1 || two.calls.Load() != 1 {
		t.Errorf("they have %d and %d", one.calls.Load(), two.calls.Load())
	}
	f.get("/r").problem(t, 503, "overloaded")
	close(one.release)
	close(two.release)
	for _, status := range results {
		if got := <-status; got != 200 {
			t.Errorf("got %d", got)
		}
	}
}

const bodyLimit = `{"path":"/r","backends":[%q],"limits":{"maxBodyBytes":"1KB"}}`

// A body that is too large by its length is refused before a byte of the request
// is forwarded, also to a client that waits to be asked for it.
func TestBodyLimitByLength(t *testing.T) {
	f := start(t, "")
	m := newFickle(t)
	f.put("gateway/routes/r", fmt.Sprintf(bodyLimit, m.url))
	if got := f.ask("POST", "/r", "Content-Length: 1000", "", strings.Repeat("x", 1000)); got.StatusCode != 200 {
		t.Errorf("1000 bytes: %d %q", got.StatusCode, got.body)
	}
	f.ask("POST", "/r", "Content-Length: 1001", "", strings.Repeat("x", 1001)).problem(t, 413, "body_too_large")
	f.ask("POST", "/r", "Content-Length: 9000000000", "Expect: 100-continue").problem(t, 413, "body_too_large")
	if n := m.calls.Load(); n != 1 {
		t.Errorf("the backend was asked %d times", n)
	}
}

// A body in chunks shows only as it comes that it is too large: then it breaks off
// at the backend, and the client has one answer.
func TestBodyLimitInChunks(t *testing.T) {
	f := start(t, "")
	type got struct {
		n   int64
		err error
	}
	received := make(chan got, 10)
	f.put("gateway/routes/r", fmt.Sprintf(bodyLimit, serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		received <- got{n, err}
	})))
	chunks := func(sizes ...int) (body string) {
		for _, size := range sizes {
			body += fmt.Sprintf("%x\n%s\n", size, strings.Repeat("x", size))
		}
		return body
	}
	fits := f.ask("POST", "/r", "Transfer-Encoding: chunked", "", chunks(400, 600)+"0\n")
	if at := <-received; fits.StatusCode != 200 || at.n != 1000 || at.err != nil {
		t.Errorf("1000 bytes: %d, and the backend had %+v", fits.StatusCode, at)
	}
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "POST /r HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+strings.ReplaceAll(chunks(500), "\n", "\r\n"))
	<-time.After(50 * time.Millisecond) // so that the backend has the first of it
	io.WriteString(conn, strings.ReplaceAll(chunks(500, 500), "\n", "\r\n"))
	all, _ := io.ReadAll(conn)
	if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.HasPrefix(string(all), "HTTP/1.1 413 ") {
		t.Errorf("got %d answers: %q", n, all)
	}
	if at := <-received; at.err == nil || at.n > 1000 {
		t.Errorf("the backend took %d bytes for a whole body, %v", at.n, at.err)
	}
	whole := f.ask("POST", "/r", "Transfer-Encoding: chunked", "", chunks(1001)+"0\n") // in memory as a whole
	whole.problem(t, 413, "body_too_large")
	select {
	case at := <-received:
		if at.err == nil {
			t.Errorf("the backend took %d bytes for a whole body", at.n)
		}
	case <-time.After(50 * time.Millisecond): // it had nothing of it
	}
}

// When the response has begun, a body that turns out too large breaks both off:
// there is no second answer.
func TestBodyLimitBehindTheHead(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", fmt.Sprintf(bodyLimit, serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.Write([]byte("early"))
		w.(http.Flusher).Flush()
		io.Copy(io.Discard, r.Body)
	})))
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "POST /r HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("got %v, %v", response, err)
	}
	io.WriteString(conn, "400\r\n"+strings.Repeat("x", 1024)+"\r\n0\r\n\r\n")
	body, err := io.ReadAll(response.Body)
	if err == nil || string(body) != "early" {
		t.Errorf("the client took %q for whole, %v", body, err)
	}
}
