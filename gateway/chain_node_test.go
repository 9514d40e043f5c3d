package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"grapevine/gateway"
	"grapevine/gateway/exchange"
	"grapevine/gateway/http1"
	"grapevine/gateway/spec"
	"grapevine/kv"
)

// message is a request as one reader saw it.
type message struct {
	// id is the correlation id, which the first node gives and the others keep.
	id, method, target, body string
	whole                    bool // the body was read to its end
	forwarded                bool
	early                    bool // it was answered before its body was read
	status                   int  // of the answer, 0 when the client had left
	cut                      bool // the answer broke off because the client left, or sent no body
}

// same tells whether two readers saw the same request.
func (m message) same(as message) bool {
	return m.method == as.method && m.target == as.target && m.body == as.body && m.whole == as.whole
}

// beginsLike tells whether m is as, or what came of it before it was given up.
func (m message) beginsLike(as message) bool {
	return m.method == as.method && m.target == as.target && strings.HasPrefix(as.body, m.body) && (!m.whole || m.body == as.body && as.whole)
}

func (m message) String() string {
	return fmt.Sprintf("%s %s %.80q whole %v forwarded %v status %d id %s", m.method, m.target, m.body, m.whole, m.forwarded, m.status, m.id)
}

// ledger is what one reader saw.
type ledger struct {
	mu     sync.Mutex // guards what follows
	byID   map[string][]message
	byPeer map[netip.AddrPort][]message // in the order in which they ended
	faults []string                     // what was no request at all
}

func newLedger() *ledger {
	return &ledger{byID: map[string][]message{}, byPeer: map[netip.AddrPort][]message{}}
}

func (l *ledger) add(peer netip.AddrPort, m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID[m.id] = append(l.byID[m.id], m)
	l.byPeer[peer] = append(l.byPeer[peer], m)
}

func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// from are the messages of one connection.
func (l *ledger) from(peer netip.AddrPort) []message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.byPeer[peer])
}

// called are the messages of one id, and what was no request.
func (l *ledger) called(id string) (ms []message, faults []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.byID[id]), slices.Clone(l.faults)
}

// observe notes every exchange, as a step of the chain.
func (l *ledger) observe(next exchange.Handler) exchange.Handler {
	return exchange.HandlerFunc(func(x *exchange.Exchange) {
		o := &observed{ledger: l, of: x.Request.Body, whole: x.Request.Body == nil}
		if o.of != nil {
			x.Request.Body = o
		}
		x.OnFinish(o)
		next.Serve(x)
	})
}

// observed is a request's body that remembers what was read of it.
type observed struct {
	ledger *ledger
	of     io.Reader

	mu    sync.Mutex // guards what follows
	read  []byte
	whole bool
	fault bool // the body broke off, or is none
}

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.of.Read(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.read = append(o.read, p[:n]...)
	o.whole = o.whole || err == io.EOF
	o.fault = o.fault || err != nil && err != io.EOF
	return n, err
}

// Buffered keeps the way of a body that is in memory.
func (o *observed) Buffered() int {
	if b, ok := o.of.(http1.Buffered); ok {
		return b.Buffered()
	}
	return 0
}

// Finished notes the exchange. Its slices are invalid after it.
func (o *observed) Finished(x *exchange.Exchange, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ledger.add(x.Request.Peer, message{
		id: strings.Clone(x.CorrelationID), method: x.Request.Method, target: string(x.Request.Target), body: string(o.read),
		whole: o.whole, forwarded: x.Attempts > 0, status: x.Response.Status, cut: err != nil && (o.fault || x.Context().Err() != nil),
	})
}

// node is a gateway behind a server of ours, which sends everything to one backend.
type node struct {
	*ledger
	address string
	stop    func()
}

func startNode(t testing.TB, backend string) *node {
	t.Helper()
	store, err := kv.Open(kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := spec.ParseFiles(spec.Input{Name: "gateway.yaml", Data: []byte("routes: {all: {path: '/{**rest}', backends: ['" + backend + "']}}")})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{ledger: newLedger()}
	g := gateway.New(gateway.Options{Source: store, Keeper: store, Static: file})
	g.Use(n.observe)
	if err := g.Load(); err != nil {
		t.Fatal(err)
	}
	server := &http1.Server{Handler: g, Refuse: func(x *exchange.Exchange, p exchange.Problem) {
		n.fault("%s", p.Code)
		g.Refuse(x, p)
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	n.stop = sync.OnceFunc(func() {
		g.Close() // so that the next node has no idle connections
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(server.Shutdown(ctx), <-served, server.Close(), store.Close()); err != nil {
			t.Errorf("node %s: %v", n.address, err)
		}
	})
	t.Cleanup(n.stop)
	return n
}
