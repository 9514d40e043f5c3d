package mux_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/agent/identity"
	"grapevine/agent/mux"
	"grapevine/kv/memnet"
)

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
	for range 5 {
		wantEcho(t, dial(t, b, identity.ProtocolPeer, a.addr))
	}
	for _, conn := range half {
		conn.Close()
	}
}
