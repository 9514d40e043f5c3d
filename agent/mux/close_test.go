package mux_test

import (
	"context"
	"errors"
	"net"
	"os"
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
		synctest.Wait()
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
		// One whose handshake passed before its revocation was known comes too late.
		if !closedBy(dial(t, b, identity.ProtocolPeer, a.addr), time.Second) {
			t.Error("a later connection is open")
		}
		_, err := a.Dial(t.Context(), identity.ProtocolPeer, b.addr)
		wantError(t, err, "revoked")
	})
}

// TestOneNodeTakesNotAllConnections: a member that opens ever more of them has what
// it has, and the others are served.
func TestOneNodeTakesNotAllConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, n *memnet.Network) {
		a, b := pair(t, n)
		c := open(t, n.Host("10.0.0.3"), "10.0.0.3", member(t, a.id, 3, identity.Edge))
		a.echo(t, identity.ProtocolPeer)
		const most = 512
		var conns []net.Conn
		for range most {
			conns = append(conns, dial(t, b, identity.ProtocolPeer, a.addr))
		}
		synctest.Wait()
		if !closedBy(dial(t, b, identity.ProtocolPeer, a.addr), time.Second) {
			t.Errorf("a node has %d connections and one more", most)
		}
		wantEcho(t, conns[0])
		wantEcho(t, dial(t, c, identity.ProtocolPeer, a.addr))
		conns[0].Close()
		synctest.Wait()
		wantEcho(t, dial(t, b, identity.ProtocolPeer, a.addr))
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
