package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/kv"
)

func TestUnreachable(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/down", route("/down", unused(t)))
	f.get("/down").problem(t, 502, "connect_failed")
	f.put("gateway/clusters/empty", `{"destinations":{}}`)
	f.put("gateway/routes/empty", `{"path":"/empty","cluster":"empty"}`)
	refused := f.get("/empty")
	refused.problem(t, 503, "no_destination")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
}

// A dial that is refused is nobody's loss: the next destination gets the
// request, body and all.
func TestDialGoesOnToTheNext(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/r", unused(t), backend(t, "up"), unused(t)))
	for range 6 {
		got := f.ask("POST", "/r", "Content-Length: 5", "", "hello")
		if s := got.seen(t); s.Backend != "up" || s.Body != "hello" {
			t.Errorf("got %+v", s)
		}
	}
}

func TestBadResponse(t *testing.T) {
	f := start(t, "")
	for name, bytes := range map[string]string{
		"garbage":  "no http at all\r\n\r\n",
		"nothing":  "",
		"half":     "HTTP/1.1 200 OK\r\nContent-",
		"switched": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\nbytes",
		"large":    "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
		"odd":      "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n",
		"badchunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
	} {
		f.put("gateway/routes/"+name, route("/"+name, tcp(t, func(conn net.Conn) {
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, bytes)
			conn.Close()
		})))
		f.get("/"+name).problem(t, 502, "bad_response")
	}
}

func TestHeadTimeout(t *testing.T) {
	f := start(t, "")
	release := make(chan struct{})
	defer close(release)
	var executed atomic.Int32
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		executed.Add(1)
		io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	f.put("gateway/routes/slow", `{"path":"/slow","timeout":"50ms","backends":["`+slow+`"]}`)
	f.ask("POST", "/slow", "Content-Length: 2", "", "hi").problem(t, 504, "timeout")
	if n := executed.Load(); n != 1 {
		t.Errorf("the POST was executed %d times", n)
	}
}

// The wait for the head begins when the request has ended, however long the
// client took to send it.
func TestTimeoutBeginsAtRequestsEnd(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", `{"path":"/r","timeout":"100ms","backends":["`+backend(t, "b")+`"]}`)
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /r HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
	for range 3 { // 300 ms in all, three times the timeout
		<-time.After(100 * time.Millisecond)
		io.WriteString(conn, "x")
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("got %v, %v; want 200", response, err)
	}
	response.Body.Close()
}

// A response that breaks off never looks whole (O08).
func TestBrokenResponse(t *testing.T) {
	f := start(t, "")
	for name, bytes := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("x", 500),
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		f.put("gateway/routes/"+name, route("/"+name, tcp(t, func(conn net.Conn) {
			http.ReadRequest(bufio.NewReader(conn))
			io.WriteString(conn, bytes)
			conn.(*net.TCPConn).SetLinger(0) // a reset, not an end
			conn.Close()
		})))
		for _, version := range []string{"HTTP/1.0", "HTTP/1.1"} {
			conn, err := net.Dial("tcp", f.address)
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(patience))
			io.WriteString(conn, "GET /"+name+" "+version+"\r\nHost: x\r\n\r\n")
			answer, err := io.ReadAll(conn)
			conn.Close()
			if version == "HTTP/1.0" && name == "chunked" && err == nil {
				t.Errorf("an HTTP/1.0 client took for whole: %q", answer)
			}
			if strings.HasSuffix(string(answer), "0\r\n\r\n") || strings.Contains(string(answer), "urn:grapevine:bad") {
				t.Errorf("%s %s: the broken response was ended or added to: %q", name, version, answer)
			}
		}
		response, err := http.Get("http://" + f.address + "/" + name)
		if err != nil {
			continue // cut before the head was sent: broken, and visibly so
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err == nil {
			t.Errorf("%s: the client took %d bytes %q for a whole response", name, len(body), body)
		}
		if strings.Contains(string(body), "urn:") {
			t.Errorf("%s: something was appended: %q", name, body)
		}
	}
}

// Bodies stream both ways: each side sees a piece before the next one is sent.
func TestStreaming(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/echo", route("/echo", serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		buffer := make([]byte, 64)
		for {
			n, err := r.Body.Read(buffer)
			w.Write(buffer[:n])
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	})))
	reader, writer := io.Pipe()
	request, _ := http.NewRequest("POST", "http://"+f.address+"/echo", reader)
	go io.WriteString(writer, "one")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for _, piece := range []string{"one", "two", "three"} {
		if piece != "one" {
			io.WriteString(writer, piece)
		}
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != piece {
			t.Fatalf("got %q, %v; want %q", got, err, piece)
		}
	}
	writer.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("rest %q, %v", rest, err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A client that leaves frees the backend, and counts as 499.
func TestClientLeaves(t *testing.T) {
	ended := make(chan string, 1)
	watch := func(next exchange.Handler) exchange.Handler {
		return exchange.HandlerFunc(func(x *exchange.Exchange) {
			next.Serve(x)
			ended <- fmt.Sprint(x.Response.Status, " ", x.Reason)
		})
	}
	f := start(t, "", func(g *gateway.Gateway) { g.Use(watch) })
	arrived, cancelled := make(chan struct{}), make(chan struct{})
	f.put("gateway/routes/r", route("/r", serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(cancelled)
	})))
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "GET /r HTTP/1.1\r\nHost: x\r\n\r\n")
	await(t, arrived)
	conn.Close()
	await(t, cancelled)
	select {
	case got := <-ended:
		if got != "0 client_gone" {
			t.Errorf("ended with %q", got)
		}
	case <-time.After(patience):
		t.Fatal("the exchange did not end")
	}
	f.metric(t, `grapevine_requests_total{class="499",route="r"}`, 1)
}

func TestTrailersAndInterim(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/r", serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(103)
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", r.Trailer.Get("X-Request-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "late")
	})))
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /r HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Request-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Request-Sum: 42\r\n\r\n")
	reader := bufio.NewReader(conn)
	early, err := http.ReadResponse(reader, nil)
	if err != nil || early.StatusCode != 103 || early.Header.Get("Link") == "" {
		t.Fatalf("got %v, %v; want 103 with Link", early, err)
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || string(body) != "body" || response.Trailer.Get("X-Sum") != "42" || response.Trailer.Get("X-Late") != "late" {
		t.Errorf("got %q, %v, trailers %v", body, err, response.Trailer)
	}
}

// What has no body stays without one, and HEAD keeps the length.
func TestBodiless(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/{status}", serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(304)
		default:
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "hello")
		}
	})))
	for _, target := range []string{"/204", "/304"} {
		if got := f.get(target); fmt.Sprint("/", got.StatusCode) != target || got.body != "" || got.Header.Get("Content-Length") != "" {
			t.Errorf("%s: %d %q", target, got.StatusCode, got.body)
		}
	}
	request, _ := http.NewRequest("HEAD", "http://"+f.address+"/x", nil)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil || response.ContentLength != 5 {
		t.Fatalf("HEAD: %v, %v; want length 5", response, err)
	}
	response.Body.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A backend that sends no Content-Type gets none invented.
func TestNothingInvented(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/r", tcp(t, func(conn net.Conn) {
		defer conn.Close()
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		ua := request.Header.Get("User-Agent") + request.Header.Get("Accept-Encoding")
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nX-Invented: %s\r\nContent-Length: 6\r\n\r\n<html>", ua)
	})))
	got := f.get("/r")
	if got.Header.Get("Content-Type") != "" || got.Header.Get("X-Invented") != "" || got.body != "<html>" {
		t.Errorf("got %v %q", got.Header, got.body)
	}
}

func TestPanicIsOneRequestsOwn(t *testing.T) {
	f := start(t, "", func(g *gateway.Gateway) {
		g.Use(func(next exchange.Handler) exchange.Handler {
			return exchange.HandlerFunc(func(x *exchange.Exchange) {
				if x.Request.Fields.Has("X-Panic") {
					panic("on purpose")
				}
				next.Serve(x)
			})
		})
	})
	f.put("gateway/routes/r", route("/r", backend(t, "b")))
	f.get("/r", "X-Panic: 1").problem(t, 500, "internal_error")
	f.get("/r").seen(t)
}

func await(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		t.Fatal("it did not happen")
	}
}

// A client that stops sending its body is answered in time, and its connection
// ends: what it sends later is no request.
func TestStalledUpload(t *testing.T) {
	f := start(t, "")
	f.put("gateway/config/timeouts", `{"idleTimeout":"100ms"}`)
	f.put("gateway/routes/r", route("/r", backend(t, "b")))
	f.put("gateway/routes/early", route("/early", tcp(t, func(conn net.Conn) {
		defer conn.Close()
		bufio.NewReader(conn).ReadString('\n')
		io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, conn)
	})))
	for path, status := range map[string]int{"/r": 408, "/nowhere": 404, "/early": 413} {
		conn, err := net.Dial("tcp", f.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nabc")
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != status {
			t.Fatalf("%s: %v, %v; want %d", path, response, err, status)
		}
		io.Copy(io.Discard, response.Body)
		io.WriteString(conn, "GET /alive HTTP/1.1\r\nHost: x\r\n\r\n")
		if rest, _ := io.ReadAll(reader); len(rest) > 0 {
			t.Errorf("%s: the rest of a body was answered: %s", path, rest)
		}
	}
}

// Trailers carry nothing that frames, routes or vouches for a message.
func TestTrailersAreFiltered(t *testing.T) {
	f := start(t, "")
	got := make(chan http.Header, 1)
	f.put("gateway/routes/r", route("/r", serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum, Set-Cookie, X-Correlation-Id")
		io.Copy(io.Discard, r.Body)
		got <- r.Trailer
		io.WriteString(w, "body")
		for _, name := range []string{"X-Sum", "Set-Cookie", "X-Correlation-Id"} {
			w.Header().Set(name, "1")
		}
	})))
	answer := f.raw("POST /r HTTP/1.1\nHost: x\nConnection: close\nTransfer-Encoding: chunked\nTrailer: X-Sum, Authorization, X-Forwarded-For, X_Real_Ip\n\n" +
		"3\nabc\n0\nX-Sum: 42\nAuthorization: a\nX-Forwarded-For: 6.6.6.6\nX_Real_Ip: 6.6.6.6\nX-Late: 1\n\n")
	sent := <-got
	delete(sent, "X-Late") // which was not announced, and net/http's server drops
	if len(sent) != 1 || sent.Get("X-Sum") != "42" {
		t.Errorf("the backend got trailers %v", sent)
	}
	if len(answer.Trailer) != 1 || !slices.Equal(answer.Trailer["X-Sum"], []string{"1"}) {
		t.Errorf("the client got trailers %v", answer.Trailer)
	}
}

// A 1xx has no hop-by-hop fields, and is not for HTTP/1.0.
func TestInterimIsFiltered(t *testing.T) {
	f := start(t, "")
	f.put("gateway/routes/r", route("/r", tcp(t, func(conn net.Conn) {
		defer conn.Close()
		http.ReadRequest(bufio.NewReader(conn))
		io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nConnection: X-Secret\r\nX-Secret: 1\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})))
	early := f.raw("GET /r HTTP/1.1\nHost: x\nConnection: close\n\n")
	if early.StatusCode != 103 || early.Header.Get("Link") == "" || early.Header.Get("X-Secret") != "" || early.Header.Get("Connection") != "" {
		t.Errorf("1xx %d %v", early.StatusCode, early.Header)
	}
	if old := f.raw("GET /r HTTP/1.0\nHost: x\n\n"); old.StatusCode != 200 {
		t.Errorf("an HTTP/1.0 client got %d", old.StatusCode)
	}
}

// Once the head has come the timeout has nothing left to bound, also when the
// upload ends later.
func TestTimeoutEndsWithTheHead(t *testing.T) {
	f := start(t, "")
	release := make(chan struct{})
	f.put("gateway/routes/r", `{"path":"/r","timeout":"30ms","backends":["`+serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		io.Copy(io.Discard, r.Body)
		<-release
		io.WriteString(w, "late")
	})+`"]}`)
	reader, writer := io.Pipe()
	request, _ := http.NewRequest("POST", "http://"+f.address+"/r", reader)
	go io.WriteString(writer, "abc")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	writer.Close()
	time.AfterFunc(120*time.Millisecond, func() { close(release) }) // four times the timeout
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "late" {
		t.Errorf("got %q, %v", body, err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A POST is executed once, whatever the client says of its idempotency: on a
// connection that died while idle the transport would send it again.
func TestIdempotencyKeyIsNoLeaveToRepeat(t *testing.T) {
	f := start(t, "")
	var executed atomic.Int32
	f.put("gateway/routes/r", route("/r", tcp(t, func(conn net.Conn) {
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for i := 0; ; i++ {
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if request.Method == "POST" {
				executed.Add(1)
				if request.Header.Get("Idempotency-Key") == "" {
					t.Error("the key did not arrive")
				}
				return // executed, and no answer
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})))
	f.get("/r") // so that the POST meets a connection that was used before
	f.ask("POST", "/r", "Idempotency-Key: 1", "Content-Length: 0").problem(t, 502, "bad_response")
	if n := executed.Load(); n != 1 {
		t.Errorf("the POST was executed %d times", n)
	}
}

// A broken route answers 503 for all that it may have been meant to take: what
// of it can't be read must not hand requests to a weaker route.
func TestBrokenRouteTakesAllItMayHaveMeant(t *testing.T) {
	f := start(t, static("open", "/{**r}", backend(t, "open")))
	for _, tt := range []struct{ value, request string }{
		{`"clients":["bogus"]`, "GET /admin/x"},
		{`"clients":["10.0.0.0/8","bogus"]`, "GET /admin/x"},
		{`"headers":[{"name":"X-A","regex":"("}]`, "GET /admin/x"},
		{`"headers":[{"name":"X-A","prefix":"a"}]`, "GET /admin/x"},
		{`"query":[{"name":"a","suffix":"a"}]`, "GET /admin/x"},
		{`"methods":["GET","post"]`, "POST /admin/x"},
		{`"order":5000000000`, "GET /admin/x"},
		{`"pathRegex":"/other"`, "GET /admin/x"},
		{`"enabled":"maybe"`, "GET /admin/x"},
		{`"caseInsensitive":1`, "GET /ADMIN/x"},
		{`"hosts":["bad host"],"requireAuth":true`, "GET /admin/x"},
		{`"hosts":["bad host","gateway.test"]`, "GET /admin/x"},
	} {
		f.put("gateway/routes/broken", `{"path":"/admin/{**r}","backends":["http://127.0.0.1:1"],`+tt.value+`}`)
		method, target, _ := strings.Cut(tt.request, " ")
		if got := f.ask(method, target); got.StatusCode != 503 || !strings.Contains(got.body, "route_quarantined") {
			t.Errorf("%s: %s gave %d %s", tt.value, tt.request, got.StatusCode, got.body)
		}
		if got := f.get("/else"); got.StatusCode != 200 {
			t.Errorf("%s: /else gave %d", tt.value, got.StatusCode)
		}
		f.delete("gateway/routes/broken")
	}
	// Hosts of nothing but faults: nobody else's requests are taken for it.
	f.put("gateway/routes/broken", `{"path":"/{**r}","hosts":["bad host"],"backends":["http://127.0.0.1:1"]}`)
	if got := f.get("/else"); got.StatusCode != 200 {
		t.Errorf("a route without a readable host took /else: %d", got.StatusCode)
	}
}

// A version that was good comes back when what it needs comes back, also when
// it was overtaken by a bad one at the moment that went.
func TestLastGoodOutlivesWhatItNeeds(t *testing.T) {
	f := start(t, "")
	cluster := `{"destinations":{"a":"` + backend(t, "y") + `"}}`
	f.put("gateway/clusters/y", cluster)
	f.put("gateway/routes/s", `{"path":"/s","cluster":"y"}`)
	f.txn(kv.Put("gateway/routes/s", []byte(`{"path":"/s","cluster":"y","fromTheFuture":1}`)), kv.Delete("gateway/clusters/y"))
	f.get("/s").problem(t, 503, "route_quarantined")
	f.put("gateway/clusters/y", cluster)
	if got := f.get("/s").seen(t).Backend; got != "y" {
		t.Errorf("served by %s", got)
	}
}

// A backend's Connection field removes nothing that a route sets.
func TestResponseFieldsStay(t *testing.T) {
	to := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "X-Frame-Options, X-Own")
		w.Header().Set("X-Own", "1")
	})
	f := start(t, "")
	f.put("gateway/routes/r", forwarding(`"path":"/r","transforms":{"response":{"set":{"X-Frame-Options":"DENY"}}}`, to))
	got := f.get("/r")
	if got.Header.Get("X-Frame-Options") != "DENY" || got.Header.Get("X-Own") != "" {
		t.Errorf("fields %v", got.Header)
	}
}

// What an operator's key hides in a file is judged as well: it shows through when
// the key goes.
func TestHiddenStaticFaults(t *testing.T) {
	f := start(t, "")
	f.put("gateway/clusters/z", `{"destinations":{"a":"http://127.0.0.1:1"}}`)
	f.put("gateway/routes/r", route("/r", "http://127.0.0.1:1"))
	err := f.gateway.SetStatic(parse(t, "clusters: {z: {http2: 'on', destinations: {a: 'http://h:1'}}}\n"+
		"routes: {r: {path: /r, backends: ['http://h:1'], requireAuth: true}}\n"))
	if err == nil || !strings.Contains(err.Error(), "gateway/clusters/z: http2") || !strings.Contains(err.Error(), "gateway/routes/r: requireAuth") {
		t.Errorf("SetStatic: %v; want both faults", err)
	}
}
