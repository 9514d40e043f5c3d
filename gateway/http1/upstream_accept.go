package http1

import (
	"net/http"
)

// accept makes the final head the exchange's response.
func (a *attempt) accept() error {
	if a.head.Status == http.StatusSwitchingProtocols {
		return a.acceptSwitch()
	}
	h := &a.head
	a.keep = h.KeepAlive && a.writeErr == nil
	a.body, a.left = h.Framing, h.ContentLength
	if h.Status == http.StatusResetContent {
		a.acceptReset()
	}
	a.settleSender()
	if !a.link.rest() || !a.link.reset() {
		return errLinkEnded
	}
	a.bodyAt = a.from
	a.fillResponse()
	if a.body == NoBody || a.body == ByLength && a.left <= int64(a.to-a.from) {
		a.detach()
	}
	return nil
}

// acceptReset: a 205 has no content, which a length of 0 or an empty chunked body
// can say (RFC 9110 §15.3.6). What it has all the same is not read.
func (a *attempt) acceptReset() {
	a.keep = a.keep && a.body == ByLength && a.left == 0
	a.body, a.head.ContentLength = NoBody, 0
}

// settleSender decides what becomes of a request whose response has come before
// its end. An error is due to the client at once, and the rest of no use (RFC 9112
// §9.5); another answer may come from what reads on, an echo for one.
func (a *attempt) settleSender() {
	if !a.sender.headCame() || a.head.Status < 400 {
		return
	}
	a.keep = false
	if a.unwatch == nil || a.unwatch() { // to abandon the body may end the context
		a.unwatch = nil
		a.sender.abandon()
	}
}

// fillResponse hands the head over.
func (a *attempt) fillResponse() {
	r, h := &a.x.Response, &a.head
	r.Status = h.Status
	r.Fields, h.Fields = h.Fields, nil
	r.ContentLength = h.ContentLength
	if r.Trailers = r.Trailers[:0]; a.body == ByChunks {
		r.Trailers = append(r.Trailers, h.Trailers...)
	}
	r.Body, r.Tunnel = a, nil
}

// detach gives the link back while the rest of the body is in memory.
func (a *attempt) detach() {
	rest := int64(a.to - a.from)
	if a.body == NoBody {
		a.left = 0
	}
	a.keep = a.keep && rest == a.left // else something followed the response
	a.to = a.from
	a.release()
	a.to = a.from + int(a.left)
	a.body = ByLength
}
