package routing

import (
	"bytes"
	"strings"
)

// Hostname is the host of an authority as rules compare it: without port and
// trailing dot, in lower case. An IPv6 address keeps its brackets.
func Hostname(authority []byte) string {
	name := authority
	if end := bytes.LastIndexByte(name, ']'); end >= 0 {
		name = name[:end+1]
	} else if colon := bytes.LastIndexByte(name, ':'); colon >= 0 {
		name = name[:colon]
	}
	return strings.ToLower(string(bytes.TrimSuffix(name, []byte("."))))
}
