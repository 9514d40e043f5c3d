package routing

import (
	"bytes"
	"fmt"
	"net/netip"
)

// HostError is an authority that names no host.
type HostError struct{ Authority string }

func (e *HostError) Error() string {
	return fmt.Sprintf("host %q is neither a name nor an address, with or without a port", e.Authority)
}

// Hostname is the host of an authority as rules compare it: without port and
// trailing dot, in lower case, an IPv6 address in brackets and in its shortest
// form. An empty authority has an empty host. The result shares authority's
// memory, or buffer's when it has to be changed. The error is a *HostError:
// servers would make different hosts of such an authority.
func Hostname(authority, buffer []byte) ([]byte, error) {
	if len(authority) > 0 && authority[0] == '[' {
		return addressHost(authority)
	}
	name := authority
	if colon := bytes.IndexByte(name, ':'); colon >= 0 {
		if !isPort(name[colon+1:]) {
			return nil, &HostError{string(authority)}
		}
		name = name[:colon]
	}
	name = bytes.TrimSuffix(name, []byte("."))
	if len(name) == 0 && len(authority) > 0 || !isName(name) {
		return nil, &HostError{string(authority)}
	}
	return lower(name, buffer), nil
}

func addressHost(authority []byte) ([]byte, error) {
	end := bytes.IndexByte(authority, ']')
	if end < 0 || end+1 < len(authority) && (authority[end+1] != ':' || !isPort(authority[end+2:])) {
		return nil, &HostError{string(authority)}
	}
	addr, err := netip.ParseAddr(string(authority[1:end]))
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return nil, &HostError{string(authority)}
	}
	return []byte("[" + addr.String() + "]"), nil
}

// isPort also takes none, as RFC 3986 §3.2.3 does.
func isPort(port []byte) bool {
	for _, c := range port {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(port) <= 5
}

// isName takes labels of letters, digits, "-" and "_", none of them empty.
func isName(name []byte) bool {
	before := byte('.')
	for _, c := range name {
		if !hostByte[c] || c == '.' && before == '.' {
			return false
		}
		before = c
	}
	return before != '.' || len(name) == 0
}

var hostByte = func() (is [256]bool) {
	for c := range 256 {
		is[c] = c != '~' && unreserved(byte(c))
	}
	return is
}()

// lower folds ASCII letters, in buffer if there are upper-case ones.
func lower(text, buffer []byte) []byte {
	for i, c := range text {
		if c < 'A' || c > 'Z' {
			continue
		}
		folded := append(buffer[:0], text...)
		for ; i < len(folded); i++ {
			if c := folded[i]; 'A' <= c && c <= 'Z' {
				folded[i] += 'a' - 'A'
			}
		}
		return folded
	}
	return text
}
