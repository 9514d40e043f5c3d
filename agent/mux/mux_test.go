package mux_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/agent/identity"
	"grapevine/agent/mux"
	"grapevine/kv/memnet"
)

func secretFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "identity.pem")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachProtocolHasItsListener(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		for _, protocol := range []string{identity.ProtocolMembers, identity.ProtocolRaft, identity.ProtocolSpread} {
			listener := a.Listener(protocol)
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				fmt.Fprintf(conn, "%s", protocol)
				conn.Close()
			}()
			got, err := io.ReadAll(dial(t, b, protocol, a.addr))
			if err != nil || string(got) != protocol {
				t.Errorf("%s: %q, %v", protocol, got, err)
			}
		}
	})
}

func TestBothSidesLearnWhoIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		listener := a.Listener(identity.ProtocolPeer)
		far := make(chan net.Conn, 1)
		go func() {
			conn, _ := listener.Accept()
			far <- conn
		}()
		near, err := b.DialNode(t.Context(), identity.ProtocolPeer, a.addr, nodeID(1))
		if err != nil {
			t.Fatal(err)
		}
		if peer, known := identity.PeerOf(near); !known || peer != a.id.Self() {
			t.Errorf("b sees %v, %v", peer, known)
		}
		if peer, known := identity.PeerOf(<-far); !known || peer != b.id.Self() {
			t.Errorf("a sees %v, %v", peer, known)
		}
		_, err = b.DialNode(t.Context(), identity.ProtocolPeer, a.addr, nodeID(7))
		wantError(t, err, "gv-peer/1 at 10.0.0.1:7946", nodeID(1)+" answers", nodeID(7)+" was expected")
	})
}

func TestAProtocolWithoutAListenerIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.echo(t, identity.ProtocolPeer)
		_, err := b.Dial(t.Context(), identity.ProtocolRaft, a.addr)
		wantError(t, err, "gv-raft/1 at 10.0.0.1:7946", "does not offer protocol gv-raft/1")
		listener := a.Listener(identity.ProtocolRaft)
		if a.Listener(identity.ProtocolRaft) != listener {
			t.Error("a second listener of one protocol")
		}
		dial(t, b, identity.ProtocolRaft, a.addr)
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		_, err = b.Dial(t.Context(), identity.ProtocolRaft, a.addr)
		wantError(t, err, "does not offer protocol gv-raft/1")
		a.Listener(identity.ProtocolRaft) // may be opened again
		dial(t, b, identity.ProtocolRaft, a.addr)
	})
}

func TestHTTPBetweenNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		server := &http.Server{ConnContext: identity.ConnContext, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			peer, _ := identity.PeerFrom(r.Context())
			fmt.Fprintf(w, "hello %s", peer.Node)
		})}
		go server.Serve(a.Listener(identity.ProtocolPeer))
		defer server.Close()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return b.Dial(ctx, identity.ProtocolPeer, address)
		}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get("http://" + a.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "hello "+nodeID(2) {
			t.Errorf("%q, %v", body, err)
		}
	})
}

func TestPacketsPass(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		if _, err := b.Packets().WriteTo([]byte("ping"), a.Packets().LocalAddr()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		size, from, err := a.Packets().ReadFrom(buf)
		if err != nil || string(buf[:size]) != "ping" || from.String() != b.addr {
			t.Errorf("%q from %v, %v", buf[:size], from, err)
		}
	})
}

// TestJoinThroughThePort goes the whole way of a new node.
func TestJoinThroughThePort(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		first, err := identity.Found(identity.Options{Node: nodeID(1)})
		if err != nil {
			t.Fatal(err)
		}
		a := open(t, n.Host("10.0.0.1"), "10.0.0.1", first)
		a.echo(t, identity.ProtocolSpread)
		token, record, err := first.Cluster().NewToken(identity.TokenOptions{Role: identity.Edge, Seeds: []string{a.addr}})
		if err != nil {
			t.Fatal(err)
		}
		door := identity.NewDoor(identity.DoorOptions{Self: first, Token: func(id string) (identity.TokenRecord, bool) { return record, id == record.ID }})
		server := door.Server()
		go server.Serve(a.Listener(identity.ProtocolJoin))
		defer server.Close()
		host := n.Host("10.0.0.2")
		second, joined, err := identity.Join(t.Context(), identity.Options{Node: nodeID(2)}, identity.Joining{Token: token, Dial: host.Dial})
		if err != nil || joined.Observed != "10.0.0.2" {
			t.Fatal(joined, err)
		}
		b := open(t, host, "10.0.0.2", second)
		wantEcho(t, dial(t, b, identity.ProtocolSpread, a.addr))
	})
}

func TestWithoutTLS(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		first, err := identity.Found(identity.Options{Node: nodeID(1), Insecure: true})
		if err != nil {
			t.Fatal(err)
		}
		a := open(t, n.Host("127.0.0.1"), "127.0.0.1", first)
		b := open(t, n.Host("127.0.0.2"), "127.0.0.2", first)
		a.echo(t, identity.ProtocolRaft)
		wantEcho(t, dial(t, b, identity.ProtocolRaft, a.addr))
		_, err = b.Dial(t.Context(), identity.ProtocolSpread, a.addr)
		wantError(t, err, `"gv-spread/1": is not offered`)
		c := open(t, n.Host("10.0.0.3"), "10.0.0.3", first)
		_, err = c.Dial(t.Context(), identity.ProtocolRaft, a.addr)
		wantError(t, err)
	})
}

// TestHalfHandshakesKeepNobodyOut: one host opens 200 connections and says half
// of what is to be said, and again 200, and again.
func TestHalfHandshakesKeepNobodyOut(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.echo(t, identity.ProtocolPeer)
		attacker := n.Host("10.0.0.66")
		var held []net.Conn
		for range 5 {
			for range 200 {
				conn, err := attacker.Dial(t.Context(), a.addr)
				if err != nil {
					t.Fatal(err)
				}
				conn.Write([]byte("\x16\x03\x01\x02\x00\x01"))
				held = append(held, conn)
			}
			start := time.Now()
			conn := dial(t, b, identity.ProtocolPeer, a.addr)
			wantEcho(t, conn)
			conn.Close()
			if took := time.Since(start); took > time.Second {
				t.Errorf("a node waited %s", took)
			}
		}
		// Those that had to make room were the attacker's, and all end in time.
		synctest.Wait()
		if log := a.log.String(); !strings.Contains(log, "many handshakes at once") || !strings.Contains(log, "10.0.0.66") {
			t.Errorf("log %s", log)
		}
		closed := 0
		for _, conn := range held {
			if closedBy(conn, time.Millisecond) {
				closed++
			}
		}
		if open := len(held) - closed; open > 256 {
			t.Errorf("%d half handshakes are open at once", open)
		}
		<-time.After(6 * time.Second)
		for i, conn := range held {
			if !closedBy(conn, time.Millisecond) {
				t.Fatalf("half handshake %d outlives its time", i)
			}
			conn.Close()
		}
		if lines := strings.Count(a.log.String(), "\n"); lines > 20 {
			t.Errorf("%d lines of log for 1000 bad connections", lines)
		}
	})
}

// TestASlowNodeKeepsItsPlace: the connections that have to go are those of the
// host that holds the most, not the oldest ones.
func TestASlowNodeKeepsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.echo(t, identity.ProtocolPeer)
		n.SetDelay(500*time.Millisecond, 500*time.Millisecond)
		done := make(chan error, 1)
		go func() {
			conn, err := b.Dial(t.Context(), identity.ProtocolPeer, a.addr)
			if err == nil {
				err = echoes(conn)
				conn.Close()
			}
			done <- err
		}()
		<-time.After(time.Millisecond)
		attacker := n.Host("10.0.0.66")
		var dials sync.WaitGroup
		for range 400 {
			dials.Go(func() {
				conn, err := attacker.Dial(t.Context(), a.addr)
				if err != nil {
					return // too many at once for the listener too
				}
				<-time.After(10 * time.Second)
				conn.Close()
			})
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if log := a.log.String(); !strings.Contains(log, "many handshakes at once") {
			t.Errorf("the gate was never full: %s", log)
		}
		dials.Wait()
	})
}

// TestStrangersAreBoundedAfterTheirHandshake: whoever wants to join has proved
// nothing, and keeps its place in the gate.
func TestStrangersAreBoundedAfterTheirHandshake(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.echo(t, identity.ProtocolJoin)
		a.echo(t, identity.ProtocolPeer)
		attacker := n.Host("10.0.0.66")
		var held []net.Conn
		for range 300 {
			raw, err := attacker.Dial(t.Context(), a.addr)
			if err != nil {
				t.Fatal(err)
			}
			conn := tls.Client(raw, &tls.Config{NextProtos: []string{identity.ProtocolJoin}, InsecureSkipVerify: true})
			if err := conn.Handshake(); err != nil {
				t.Fatal(err)
			}
			held = append(held, raw)
		}
		wantEcho(t, dial(t, b, identity.ProtocolPeer, a.addr))
		synctest.Wait()
		open := 0
		for _, conn := range held {
			if !drained(conn) {
				open++
			}
		}
		if open > 256 || open < 200 {
			t.Errorf("%d strangers are in", open)
		}
		<-time.After(time.Minute)
		for _, conn := range held {
			if !drained(conn) {
				t.Fatal("a stranger stays for ever")
			}
			conn.Close()
		}
	})
}

// drained reads what is there, and reports whether the connection has ended.
func drained(conn net.Conn) bool {
	conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := io.Copy(io.Discard, conn)
	return err == nil || !errors.Is(err, os.ErrDeadlineExceeded)
}

// TestMembersAreNotCountedAsStrangers: a node may have more connections than the
// gate has places.
func TestMembersAreNotCountedAsStrangers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.echo(t, identity.ProtocolPeer)
		var conns []net.Conn
		for range 300 {
			conns = append(conns, dial(t, b, identity.ProtocolPeer, a.addr))
		}
		for _, conn := range conns {
			wantEcho(t, conn)
		}
	})
}

func TestSlowHandshakesArePutUpWithOnlySoLong(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.echo(t, identity.ProtocolPeer)
		n.SetDelay(time.Second, time.Second) // of each way: a handshake takes two
		wantEcho(t, dial(t, b, identity.ProtocolPeer, a.addr))
		n.SetDelay(4*time.Second, 4*time.Second)
		start := time.Now()
		conn, err := b.Dial(t.Context(), identity.ProtocolPeer, a.addr)
		if err == nil {
			conn.Close()
			err = errors.New("took its time")
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		n.SetDelay(0, 0)
		wantEcho(t, dial(t, b, identity.ProtocolPeer, a.addr))
	})
}

func TestADialEndsWithItsContextAndWithTheMux(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		silent, err := n.Host("10.0.0.9").Listen(7946)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		_, err = b.Dial(ctx, identity.ProtocolPeer, "10.0.0.9:7946")
		if took := time.Since(start); err == nil || took != 2*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		start = time.Now()
		_, err = b.Dial(t.Context(), identity.ProtocolPeer, "10.0.0.9:7946")
		if took := time.Since(start); err == nil || took != 10*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		go func() {
			<-time.After(time.Second)
			b.Close()
		}()
		start = time.Now()
		_, err = b.Dial(t.Context(), identity.ProtocolPeer, "10.0.0.9:7946")
		if took := time.Since(start); err == nil || took != time.Second {
			t.Errorf("%v after %s", err, took)
		}
		_, err = b.Dial(t.Context(), identity.ProtocolPeer, a.addr)
		wantError(t, err)
	})
}

// TestNobodyAccepts: the connection ends, and the port goes on.
func TestNobodyAccepts(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.Listener(identity.ProtocolSpread)
		a.echo(t, identity.ProtocolPeer)
		conn := dial(t, b, identity.ProtocolSpread, a.addr)
		if closedBy(conn, 4*time.Second) {
			t.Error("closed early")
		}
		if !closedBy(conn, 2*time.Second) {
			t.Error("not closed")
		}
		if log := a.log.String(); !strings.Contains(log, "gv-spread/1: nobody takes the connection") {
			t.Errorf("log %s", log)
		}
		wantEcho(t, dial(t, b, identity.ProtocolPeer, a.addr))
	})
}

func TestDropEndsANodesConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		c := open(t, n.Host("10.0.0.3"), "10.0.0.3", member(t, a.id, 3, identity.Edge))
		for _, p := range []*port{a, b, c} {
			p.echo(t, identity.ProtocolPeer)
		}
		in, out := dial(t, b, identity.ProtocolPeer, a.addr), dial(t, a, identity.ProtocolPeer, b.addr)
		other := dial(t, c, identity.ProtocolPeer, a.addr)
		for _, conn := range []net.Conn{in, out, other} {
			wantEcho(t, conn)
		}
		a.Drop(nodeID(2))
		if !closedBy(in, time.Second) || !closedBy(out, time.Second) {
			t.Error("a connection with the node is open")
		}
		wantEcho(t, other)
		wantEcho(t, dial(t, b, identity.ProtocolPeer, a.addr)) // to keep it out is the handshake's
	})
}

func TestCloseEndsEverything(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		a.echo(t, identity.ProtocolPeer)
		spread := a.Listener(identity.ProtocolSpread) // where nobody accepts
		conn := dial(t, b, identity.ProtocolPeer, a.addr)
		wantEcho(t, conn)
		waiting := dial(t, b, identity.ProtocolSpread, a.addr)
		half, err := n.Host("10.0.0.66").Dial(t.Context(), a.addr)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %s", took)
		}
		for name, conn := range map[string]net.Conn{"open": conn, "waiting": waiting, "half": half} {
			if !closedBy(conn, time.Second) {
				t.Errorf("the %s connection is there", name)
			}
		}
		if _, err := spread.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		if _, err := a.Listener(identity.ProtocolRaft).Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept of a new listener: %v", err)
		}
		if _, _, err := a.Packets().ReadFrom(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("ReadFrom: %v", err)
		}
		if err := a.Serve(); err != nil {
			t.Errorf("Serve again: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
		half.Close()
	})
}

// flaky is a listener that fails as the kernel does when files run out.
type flaky struct {
	net.Listener
	mu    sync.Mutex
	fails []error
	asked []time.Time
}

func (f *flaky) Accept() (net.Conn, error) {
	f.mu.Lock()
	f.asked = append(f.asked, time.Now())
	if len(f.fails) > 0 {
		err := f.fails[0]
		f.fails = f.fails[1:]
		f.mu.Unlock()
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	f.mu.Unlock()
	return f.Listener.Accept()
}

func TestAcceptErrorsBackOff(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		first, _ := members(t)
		listener, err := n.Host("10.0.0.1").Listen(7946)
		if err != nil {
			t.Fatal(err)
		}
		f := &flaky{Listener: listener}
		for range 12 {
			f.fails = append(f.fails, os.NewSyscallError("accept4", syscall.EMFILE))
		}
		log := new(lines)
		m := mux.New(mux.Options{Listener: f, Dial: n.Host("10.0.0.1").Dial, Handshaker: first, Logger: logger(log)})
		served := make(chan error, 1)
		go func() { served <- m.Serve() }()
		<-time.After(10 * time.Second)
		f.mu.Lock()
		for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
			if wait := f.asked[i+1].Sub(f.asked[i]); wait != want*time.Millisecond {
				t.Errorf("wait %d: %s, want %d ms", i, wait, want)
			}
		}
		f.mu.Unlock()
		if got := strings.Count(log.String(), "accepting fails"); got != 1 {
			t.Errorf("%d lines: %s", got, log)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}

		// What will not pass ends Serve.
		f.fails = []error{errors.New("broken")}
		m = mux.New(mux.Options{Listener: f, Dial: n.Host("10.0.0.1").Dial, Handshaker: first})
		wantError(t, m.Serve(), "broken")
		m.Close()
	})
}

// TestOverRealSockets: the same over the kernel's loopback.
func TestOverRealSockets(t *testing.T) {
	first, second := members(t)
	listen := func(id *identity.Identity) *port {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		log := new(lines)
		m := mux.New(mux.Options{Listener: l, Dial: func(ctx context.Context, a string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", a)
		}, Handshaker: id, Logger: logger(log)})
		done := make(chan error, 1)
		go func() { done <- m.Serve() }()
		t.Cleanup(func() {
			m.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return &port{m, id, l.Addr().String(), log}
	}
	a, b := listen(first), listen(second)
	a.echo(t, identity.ProtocolPeer)
	var half []net.Conn
	for range 200 { // from the same address as the node
		conn, err := net.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte("\x16\x03\x01\x02\x00\x01"))
		half = append(half, conn)
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			conn, err := b.Dial(t.Context(), identity.ProtocolPeer, a.addr)
			if err == nil {
				err = echoes(conn)
				conn.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, conn := range half {
		conn.Close()
	}
}
