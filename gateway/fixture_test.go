package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/gateway"
	"grapevine/gateway/http1"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience bounds waits for things that happen at once when all is well.
const patience = 10 * time.Second

// fixture is a gateway on a real listener with a store of its own.
type fixture struct {
	t       *testing.T
	store   *kv.Store
	gateway *gateway.Gateway
	address string
}

// start serves a static file, YAML, and the operator's keys that are set later.
func start(t *testing.T, static string, use ...func(*gateway.Gateway)) *fixture {
	t.Helper()
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return startOn(t, store, static, use...)
}

func startOn(t *testing.T, store *kv.Store, static string, use ...func(*gateway.Gateway)) *fixture {
	t.Helper()
	return startWith(t, store, gateway.Options{Static: parse(t, static)}, use...)
}

func startWith(t *testing.T, store *kv.Store, o gateway.Options, use ...func(*gateway.Gateway)) *fixture {
	t.Helper()
	f := newFixture(t, store, o)
	for _, u := range use {
		u(f.gateway)
	}
	if err := f.gateway.Load(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.gateway.Run(ctx) }()
	stop := f.listen()
	t.Cleanup(func() {
		stop()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.gateway.Close()
	})
	return f
}

// newFixture has a gateway that serves nothing so far.
func newFixture(t *testing.T, store *kv.Store, o gateway.Options) *fixture {
	o.Source, o.Keeper = store, store
	return &fixture{t: t, store: store, gateway: gateway.New(o)}
}

// overNetHTTP has the tests use net/http's server, which serves HTTP/2 and the
// programs that embed a gateway, instead of our engine.
var overNetHTTP = os.Getenv("GRAPEVINE_FRONT") == "nethttp"

func (f *fixture) listen() (stop func()) {
	if overNetHTTP {
		server := httptest.NewServer(f.gateway)
		f.address = server.Listener.Addr().String()
		return func() {
			server.CloseClientConnections()
			server.Close()
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	f.address = listener.Addr().String()
	server := &http1.Server{Handler: f.gateway, Refuse: f.gateway.Refuse, BodyTimeout: time.Second}
	served := make(chan error, 2)
	go func() { served <- server.Serve(listener) }()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { served <- f.gateway.EndOverdue(ctx, server) }()
	return func() {
		server.Close()
		cancel()
		for range 2 {
			if err := <-served; err != nil {
				f.t.Error(err)
			}
		}
	}
}

func parse(t *testing.T, static string) *spec.File {
	t.Helper()
	file, err := spec.ParseFiles(spec.Input{Name: "gateway.yaml", Data: []byte(static)})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// put writes a value past every check, as one that came from a newer peer, and
// waits until the table has it.
func (f *fixture) put(key, value string) { f.txn(kv.Put(kv.Key(key), []byte(value))) }

func (f *fixture) delete(key string) { f.txn(kv.Delete(kv.Key(key))) }

func (f *fixture) txn(ops ...kv.Op) {
	f.t.Helper()
	commit, result, err := f.store.View().Resolve(kv.Txn{Then: ops})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.store.Merge(commit); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	if err := f.gateway.Wait(ctx, result.Rev); err != nil {
		f.t.Fatal(err)
	}
}

// check judges a write as the agent does before it accepts one.
func (f *fixture) check(ops ...kv.Op) error {
	f.t.Helper()
	view := f.store.View()
	commit, _, err := view.Resolve(kv.Txn{Then: ops})
	if err != nil {
		f.t.Fatal(err)
	}
	candidate, err := view.Apply(commit)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.gateway.Check(view, candidate)
}

// route is the value of a route to backends.
func route(path string, backends ...string) string {
	value, err := json.Marshal(map[string]any{"path": path, "backends": backends})
	if err != nil {
		panic(err)
	}
	return string(value)
}

// answer is a whole response.
type answer struct {
	*http.Response
	body string
}

// raw sends a request byte by byte as given, \n as CRLF, and reads the answer.
func (f *fixture) raw(request string) answer {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		f.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		f.t.Fatalf("%q: %v", request, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatalf("%q: %v", request, err)
	}
	return answer{response, string(body)}
}

// get asks for a raw target.
func (f *fixture) get(target string, fields ...string) answer {
	f.t.Helper()
	return f.ask("GET", target, fields...)
}

func (f *fixture) ask(method, target string, fields ...string) answer {
	f.t.Helper()
	head := method + " " + target + " HTTP/1.1\nConnection: close\n"
	named := func(field string) bool { return strings.HasPrefix(field, "Host:") }
	if !slices.ContainsFunc(fields, named) {
		head += "Host: gateway.test\n"
	}
	for _, field := range fields {
		head += field + "\n"
	}
	return f.raw(head + "\n")
}

// problem wants a problem document with the code.
func (a answer) problem(t *testing.T, status int, code string) {
	t.Helper()
	var doc struct {
		Type, Title   string
		Status        int
		CorrelationID string
	}
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatalf("%d %q is no problem document: %v", a.StatusCode, a.body, err)
	}
	if a.StatusCode != status || doc.Status != status || doc.Title != code || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s; want %d %s", a.StatusCode, a.body, status, code)
	}
	if doc.CorrelationID == "" || doc.CorrelationID != a.Header.Get("X-Correlation-Id") {
		t.Errorf("correlation id %q in the document, %q in the field", doc.CorrelationID, a.Header.Get("X-Correlation-Id"))
	}
}

// seen is what a backend received.
type seen struct {
	Backend, Method, Target, Host, Body string
	Header                              http.Header
}

// backend answers with what it received.
func backend(t *testing.T, name string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(seen{name, r.Method, r.RequestURI, r.Host, string(body), r.Header})
	})
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

func (a answer) seen(t *testing.T) seen {
	t.Helper()
	var s seen
	if err := json.Unmarshal([]byte(a.body), &s); err != nil || a.StatusCode != 200 {
		t.Fatalf("got %d %q; want the backend's answer", a.StatusCode, a.body)
	}
	return s
}

// tcp accepts connections and hands each to serve in its own goroutine.
func tcp(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	return accept(t, func(conn net.Conn) { go serve(conn) })
}

// accept hands connections over, one after the other, until the test ends.
func accept(t *testing.T, take func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			take(conn)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return fmt.Sprintf("http://%s", listener.Addr())
}

// unused is an address where nobody listens.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}
