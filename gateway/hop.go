package gateway

import (
	"bytes"

	"grapevine/gateway/exchange"
)

// hopByHop are the fields that end at this hop in either direction (RFC 9110
// §7.6.1), with the non-standard ones that clients and servers still send.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "TE", "Transfer-Encoding",
	"Upgrade", "Trailer", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info", "HTTP2-Settings",
}

// removeHopByHop takes hop-by-hop fields, and those that Connection names, out
// of the request and of informational responses. Those of a backend's response go
// when it comes (see cluster.attempt): before a route sets fields of its own,
// which the backend must not be able to name. `TE: trailers` is said again for a client
// that said it: gRPC asks for it end to end.
func removeHopByHop(next exchange.Handler) exchange.Handler {
	return exchange.HandlerFunc(func(x *exchange.Exchange) {
		trailers := saysTrailers(x.Request.Fields)
		dropHopByHop(&x.Request.Fields)
		// Answered by the front's server, which reads the body.
		x.Request.Fields.Del("Expect")
		if trailers {
			x.Request.Fields.Add("TE", []byte("trailers"))
		}
		if relay := x.Interim; relay != nil {
			x.Interim = func(status int, fields exchange.Fields) {
				dropHopByHop(&fields)
				relay(status, fields)
			}
		}
		next.Serve(x)
	})
}

func dropHopByHop(fields *exchange.Fields) {
	var named []string
	for value := range fields.Values("Connection") {
		for name := range bytes.SplitSeq(value, []byte(",")) {
			named = append(named, string(bytes.TrimSpace(name)))
		}
	}
	fields.DelFunc(func(name []byte) bool {
		return oneOf(name, hopByHop) || oneOf(name, named)
	})
}

func saysTrailers(fields exchange.Fields) bool {
	for value := range fields.Values("TE") {
		for coding := range bytes.SplitSeq(value, []byte(",")) {
			if exchange.EqualName(bytes.TrimSpace(coding), "trailers") {
				return true
			}
		}
	}
	return false
}

func oneOf(name []byte, names []string) bool {
	for _, n := range names {
		if exchange.EqualName(name, n) {
			return true
		}
	}
	return false
}
