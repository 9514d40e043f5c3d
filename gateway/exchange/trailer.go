package exchange

// noTrailers are the fields that mean nothing, or too much, behind a body: those
// of framing, routing, authentication and content (RFC 9110 §6.5.1), and those
// that the gateway itself vouches for in the head.
var noTrailers = []string{
	"Connection", "Content-Length", "Host", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
	"Authorization", "Cookie", "Proxy-Authenticate", "Proxy-Authorization", "Set-Cookie", "WWW-Authenticate",
	"Cache-Control", "Content-Encoding", "Content-Range", "Content-Type", "Expect", "Location", "Max-Forwards", "Range",
	"Forwarded", "Via", "X-Correlation-Id", "X-Forwarded-For", "X-Gateway-Attempt", "X-Forwarded-Host", "X-Forwarded-Port",
	"X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip",
}

// MayTrail tells whether a field may be forwarded as a trailer. "_" counts as
// "-": backends that merge trailers may read them as the same.
func MayTrail(name []byte) bool {
	for _, no := range noTrailers {
		if SameField(name, no) {
			return false
		}
	}
	return true
}
