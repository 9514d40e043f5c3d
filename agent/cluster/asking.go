package cluster

import (
	"net/http"
	"net/http/httputil"
	"slices"

	"grapevine/agent/api"
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
	return api.ReadCertificates(slices.Concat(m.id.Cluster().CertificatePEM(), m.id.CertificatePEM()))
}
