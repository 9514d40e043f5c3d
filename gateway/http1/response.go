package http1

import "net/http"

// ResponseHead is the head of a response. The zero value is ready for Parse, and
// may be used again.
type ResponseHead struct {
	Head
	// Status is from 100 to 599. What the phrase said is dropped.
	Status int
}

// Parse reads the head that b begins with, of a response to a request with this
// method; seen, n and the error are as in RequestHead.Parse. A final head follows
// those with a status below 200, except 101.
func (h *ResponseHead) Parse(b []byte, seen int, method string) (n int, err error) {
	if seen == 0 || canEnd(b, seen) {
		h.reset(false)
		if n, err = h.parse(b, method); n != 0 || err != nil {
			return n, err
		}
	}
	if len(b) >= MaxHead {
		return 0, errHeadSize
	}
	return 0, nil
}

func (h *ResponseHead) parse(b []byte, method string) (n int, err error) {
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
	return n, h.finish(method)
}

// parseLine reads the status line (RFC 9112 §4). The space behind the status is
// missing from servers that send no phrase; nothing depends on it.
func (h *ResponseHead) parseLine(b []byte) (next int, err error) {
	const size = len("HTTP/1.1 200")
	for i := range min(len(b), size) {
		if !validStatusByte(i, b[i]) {
			return 0, errStatusLine
		}
	}
	if len(b) <= size {
		return 0, nil
	}
	if b[size] != ' ' && b[size] != '\r' {
		return 0, errStatusLine
	}
	h.Minor = int(b[7] - '0')
	h.Status = int(b[9]-'0')*100 + int(b[10]-'0')*10 + int(b[11]-'0')
	_, next, err = lineEnd(b, size)
	return next, err
}

// validStatusByte checks one byte of "HTTP/1.x NNN".
func validStatusByte(i int, c byte) bool {
	const prefix = "HTTP/1.x "
	switch {
	case i == 7:
		return c == '0' || c == '1'
	case i < len(prefix):
		return c == prefix[i]
	case i == len(prefix):
		return '1' <= c && c <= '5'
	}
	return digit(c)
}

// finish checks what only the whole head can tell (RFC 9112 §6.3).
func (h *ResponseHead) finish(method string) error {
	if err := h.frame(ByClose); err != nil {
		return err
	}
	h.settle()
	switch {
	case h.Status < 200 || h.Status == http.StatusNoContent:
		// It ends with its head whatever it says; a sender that says otherwise
		// may think that it has a body (RFC 9112 §6.1, RFC 9110 §8.6).
		h.KeepAlive = h.KeepAlive && h.Framing != ByChunks && h.ContentLength <= 0
		h.Framing, h.ContentLength = NoBody, -1
	case h.Status == http.StatusNotModified || method == http.MethodHead:
		h.Framing = NoBody
	case h.Framing == ByClose:
		h.KeepAlive = false
	}
	if h.Status != http.StatusSwitchingProtocols {
		h.Upgrade = ""
	}
	return nil
}
