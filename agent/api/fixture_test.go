package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"grapevine/agent/announcing"
	"grapevine/agent/api"
	"grapevine/gateway"
	"grapevine/kv"
	"grapevine/kv/consensus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits for things that happen at once when all is well.
const patience = 20 * time.Second

// node is an API over a real store and gateway, behind both doors.
type node struct {
	t       *testing.T
	store   *kv.Store
	gateway *gateway.Gateway
	leases  *announcing.Leases
	api     *api.API
	log     *safeBuffer

	tcp, socket *client
}

// idle leaves the gateway without its loop, so that no change ever goes live.
func idle(o *setup) { o.idle = true }

// setup is what a test may want otherwise.
type setup struct {
	api.Options
	kv   kv.Options
	idle bool
	// bare is a node that runs no gateway.
	bare bool
	// most is how many instances may be announced; 0 is the default.
	most int
	// around stands between the API and its log.
	around func(api.Log) api.Log
}

func startNode(t *testing.T, changes ...func(*setup)) *node {
	t.Helper()
	n := &node{t: t, log: new(safeBuffer)}
	var s setup
	s.Logger = slog.New(slog.NewTextHandler(n.log, nil))
	s.Node = func() api.Node {
		return api.Node{ID: nodeID, Name: "test", Version: "0", Listeners: map[string]string{}}
	}
	s.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })
	for _, change := range changes {
		change(&s)
	}
	n.open(&s)
	n.api = api.New(s.Options)
	n.tcp = n.serve(api.TCP, "tcp", "127.0.0.1:0")
	n.socket = n.serve(api.Socket, "unix", filepath.Join(t.TempDir(), "s"))
	t.Cleanup(n.leases.Close)
	t.Cleanup(n.api.Close) // before the servers, whose watches it ends
	return n
}

// open makes the store and the gateway, and what the setup does not bring of its own.
func (n *node) open(s *setup) {
	n.t.Helper()
	var err error
	if n.store, err = kv.Open(s.kv); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { n.store.Close() })
	n.gateway = gateway.New(gateway.Options{Source: n.store, Keeper: n.store})
	if err := n.gateway.Load(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.gateway.Close)
	if !s.idle {
		n.background(func(ctx context.Context) { n.gateway.Run(ctx) })
	}
	if s.Store == nil {
		s.Store = n.store
	}
	if s.Log == nil {
		s.Log = consensus.NewSingle(n.store, n.gateway.Check)
	}
	if s.around != nil {
		s.Log = s.around(s.Log)
	}
	if s.Gateway == nil && !s.bare {
		s.Gateway = n.gateway
	}
	n.openLeases(s)
}

const nodeID = "01j00000000000000000000000"

// openLeases lets instances be announced; no gateway is waited for.
func (n *node) openLeases(s *setup) {
	n.t.Helper()
	own, err := n.store.Own(nodeID)
	if err == nil {
		_, err = own.Begin(0)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.leases = announcing.New(announcing.Options{Node: nodeID, Own: own, Store: n.store, Gateways: noGateways{}, Logger: s.Logger, Most: s.most})
	s.Leases = n.leases
	n.background(func(context.Context) { n.leases.Run() })
	n.t.Cleanup(n.leases.Close)
}

// noGateways is a cluster in which none is.
type noGateways struct{}

func (noGateways) Gateways() ([]announcing.Node, <-chan struct{})              { return nil, nil }
func (noGateways) Applied(context.Context, string, kv.OwnerMark) error         { return nil }
func (noGateways) Drained(context.Context, string, kv.Key, kv.OwnerMark) error { return nil }

// background runs part until the test ends.
func (n *node) background(part func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { part(ctx) })
	n.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (n *node) serve(door api.Door, network, address string) *client {
	n.t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		n.t.Fatal(err)
	}
	server := &http.Server{Handler: n.api.Handler(door), ConnContext: api.ConnContext, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	n.background(func(context.Context) { server.Serve(listener) })
	n.t.Cleanup(func() { server.Close() })
	return newClient(n.t, listener.Addr())
}

// client speaks to one door.
type client struct {
	t    *testing.T
	addr net.Addr
	base string
	http *http.Client
}

func newClient(t *testing.T, addr net.Addr) *client {
	c := &client{t: t, addr: addr, base: "http://agent"}
	if addr.Network() == "tcp" {
		c.base = "http://" + addr.String()
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c
}

// reply is a whole answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request; headers are "Name: value". A body gets a JSON content type unless a header says otherwise.
func (c *client) do(method, path, body string, headers ...string) reply {
	c.t.Helper()
	response := c.open(method, path, body, headers...)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{response.StatusCode, response.Header, string(data)}
}

// open is do for an answer that does not end.
func (c *client) open(method, path, body string, headers ...string) *http.Response {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" && c.addr.Network() == "tcp" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if request.Header.Set(name, value); name == "Host" {
			request.Host = value
		}
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response
}

// want fails the test unless the answer has the status; it returns the body as a T.
func want[T any](t *testing.T, r reply, status int) T {
	t.Helper()
	var document T
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &document); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	return document
}

// problem fails the test unless the answer is a problem with the code.
func problem(t *testing.T, r reply, status int, code string) api.Problem {
	t.Helper()
	p := want[api.Problem](t, r, status)
	if p.Code != code || p.Title != code || p.Status != status || p.Type != "urn:grapevine:"+strings.ReplaceAll(code, "_", "-") {
		t.Errorf("problem %s, want code %s and status %d", r.body, code, status)
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	return p
}

const booking = `{"backends":["http://127.0.0.1:5010"],"path":"/booking/{**catch-all}"}`

// safeBuffer is a log that is written and read at once.
type safeBuffer struct {
	// mu guards buffer.
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
