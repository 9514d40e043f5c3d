package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// ServerConfig is for accepted connections, which may speak any of protocols.
// Who shows a certificate must be a member that is not revoked and may speak the
// protocol; who shows none may only join.
func (i *Identity) ServerConfig(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return i.now.Load().certificate(), nil },
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      i.cluster.roots,
		// A resumed session would outlive a revocation.
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := i.check(state)
			return err
		},
	}
}

// ClientConfig is for connections to members that speak protocol. A node that
// isn't "" is the only one that may answer.
func (i *Identity) ClientConfig(protocol, node string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{protocol},
		ServerName: i.cluster.name(),
		RootCAs:    i.cluster.roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return i.now.Load().certificate(), nil
		},
		VerifyConnection: func(state tls.ConnectionState) error {
			peer, err := i.check(state)
			if err == nil {
				err = expect(peer, node)
			}
			return err
		},
	}
}

// check decides about a peer whose certificate, if it shows one, package tls has
// traced to the cluster's CA.
func (i *Identity) check(state tls.ConnectionState) (Peer, error) {
	if state.NegotiatedProtocol == "" {
		return Peer{}, errors.New("the peer names no protocol (ALPN)")
	}
	var peer Peer
	if len(state.PeerCertificates) > 0 {
		var err error
		if peer, err = i.cluster.peer(state.PeerCertificates[0]); err != nil {
			return Peer{}, err
		}
	}
	return peer, i.admit(state.NegotiatedProtocol, peer)
}

// admit decides whether a peer may speak protocol with this node.
func (i *Identity) admit(protocol string, peer Peer) error {
	if peer.Node != "" && i.denied(peer.Node) {
		return fmt.Errorf("node %s was revoked", peer.Node)
	}
	return maySpeak(protocol, peer)
}

// expect says that another node than the expected one answers.
func expect(peer Peer, node string) error {
	if node != "" && peer.Node != node {
		return fmt.Errorf("node %s answers, and %s was expected", peer.Node, node)
	}
	return nil
}
