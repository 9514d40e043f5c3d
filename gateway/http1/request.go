package http1

import (
	"bytes"
	"net/http"
)

// RequestHead is the head of a request. The zero value is ready for Parse, and
// may be used again.
type RequestHead struct {
	Head
	// Method as sent.
	Method string
	// Target is in origin form, or "*" with OPTIONS.
	Target []byte
	// Authority is the target's, if it has one, else Host. It is empty only in
	// HTTP/1.0, and valid otherwise.
	Authority []byte
	// ExpectContinue: the client waits for 100 before it sends its body. Never
	// set in HTTP/1.0 and without a body, where the expectation has no meaning.
	ExpectContinue bool
}

// Parse reads the head that b begins with. n is its length; 0 without an error
// means that b ends before it does. seen is how many bytes of b a call before
// this one had that answered 0, so that it need not look at them again; 0 is
// always right. The error is a *Refusal. What h then holds is slices of b.
func (h *RequestHead) Parse(b []byte, seen int) (n int, err error) {
	if seen == 0 || canEnd(b, seen) {
		*h = RequestHead{Head: h.Head}
		h.reset(true)
		if n, err = h.parse(b); n != 0 || err != nil {
			return n, err
		}
	}
	if len(b) > MaxRequestLine && bytes.IndexByte(b[:MaxRequestLine], '\n') < 0 {
		return 0, errLineSize
	}
	if len(b) >= MaxHead {
		return 0, errHeadSize
	}
	return 0, nil
}

func (h *RequestHead) parse(b []byte) (n int, err error) {
	pos, err := h.parseLine(b)
	if err != nil || pos == 0 {
		return 0, err
	}
	if n, err = h.parseFields(b, pos); err != nil || n == 0 {
		return 0, err
	}
	if n > MaxHead {
		return 0, errHeadSize
	}
	return n, h.finish()
}

// parseLine reads the request line; next is where the fields begin.
func (h *RequestHead) parseLine(b []byte) (next int, err error) {
	i := 0
	for i < len(b) && isToken[b[i]] {
		i++
	}
	switch {
	case i > maxMethod:
		return 0, errMethodSize
	case i == len(b):
		return 0, nil
	case i == 0 || b[i] != ' ':
		return 0, refuseMethod(b[i])
	}
	h.Method = method(b[:i])
	start := i + 1
	for i = start; i < len(b) && isTarget[b[i]]; {
		i++
	}
	switch {
	case i > MaxRequestLine:
		return 0, errLineSize
	case i == len(b):
		return 0, nil
	case i == start:
		return 0, errRequestLine
	case b[i] != ' ':
		return 0, refuseTarget(b[i])
	}
	h.Target = b[start:i:i]
	return h.parseVersion(b, i+1)
}

func refuseMethod(c byte) error {
	if c == '\r' || c == '\n' || c == ' ' {
		return errRequestLine
	}
	return errMethod
}

func refuseTarget(c byte) error {
	if c == '\r' || c == '\n' { // as in HTTP/0.9
		return errRequestLine
	}
	return errTarget
}

// parseVersion reads the version and the end of the line.
func (h *RequestHead) parseVersion(b []byte, pos int) (next int, err error) {
	const size = len("HTTP/1.1")
	end := pos
	for end < len(b) && end-pos < size && isTarget[b[end]] {
		end++
	}
	if end == len(b) {
		return 0, nil
	}
	version := b[pos:end]
	switch end, next, err := lineEnd(b, end); {
	case err != nil:
		return 0, err
	case next == 0:
		return 0, nil
	case end-pos != size || len(version) != size || string(version[:5]) != "HTTP/" || !digit(version[5]) || version[6] != '.' || !digit(version[7]):
		return 0, errRequestLine
	case version[5] != '1' || version[7] > '1':
		return 0, errVersion
	case next > MaxRequestLine:
		return 0, errLineSize
	default:
		h.Minor = int(version[7] - '0')
		return next, nil
	}
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// finish checks what only the whole head can tell.
func (h *RequestHead) finish() error {
	switch {
	case h.hosts > 1:
		return errManyHosts
	case h.hosts == 0 && h.Minor == 1:
		return errNoHost
	case h.hosts == 1 && !validAuthority(h.host):
		return errHost
	}
	if h.Method == http.MethodConnect {
		return errConnect
	}
	if err := h.splitTarget(); err != nil {
		return err
	}
	if err := h.frame(NoBody); err != nil {
		return err
	}
	if h.otherwise {
		return errExpect
	}
	h.ExpectContinue = h.expects && h.Minor == 1 && (h.Framing == ByChunks || h.ContentLength > 0)
	h.settle()
	if h.Method != http.MethodGet || h.Framing != NoBody {
		h.Upgrade = "" // RFC 6455 §4.1
	}
	return nil
}

// method is b as a string; the known ones cost no allocation.
func method(b []byte) string {
	switch string(b) {
	case "GET":
		return "GET"
	case "POST":
		return "POST"
	case "HEAD":
		return "HEAD"
	case "PUT":
		return "PUT"
	case "DELETE":
		return "DELETE"
	case "PATCH":
		return "PATCH"
	case "OPTIONS":
		return "OPTIONS"
	}
	return string(b)
}
