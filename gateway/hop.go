package gateway

import (
	"bytes"

	"grapevine/gateway/exchange"
)

// removeHopByHop takes what ends at this hop out of the request. What a backend
// says goes when it comes: informational responses in Exchange.RelayInterim, the
// response in cluster.attempt, before a route sets fields of its own, which the
// backend must not be able to name. `TE: trailers` is said again for a client that
// said it: gRPC asks for it end to end.
func removeHopByHop(x *exchange.Exchange) {
	trailers := saysTrailers(x.Request.Fields)
	x.Request.Fields.DropHopByHop()
	// Answered by the front's server, which reads the body.
	x.Request.Fields.Del("Expect")
	if trailers {
		x.Request.Fields.Add("TE", valueTrailers)
	}
}

var valueTrailers = []byte("trailers")

func saysTrailers(fields exchange.Fields) bool {
	for i := range fields {
		if !exchange.EqualName(fields[i].Name, "TE") {
			continue
		}
		for coding := range bytes.SplitSeq(fields[i].Value, []byte(",")) {
			if exchange.EqualName(bytes.TrimSpace(coding), "trailers") {
				return true
			}
		}
	}
	return false
}
