package gateway

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"grapevine/gateway/exchange"
)

// The forwarding fields. From a peer that is not trusted they are removed in
// every spelling before ours are set.
const (
	forwardedFor   = "X-Forwarded-For"
	forwardedProto = "X-Forwarded-Proto"
	forwardedHost  = "X-Forwarded-Host"
	forwardedPort  = "X-Forwarded-Port"
	realIP         = "X-Real-Ip"
	forwarded      = "Forwarded" // RFC 7239
)

var forwardingFields = []string{forwardedFor, forwardedProto, forwardedHost, forwardedPort, realIP, forwarded, "X-Forwarded-Prefix", "X-Forwarded-Server"}

// setForwarded decides who the client is and tells the backend.
func (t *Table) setForwarded(x *exchange.Exchange) {
	req := &x.Request
	if t.trust.includes(req.Peer.Addr()) {
		t.believe(req)
		req.Fields.DelFunc(underscoreTwin)
	} else {
		req.Fields.DelFunc(forwardingField)
	}
	t.stampForwarded(x)
}

// believe takes client and scheme from a trusted peer's fields. The client is
// the last address that no trusted proxy has: what stands before it is only
// what that client said.
func (t *Table) believe(req *exchange.Request) {
	chain := addresses(req.Fields.Values(forwardedFor))
	for _, address := range slices.Backward(chain) {
		req.Client = address
		if !t.trust.includes(address) {
			break
		}
	}
	switch proto := strings.ToLower(string(req.Fields.Get(forwardedProto))); proto {
	case "http", "https":
		req.Scheme = proto
	}
}

// addresses reads the list up to the first thing from the right that is no
// address, since nothing before that can be trusted.
func addresses(values func(func([]byte) bool)) []netip.Addr {
	var list [][]byte
	for value := range values {
		list = append(list, bytes.Split(value, []byte(","))...)
	}
	var chain []netip.Addr
	for _, text := range slices.Backward(list) {
		address, err := netip.ParseAddr(string(bytes.TrimSpace(text)))
		if err != nil {
			break
		}
		chain = append(chain, address.Unmap())
	}
	slices.Reverse(chain)
	return chain
}

// stampForwarded sets our own fields; what is left of a trusted proxy's is
// kept, and the list of addresses goes on.
func (t *Table) stampForwarded(x *exchange.Exchange) {
	req := &x.Request
	if peer := req.Peer.Addr(); peer.IsValid() {
		list := x.Scratch()
		for before := range req.Fields.Values(forwardedFor) {
			list = append(append(list, before...), ", "...)
		}
		req.Fields.Set(forwardedFor, x.Keep(peer.AppendTo(list)))
		req.Fields.Set(realIP, x.Keep(req.Client.AppendTo(x.Scratch())))
	}
	req.Fields.Set(forwardedProto, protoOf(req.Scheme))
	if !req.Fields.Has(forwardedHost) {
		req.Fields.Add(forwardedHost, req.Authority)
	}
	if !req.Fields.Has(forwardedPort) {
		req.Fields.Add(forwardedPort, portOf(req.Authority, req.Scheme))
	}
}

// What is said often; nobody may change these bytes.
var (
	protoHTTP, protoHTTPS = []byte("http"), []byte("https")
	portHTTP, portHTTPS   = []byte("80"), []byte("443")
)

func protoOf(scheme string) []byte {
	if scheme == "https" {
		return protoHTTPS
	}
	return protoHTTP
}

func portOf(authority []byte, scheme string) []byte {
	colon := bytes.LastIndexByte(authority, ':')
	if colon > bytes.LastIndexByte(authority, ']') && colon+1 < len(authority) {
		return authority[colon+1:]
	}
	if scheme == "https" {
		return portHTTPS
	}
	return portHTTP
}

// forwardingField tells whether name is a forwarding field, or becomes one in
// a backend that reads "_" and "-" as the same.
func forwardingField(name []byte) bool {
	if len(name) == 0 || name[0]|0x20 != 'x' && name[0]|0x20 != 'f' { // most names: all of ours begin so
		return false
	}
	for _, field := range forwardingFields {
		if exchange.SameField(name, field) {
			return true
		}
	}
	return false
}

func underscoreTwin(name []byte) bool {
	return bytes.IndexByte(name, '_') >= 0 && forwardingField(name)
}
