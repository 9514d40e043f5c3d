package identity_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"grapevine/agent/identity"
	"grapevine/kv/memnet"
)

var protocols = []string{
	identity.ProtocolMembers, identity.ProtocolRaft, identity.ProtocolSpread, identity.ProtocolPeer, identity.ProtocolJoin,
}

// outcome is what each side of a handshake got.
type outcome struct {
	server, client         error
	protocol, node, answer string
	serverConn, clientConn net.Conn
}

// shake has client speak to a server over a pair of connections. The client's
// error includes what it reads first, since a server's refusal of its
// certificate comes after its handshake.
func shake(t *testing.T, server *identity.Identity, offered []string, client func(context.Context, net.Conn) (net.Conn, string, error)) outcome {
	t.Helper()
	near, far := connected(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var o outcome
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.serverConn, o.protocol, o.node, o.server = server.Server(ctx, far, offered)
		if o.server != nil {
			far.Close()
			return
		}
		o.serverConn.Write([]byte("hello"))
	}()
	o.clientConn, o.answer, o.client = client(ctx, near)
	if o.client != nil {
		near.Close()
	} else {
		b := make([]byte, 5)
		if _, err := io.ReadFull(o.clientConn, b); err != nil || string(b) != "hello" {
			o.client = fmt.Errorf("read %q: %w", b, err)
		}
	}
	<-done
	return o
}

// connected is a pair of connections between 127.0.0.1 and itself.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	return connectedAt(t, "127.0.0.1")
}

func connectedAt(t *testing.T, address string) (near, far net.Conn) {
	t.Helper()
	host := memnet.New(1).Host(address)
	listener, err := host.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	near, err = host.Dial(t.Context(), listener.Addr().String())
	if err == nil {
		far, err = listener.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		near.Close()
		far.Close()
		listener.Close()
	})
	return near, far
}

func as(id *identity.Identity, protocol string) func(context.Context, net.Conn) (net.Conn, string, error) {
	return func(ctx context.Context, conn net.Conn) (net.Conn, string, error) {
		return id.Client(ctx, conn, protocol, "")
	}
}

// nobody is a TLS client without a certificate that takes any server.
func nobody(protocols ...string) func(context.Context, net.Conn) (net.Conn, string, error) {
	return func(ctx context.Context, conn net.Conn) (net.Conn, string, error) {
		c := tls.Client(conn, &tls.Config{NextProtos: protocols, InsecureSkipVerify: true})
		return c, "", c.HandshakeContext(ctx)
	}
}

func TestWhoMaySpeakWhat(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		second := n.admit(3, voter.issue(t, identity.TokenOptions{Role: identity.Edge}))
		for _, protocol := range protocols {
			for _, test := range []struct {
				name   string
				server *identity.Identity
				client func(context.Context, net.Conn) (net.Conn, string, error)
				node   string // of the client
				may    []string
			}{
				{"voter to voter", voter.id, as(voter.id, protocol), nodeID(1), protocols},
				{"edge to voter", voter.id, as(edge.id, protocol), nodeID(2), without(protocols, identity.ProtocolRaft)},
				{"voter to edge", edge.id, as(voter.id, protocol), nodeID(1), without(protocols, identity.ProtocolRaft)},
				{"edge to edge", edge.id, as(second, protocol), nodeID(3), without(protocols, identity.ProtocolRaft)},
				{"nobody to voter", voter.id, nobody(protocol), "", []string{identity.ProtocolJoin}},
				{"nobody to edge", edge.id, nobody(protocol), "", []string{identity.ProtocolJoin}},
			} {
				o := shake(t, test.server, protocols, test.client)
				if want := slices.Contains(test.may, protocol); want != (o.server == nil && o.client == nil) {
					t.Errorf("%s, %s: server %v, client %v, want it to work: %v", test.name, protocol, o.server, o.client, want)
					continue
				} else if !want {
					continue
				}
				if o.protocol != protocol || o.node != test.node {
					t.Errorf("%s, %s: protocol %q, node %q", test.name, protocol, o.protocol, o.node)
				}
				peer, known := identity.PeerOf(o.serverConn)
				if peer.Node != test.node || known != (test.node != "") {
					t.Errorf("%s, %s: peer %v, %v", test.name, protocol, peer, known)
				}
			}
		}
	})
}

func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}

func TestRefusalsNameTheReason(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		stranger := found(t, 9)
		for _, test := range []struct {
			name           string
			offered        []string
			client         func(context.Context, net.Conn) (net.Conn, string, error)
			server, answer []string // in the errors of either side
		}{
			{"edge on raft", protocols, as(edge.id, identity.ProtocolRaft), []string{"gv-raft/1", nodeID(2), "role edge", "only voter"}, []string{"bad certificate"}},
			{"no certificate", protocols, nobody(identity.ProtocolPeer), []string{"gv-peer/1", "no certificate"}, []string{"bad certificate"}},
			{"another cluster", protocols, as(stranger, identity.ProtocolPeer), []string{"bad certificate"}, []string{"certificate"}},
			{"not offered", []string{identity.ProtocolPeer}, as(voter.id, identity.ProtocolSpread), []string{"gv-spread/1"}, []string{"does not offer protocol gv-spread/1"}},
			{"unknown protocol", append([]string{"gv-next/1"}, protocols...), nobody("gv-next/1"), []string{`"gv-next/1"`, "none of the cluster's"}, nil},
			{"no protocol", protocols, nobody(), []string{"no protocol"}, nil},
			{"not the expected node", protocols, func(ctx context.Context, conn net.Conn) (net.Conn, string, error) {
				return edge.id.Client(ctx, conn, identity.ProtocolPeer, nodeID(7))
			}, []string{"bad certificate"}, []string{nodeID(1) + " answers", nodeID(7) + " was expected"}},
		} {
			t.Log(test.name)
			o := shake(t, voter.id, test.offered, test.client)
			wantError(t, o.server, test.server...)
			wantError(t, o.client, test.answer...)
		}
	})
}

func TestAClientOfAnotherClusterIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, stranger := n.settle(1, found(t, 1), nil), found(t, 2)
		// It would take any server, and shows a certificate of its own cluster.
		config := stranger.ClientConfig(identity.ProtocolPeer, "")
		config.InsecureSkipVerify, config.VerifyConnection = true, nil
		o := shake(t, voter.id, protocols, func(ctx context.Context, conn net.Conn) (net.Conn, string, error) {
			c := tls.Client(conn, config)
			return c, "", c.HandshakeContext(ctx)
		})
		wantError(t, o.server, "unknown authority")
		wantError(t, o.client, "certificate")
	})
}

func TestOldTLSIsRefused(t *testing.T) {
	o := shake(t, found(t, 1), protocols, func(ctx context.Context, conn net.Conn) (net.Conn, string, error) {
		c := tls.Client(conn, &tls.Config{NextProtos: protocols, InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
		return c, "", c.HandshakeContext(ctx)
	})
	wantError(t, o.server, "version")
	wantError(t, o.client, "version")
}

func TestRevokedNodesAreRefusedOnBothSides(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		revoked := ""
		voter := n.settle(1, foundAt(t, identity.Options{Node: nodeID(1), Denied: func(node string) bool { return node == revoked }}), nil)
		edge := n.admit(2, voter.issue(t, identity.TokenOptions{Role: identity.Edge}))
		if o := shake(t, voter.id, protocols, as(edge, identity.ProtocolPeer)); o.server != nil || o.client != nil {
			t.Fatal(o.server, o.client)
		}
		revoked = nodeID(2)
		for _, protocol := range protocols { // not even to join
			o := shake(t, voter.id, protocols, as(edge, protocol))
			wantError(t, o.server, nodeID(2)+" was revoked")
			wantError(t, o.client)
		}
		o := shake(t, edge, protocols, as(voter.id, identity.ProtocolPeer))
		wantError(t, o.client, nodeID(2)+" was revoked")
	})
}

func TestExpiredCertificatesAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := n.cluster()
		pass(364 * 24 * time.Hour)
		if err := voter.id.Renew(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if o := shake(t, voter.id, protocols, as(edge.id, identity.ProtocolPeer)); o.server != nil || o.client != nil {
			t.Fatal(o.server, o.client)
		}
		pass(25 * time.Hour)
		o := shake(t, voter.id, protocols, as(edge.id, identity.ProtocolPeer))
		wantError(t, o.server, "expired")
		o = shake(t, edge.id, protocols, as(voter.id, identity.ProtocolPeer))
		wantError(t, o.client, "expired")
	})
}

func TestGarbageAndSilenceEndAHandshake(t *testing.T) {
	for _, insecure := range []bool{false, true} {
		for name, first := range map[string]string{
			"silence": "", "http": "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "zeros": string(make([]byte, 4096)),
			"half a record": "\x16\x03\x01\x40\x00\x01", "endless line": string(slices.Repeat([]byte("a"), 4096)),
		} {
			t.Run(fmt.Sprintf("%s/%v", name, insecure), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					id := foundAt(t, identity.Options{Node: nodeID(1), Insecure: insecure})
					near, far := connected(t)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					go near.Write([]byte(first))
					start := time.Now()
					_, _, _, err := id.Server(ctx, far, protocols)
					wantError(t, err)
					far.Close()
					if took := time.Since(start); took > 6*time.Second { // a TLS alert may wait for its own second
						t.Errorf("took %s", took)
					}
				})
			})
		}
	}
}
