package identity

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
)

// tlsConn hides that it is one from http.Server, which closes a *tls.Conn whose
// protocol it doesn't know.
type tlsConn struct{ *tls.Conn }

// Server shakes hands on an accepted connection. It gives the connection to go
// on with, the protocol that it speaks, and the node on the other side, which is
// "" for one that proved nothing and wants to join. After an error, and when ctx
// ends first, conn is useless; closing it is the caller's, always.
func (i *Identity) Server(ctx context.Context, conn net.Conn, protocols []string) (shaken net.Conn, protocol, node string, err error) {
	if i.Insecure() {
		return i.plainServer(ctx, conn, protocols)
	}
	secured := tls.Server(conn, i.ServerConfig(protocols...))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, "", "", err
	}
	peer, _ := PeerOf(secured)
	return tlsConn{secured}, secured.ConnectionState().NegotiatedProtocol, peer.Node, nil
}

// Client shakes hands on a connection that this node opened, and gives the node
// on the other side. A node that isn't "" is the only one that may answer. With TLS the other side's refusal of this
// node shows only when something is read (RFC 8446 §4.4.4 lets the client
// finish first). After an error conn is useless, as with Server.
func (i *Identity) Client(ctx context.Context, conn net.Conn, protocol, node string) (shaken net.Conn, peer string, err error) {
	if i.Insecure() {
		return i.plainClient(ctx, conn, protocol, node)
	}
	secured := tls.Client(conn, i.ClientConfig(protocol, node))
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, "", clientError(err, protocol)
	}
	p, _ := PeerOf(secured)
	return tlsConn{secured}, p.Node, nil
}

// clientError explains the one alert that isn't a fault: package tls has no
// exported type for it.
func clientError(err error, protocol string) error {
	if strings.HasSuffix(err.Error(), "tls: no application protocol") {
		return fmt.Errorf("the node does not offer protocol %s: %w", protocol, err)
	}
	return err
}

// PeerOf tells who is on the other side of a connection that Server or Client
// returned, or of one that has such a connection beneath (NetConn). It is false
// for a peer that proved nothing.
func PeerOf(conn net.Conn) (Peer, bool) {
	for {
		switch c := conn.(type) {
		case *plainConn:
			return c.peer, c.peer.Node != ""
		case interface{ ConnectionState() tls.ConnectionState }:
			return peerOfState(c.ConnectionState())
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return Peer{}, false
		}
	}
}

// peerOfState trusts the state's certificates: the handshake has checked them.
func peerOfState(state tls.ConnectionState) (Peer, bool) {
	if !state.HandshakeComplete || len(state.VerifiedChains) == 0 {
		return Peer{}, false
	}
	chain := state.VerifiedChains[0]
	cluster, err := ParseCluster(chain[len(chain)-1].Raw)
	if err != nil {
		return Peer{}, false
	}
	peer, err := cluster.peer(chain[0])
	return peer, err == nil
}

type peerKey struct{}

// ConnContext is for an http.Server behind the mux: its handlers then learn the
// peer by PeerFrom.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if peer, known := PeerOf(conn); known {
		return context.WithValue(ctx, peerKey{}, peer)
	}
	return ctx
}

// PeerFrom tells who sent a request, if a server with ConnContext received it.
func PeerFrom(ctx context.Context) (Peer, bool) {
	peer, known := ctx.Value(peerKey{}).(Peer)
	return peer, known
}
