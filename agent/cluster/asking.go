package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httputil"

	"grapevine/agent/api"
	"grapevine/agent/identity"
)

// Ask: see api.Cluster.
func (n *Node) Ask(node string) (http.Handler, error) {
	m, err := n.in()
	if err != nil {
		return nil, err
	}
	member, err := api.FindMember(m.list(), node)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", member.Address
			r.Out.Host = member.Address
		},
		Transport:     m.calls.http.Transport,
		FlushInterval: -1, // watches are for people who look on
		ErrorLog:      discardLog,
		ErrorHandler:  api.RefuseAsked,
	}, nil
}

// Certificates: see api.Cluster.
func (n *Node) Certificates() ([]api.Certificate, error) {
	m, err := n.in()
	if err != nil {
		return nil, err
	}
	if m.id.Insecure() {
		return nil, nil
	}
	ca, err := identity.Inspect(m.id.Cluster().Certificate())
	if err != nil {
		return nil, err
	}
	return []api.Certificate{
		shownCertificate(ca, m.id.Cluster().CertificatePEM()),
		shownCertificate(m.id.Certificate(), m.id.CertificatePEM()),
	}, nil
}

func shownCertificate(c identity.Certificate, text []byte) api.Certificate {
	shown := api.Certificate{
		Kind: c.Kind, Names: c.Names, Role: string(c.Role), NotBefore: c.NotBefore, NotAfter: c.NotAfter,
		Fingerprint: c.Fingerprint, PEM: string(text),
	}
	if block, _ := pem.Decode(text); block != nil {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil { // identity has parsed it before
			shown.Subject, shown.Serial = cert.Subject.String(), cert.SerialNumber.Text(16)
		}
	}
	return shown
}
