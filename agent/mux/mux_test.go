package mux_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"grapevine/agent/identity"
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
