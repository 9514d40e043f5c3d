package http1

import (
	"encoding/binary"
	"math/bits"
)

// isToken are the bytes of a token, tchar in RFC 9110 §5.6.2.
var isToken = [256]bool{}

// isTarget are the bytes that a request target may have: visible ASCII, and no
// "#", since a fragment is never sent (RFC 9112 §3.2, RFC 3986 §3.5).
var isTarget = [256]bool{}

// isHostName are the bytes of a registered name or an IPv4 address. The grammar
// of RFC 3986 §3.2.2 has escapes and sub-delims as well, which no name of the DNS
// has and which servers read in different ways.
var isHostName = [256]bool{}

func init() {
	const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for _, c := range []byte("!#$%&'*+-.^_`|~" + alphanumeric) {
		isToken[c] = true
	}
	for _, c := range []byte("-._~" + alphanumeric) {
		isHostName[c] = true
	}
	for c := 0x21; c <= 0x7e; c++ {
		isTarget[c] = c != '#'
	}
}

// isText tells whether a field value or a reason phrase may have c: visible
// bytes, spaces, tabs and obs-text (RFC 9110 §5.5).
func isText(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// textEnd is the index of the first byte from i on that isText refuses, or len(b).
// It looks at eight bytes at a time.
func textEnd(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		word := binary.LittleEndian.Uint64(b[i:])
		// A byte's high bit is set in low when it is below 0x20, and in del when
		// it is 0x7f. A borrow can mark a byte above a marked one, never below
		// it, so the first mark is true.
		low := (word - ones*0x20) & ^word & highs
		x := word ^ ones*0x7f
		del := (x - ones) & ^x & highs
		if marks := low | del; marks != 0 {
			i += bits.TrailingZeros64(marks) / 8
			if b[i] == '\t' {
				return textEndSlow(b, i)
			}
			return i
		}
	}
	return textEndSlow(b, i)
}

func textEndSlow(b []byte, i int) int {
	for i < len(b) && isText(b[i]) {
		i++
	}
	return i
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// trim takes optional whitespace (RFC 9110 §5.6.3) off both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// nextElement cuts the first element off a comma-separated list, without
// whitespace. more is false when it was the last.
func nextElement(list []byte) (element, rest []byte, more bool) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:], true
		}
	}
	return trim(list), nil, false
}
