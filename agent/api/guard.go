package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard refuses a request that a web page may have made the operator's browser send. A page on another site can send
// what an HTML form can send, and by rebinding its own name to 127.0.0.1 it can even read the answers; but it can't
// keep the browser from naming that site in Host, Origin and Sec-Fetch-Site.
func guard(r *http.Request) error {
	if !isLoopback(r.Host) {
		return fail(codeForbiddenHost, "Host %q: this listener answers to loopback addresses and localhost only", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, "http://"+r.Host) {
			return fail(codeForbiddenOrigin, "Origin %q: requests of other sites are refused", origin)
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		// same-site is refused too: every port of localhost is one site.
		if site != "same-origin" && site != "none" {
			return fail(codeForbiddenOrigin, "Sec-Fetch-Site %q: requests of other sites are refused", site)
		}
	}
	return nil
}

// isLoopback says whether a Host names this machine, whatever its port. A name other than localhost is no proof: its
// owner decides which address it has.
func isLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	return err == nil && addr.IsLoopback()
}
