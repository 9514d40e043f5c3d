package identity_test

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"grapevine/agent/identity"
)

// insecure is a cluster without TLS: a voter and an edge.
func insecure(t *testing.T) (voter, edge *identity.Identity) {
	t.Helper()
	voter = foundAt(t, identity.Options{Node: nodeID(1), Insecure: true})
	edge = identity.PlainEdge(voter, nodeID(2))
	return voter, edge
}

func TestWhoMaySpeakWhatWithoutTLS(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *town) {
		voter, edge := insecure(t)
		for _, protocol := range protocols {
			for _, test := range []struct {
				name           string
				server, client *identity.Identity
				may            []string
			}{
				{"voter to voter", voter, voter, protocols},
				{"edge to voter", voter, edge, without(protocols, identity.ProtocolRaft)},
				{"voter to edge", edge, voter, without(protocols, identity.ProtocolRaft)},
			} {
				o := shake(t, test.server, protocols, as(test.client, protocol))
				if want := slices.Contains(test.may, protocol); want != (o.server == nil && o.client == nil) {
					t.Errorf("%s, %s: server %v, client %v, want it to work: %v", test.name, protocol, o.server, o.client, want)
				} else if want && (o.protocol != protocol || o.node != test.client.Node() || o.answer != test.server.Node()) {
					t.Errorf("%s, %s: protocol %q, node %q, answer %q", test.name, protocol, o.protocol, o.node, o.answer)
				}
			}
		}
	})
}

func TestRefusalsWithoutTLSReachTheClient(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		voter, edge := insecure(t)
		o := shake(t, voter, protocols, as(edge, identity.ProtocolRaft))
		wantError(t, o.server, "role edge", "only voter")
		wantError(t, o.client, "the node refuses", "role edge", "only voter")
		o = shake(t, voter, []string{identity.ProtocolPeer}, as(edge, identity.ProtocolSpread))
		wantError(t, o.client, `"gv-spread/1": is not offered`)
		o = shake(t, voter, protocols, func(ctx context.Context, conn net.Conn) (net.Conn, string, error) {
			return edge.Client(ctx, conn, identity.ProtocolPeer, nodeID(7))
		})
		wantError(t, o.client, nodeID(1)+" answers", nodeID(7)+" was expected")
		// One side with TLS, the other without.
		secure := found(t, 3)
		o = shake(t, voter, protocols, as(secure, identity.ProtocolPeer))
		wantError(t, o.client)
		wantError(t, o.server, "--insecure")
		o = shake(t, secure, protocols, as(voter, identity.ProtocolPeer))
		wantError(t, o.client)
		wantError(t, o.server, "TLS")
	})
}

func TestWithoutTLSOnlyLoopback(t *testing.T) {
	voter, _ := insecure(t)
	for _, good := range []string{"127.0.0.1:7946", "127.8.9.1:1", "[::1]:7946", "localhost:7946", "127.0.0.1", "[::ffff:127.0.0.1]:1"} {
		if err := voter.CheckAddress(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"10.0.0.1:7946", "0.0.0.0:7946", ":7946", "[::]:7946", "example.com:1", "localhost.example.com:1", "", "[fe80::1]:1"} {
		wantError(t, voter.CheckAddress(bad), "is not loopback", "--insecure")
		if err := found(t, 1).CheckAddress(bad); err != nil {
			t.Error("with TLS:", err)
		}
	}
	near, far := connectedAt(t, "10.0.0.1")
	_, _, err := voter.Client(t.Context(), near, identity.ProtocolPeer, "")
	wantError(t, err, "10.0.0.1", "is not loopback")
	_, _, _, err = voter.Server(t.Context(), far, protocols)
	wantError(t, err, "10.0.0.1", "is not loopback")
}

// TestNothingOfTheProtocolIsSwallowed: what follows the greeting in the same
// packet is the protocol's.
func TestNothingOfTheProtocolIsSwallowed(t *testing.T) {
	voter, _ := insecure(t)
	near, far := connected(t)
	near.Write([]byte("grapevine gv-peer/1 " + nodeID(2) + " edge\nand more"))
	conn, protocol, node, err := voter.Server(t.Context(), far, protocols)
	if err != nil || protocol != identity.ProtocolPeer || node != nodeID(2) {
		t.Fatal(protocol, node, err)
	}
	b := make([]byte, 8)
	if _, err := io.ReadFull(conn, b); err != nil || string(b) != "and more" {
		t.Errorf("%q, %v", b, err)
	}
	if peer, known := identity.PeerOf(conn); !known || peer != (identity.Peer{Node: nodeID(2), Role: identity.Edge}) {
		t.Error(peer, known)
	}
}

func TestJoinWithoutTLS(t *testing.T) {
	inBubble(t, func(t *testing.T, n *town) {
		host := n.network.Host("127.0.0.1")
		listener, err := host.Listen(7946)
		if err != nil {
			t.Fatal(err)
		}
		first := &resident{id: foundAt(t, identity.Options{Node: nodeID(1), Insecure: true}), host: host, addr: "127.0.0.1:7946", records: map[string]identity.TokenRecord{}}
		first.door = identity.NewDoor(identity.DoorOptions{Self: first.id, Token: first.token, Use: first.use})
		serve(t, listener, first)
		token := first.issue(t, identity.TokenOptions{Role: identity.Voter, Uses: 1})
		id, _, err := n.join(2, identity.Options{Insecure: true}, identity.Joining{Token: token, Dial: host.Dial})
		if err != nil || id.Role() != identity.Voter || !id.Insecure() || first.id.Verify(signed(id.Authority(), 1)) != nil {
			t.Errorf("%v, %v", id, err)
		}
		_, _, err = n.join(3, identity.Options{Insecure: true}, identity.Joining{Token: token, Dial: host.Dial})
		wantRefusal(t, err, identity.ReasonUsedUp)
		_, _, err = n.join(3, identity.Options{Insecure: true}, identity.Joining{Token: token, Seeds: []string{"10.0.0.1:7946"}, Dial: host.Dial})
		wantError(t, err, "is not loopback")
		// An impostor has another CA than the token names.
		other, err := n.network.Host("127.0.0.2").Listen(7946)
		if err != nil {
			t.Fatal(err)
		}
		second := &resident{id: foundAt(t, identity.Options{Node: nodeID(9), Insecure: true}), host: host, records: map[string]identity.TokenRecord{}}
		second.door = identity.NewDoor(identity.DoorOptions{Self: second.id, Token: first.token, Use: first.use})
		serve(t, other, second)
		_, _, err = n.join(3, identity.Options{Insecure: true}, identity.Joining{Token: token, Seeds: []string{"127.0.0.2:7946"}, Dial: host.Dial})
		wantRefusal(t, err, identity.ReasonCluster)
	})
}

func TestAContextEndsAHandshakeWithoutTLS(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *town) {
		voter, _ := insecure(t)
		near, _ := connected(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, err := voter.Client(ctx, near, identity.ProtocolPeer, "")
		wantError(t, err, "deadline")
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %s", took)
		}
	})
}
