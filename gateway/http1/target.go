package http1

import (
	"bytes"
	"net/http"
	"net/netip"

	"grapevine/gateway/exchange"
)

// splitTarget brings the target into origin form and decides the authority (RFC
// 9112 §3.2).
func (h *RequestHead) splitTarget() error {
	h.Authority = h.host
	switch {
	case h.Target[0] == '/':
		return nil
	case string(h.Target) == "*" && h.Method == http.MethodOptions:
		return nil
	}
	scheme, rest, absolute := bytes.Cut(h.Target, []byte("://"))
	if !absolute || !exchange.EqualName(scheme, "http") && !exchange.EqualName(scheme, "https") {
		return errTargetForm
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end:end]
	switch {
	case !validAuthority(authority):
		return errHost
	case h.hosts > 0 && !bytes.EqualFold(h.host, authority):
		return errHostDiffers
	}
	h.Authority, h.Target = authority, h.originForm(rest[end:])
	return nil
}

// originForm is the target for what follows the authority. An empty path is "/"
// (RFC 9112 §3.2.1), or "*" where OPTIONS asks about the server (§3.2.4).
func (h *RequestHead) originForm(rest []byte) []byte {
	switch {
	case len(rest) == 0 && h.Method == http.MethodOptions:
		return []byte("*")
	case len(rest) == 0 || rest[0] == '?':
		return append([]byte("/"), rest...)
	}
	return rest
}

// validAuthority tells whether b is a name or an address with an optional port,
// and without user information, which http URIs must not have (RFC 9110 §4.2.4).
func validAuthority(b []byte) bool {
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		return end > 0 && validIPv6(b[1:end]) && (end+1 == len(b) || validPort(b[end+1:]))
	}
	i := 0
	for i < len(b) && isHostName[b[i]] {
		i++
	}
	return i > 0 && i <= 255 && (i == len(b) || validPort(b[i:]))
}

// validIPv6 leaves out zones, which have no meaning off their host (RFC 6874 §4).
func validIPv6(b []byte) bool {
	if bytes.IndexByte(b, '%') >= 0 {
		return false
	}
	address, err := netip.ParseAddr(string(b))
	return err == nil && address.Is6()
}

// validPort takes ":" and a number from 0 to 65535. The empty port of RFC 3986
// §3.2.3 is refused: servers differ on what it compares equal to.
func validPort(b []byte) bool {
	if len(b) < 2 || len(b) > len(":65535") || b[0] != ':' {
		return false
	}
	port := 0
	for _, c := range b[1:] {
		if !digit(c) {
			return false
		}
		port = port*10 + int(c-'0')
	}
	return port <= 65535
}
