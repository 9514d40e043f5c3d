package gateway

import (
	"bytes"
	"fmt"

	"grapevine/gateway/exchange"
)

const (
	// pseudonym is our name in Via (RFC 9110 §7.6.3), the same on every node, so
	// that a loop through several is found too.
	pseudonym = "grapevine"
	// maxHops is how many gateways of ours a request may pass. A chain of a few
	// is meant (a site's edge in front of a cluster's); a loop has no end.
	maxHops = 5
)

// endLoop ends a request that goes in circles, and tells whether it did: without
// it, one request to a route whose backend is the gateway itself would open
// connections until there are none.
func endLoop(x *exchange.Exchange) bool {
	if hops(x.Request.Fields) < maxHops {
		return false
	}
	x.Fail(exchange.Problem{
		Status: 508, Code: "loop_detected",
		Detail: fmt.Sprintf("The request has passed %d gateways: a route leads back to the gateway.", maxHops),
	})
	return true
}

// stampVia says that the request passed here.
func stampVia(x *exchange.Exchange) {
	req := &x.Request
	via := x.Scratch()
	for passed := range req.Fields.Values("Via") {
		via = append(append(via, passed...), ", "...)
	}
	via = append(append(append(via, req.Protocol...), ' '), pseudonym...)
	req.Fields.Set("Via", x.Keep(via))
}

// hops counts our entries in Via, each of which is "protocol name".
func hops(fields exchange.Fields) (n int) {
	for value := range fields.Values("Via") {
		for entry := range bytes.SplitSeq(value, []byte(",")) {
			words := bytes.Fields(entry)
			if len(words) > 1 && exchange.EqualName(words[1], pseudonym) {
				n++
			}
		}
	}
	return n
}
