package http1

import (
	"errors"
	"io"
	"net/http"
)

const (
	// maxResponseHead bounds a response's head. It is larger than a request's:
	// applications set many cookies and long policies.
	maxResponseHead = 256 << 10
	// maxInterim bounds the informational responses to a request. Nobody needs
	// more than a few; a destination that sends them for ever would hold the
	// exchange until its timeout.
	maxInterim = 10
)

// The faults of a destination that the parser doesn't see.
var (
	errInterimFlood  = errors.New("more than 10 informational responses")
	errResponseHead  = errors.New("the response's head is larger than 256 KiB")
	errSwitched      = errors.New("switched to a protocol that was not asked for")
	errSwitchedEarly = errors.New("switched protocols before the request had ended")
)

// awaitHead relays informational responses and takes the final head.
func (a *attempt) awaitHead() error {
	again := true // no informational response says otherwise, or what it must not
	for range maxInterim + 1 {
		n, err := a.readHead()
		if err != nil {
			return err
		}
		a.from += n
		again = again && a.head.KeepAlive
		if a.head.KeepAlive = again; a.head.Status >= 200 || a.head.Status == http.StatusSwitchingProtocols {
			return a.accept()
		}
		a.x.RelayInterim(a.head.Status, a.head.Fields)
	}
	return errInterimFlood
}

// readHead reads the next head, whose length is n. It stays in memory, at from.
func (a *attempt) readHead() (n int, err error) {
	for seen := 0; ; {
		b := a.buf[a.from:a.to]
		if len(b) > 0 {
			if n, err = a.head.parseUpTo(maxResponseHead, b, seen, a.x.Request.Method); n > 0 || err != nil {
				return n, err
			}
		}
		seen = len(b)
		if err := a.fill(); err != nil {
			return 0, err
		}
	}
}

// fill reads more behind what is in memory, for which it makes room.
func (a *attempt) fill() error {
	switch {
	case a.from == a.to:
		a.from, a.to = 0, 0
	case a.to == len(a.buf) && a.from > 0:
		a.to = copy(a.buf, a.buf[a.from:a.to])
		a.from = 0
	case a.to == len(a.buf):
		a.buf = append(a.buf, make([]byte, len(a.buf))...)
	}
	n, err := a.link.read(a.buf[a.to:])
	if n > 0 {
		a.to += n
		a.answered = true
		return nil
	}
	if err == io.EOF && a.to > a.from {
		return io.ErrUnexpectedEOF
	}
	return err
}

// parseUpTo is Parse with a bound of its own.
func (h *ResponseHead) parseUpTo(most int, b []byte, seen int, method string) (n int, err error) {
	if seen == 0 || canEnd(b, seen) {
		h.reset(false)
		if n, err = h.parseWhole(b, method); err != nil {
			return 0, err
		}
	}
	if n > most || n == 0 && len(b) >= most {
		return 0, errResponseHead
	}
	return n, nil
}

func (h *ResponseHead) parseWhole(b []byte, method string) (n int, err error) {
	pos, err := h.parseLine(b)
	if err != nil || pos == 0 {
		return 0, err
	}
	if n, err = h.parseFields(b, pos); err != nil || n == 0 {
		return 0, err
	}
	return n, h.finish(method)
}
