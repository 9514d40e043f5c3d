package action

import (
	"bytes"

	"grapevine/gateway/exchange"
)

// matchesNone tells whether If-None-Match is there and names etag, so that the
// client has it (RFC 9110 §13.1.2): "*", or a list in which the comparison is
// weak. What follows a mistake in the list is not read.
func matchesNone(fields exchange.Fields, etag []byte) bool {
	for line := range fields.Values("If-None-Match") {
		if list := bytes.Trim(line, " \t"); string(list) == "*" || listsTag(list, etag) {
			return true
		}
	}
	return false
}

// listsTag reads tags one by one: a comma may be part of one.
func listsTag(list, etag []byte) bool {
	for {
		list = bytes.TrimLeft(list, " \t,")
		list = bytes.TrimPrefix(list, []byte("W/"))
		if len(list) == 0 || list[0] != '"' {
			return false
		}
		end := bytes.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if tag := list[:end+2]; bytes.Equal(tag, etag) {
			return true
		}
		if list = bytes.TrimLeft(list[end+2:], " \t"); len(list) > 0 && list[0] != ',' {
			return false
		}
	}
}
