package http1

import (
	"math"

	"grapevine/gateway/exchange"
)

// Framing says where a message's body ends (RFC 9112 §6.3).
type Framing int

// The framings of a body.
const (
	// NoBody: the message ends with its head.
	NoBody Framing = iota
	// ByLength: the body has as many bytes as Content-Length says, which may be
	// 0.
	ByLength
	// ByChunks: the body is chunked.
	ByChunks
	// ByClose: the body ends with its connection. Only a response can.
	ByClose
)

// Head is what the heads of requests and responses have in common.
type Head struct {
	// Minor is the minor version, 0 or 1.
	Minor int
	// Fields are the field lines in order, without Host (of a request),
	// Content-Length and Transfer-Encoding.
	Fields exchange.Fields
	// Trailers are the names that Trailer announces, of those that may trail.
	Trailers exchange.Fields
	// Framing and ContentLength: a length is known (and at least 0) with ByLength,
	// and with the NoBody of a response to HEAD and of a 304, where it is what
	// another response would have had. Otherwise it is -1.
	Framing       Framing
	ContentLength int64
	// KeepAlive tells whether the sender leaves the connection open for another
	// message: in HTTP/1.1 unless it says close, in HTTP/1.0 if it says keep-alive.
	KeepAlive bool
	// Upgrade is "websocket" when Connection says upgrade and Upgrade says only
	// websocket; otherwise it is empty, and an upgrade is ignored.
	Upgrade string

	count      int
	announced  int // trailers, those among them that may not trail
	hosts      int
	host       []byte
	codings    int
	codingErr  error
	saysClose  bool
	saysKeep   bool
	saysUp     bool
	upgrades   int
	websocket  bool
	expects    bool
	otherwise  bool // an expectation that is not 100-continue
	fromClient bool
}

func (h *Head) reset(fromClient bool) {
	*h = Head{Fields: h.Fields[:0], Trailers: h.Trailers[:0], ContentLength: -1, fromClient: fromClient}
}

// parseFields reads field lines from pos to the empty line. n is where the head
// ends, 0 when b ends before.
func (h *Head) parseFields(b []byte, pos int) (n int, err error) {
	for {
		if empty, known, err := emptyLine(b, pos); err != nil || !known {
			return 0, err
		} else if empty {
			return pos + 2, nil
		}
		field, next, err := parseField(b, pos)
		if err != nil || next == 0 {
			return 0, err
		}
		if h.count++; h.count > MaxFields {
			return 0, errHeadCount
		}
		keep, err := h.note(field)
		if err != nil {
			return 0, err
		}
		if keep {
			h.Fields = append(h.Fields, field)
		}
		pos = next
	}
}

// note remembers what a field says of its message, and whether it is kept.
func (h *Head) note(f exchange.Field) (keep bool, err error) {
	switch len(f.Name) {
	case len("Host"):
		if h.fromClient && exchange.EqualName(f.Name, "Host") {
			h.hosts++
			h.host = f.Value
			return false, nil
		}
	case len("Expect"):
		if h.fromClient && exchange.EqualName(f.Name, "Expect") {
			h.noteExpect(f.Value)
		}
	case len("Upgrade"):
		if exchange.EqualName(f.Name, "Upgrade") {
			h.upgrades++
			h.websocket = exchange.EqualName(f.Value, "websocket")
		} else if exchange.EqualName(f.Name, "Trailer") {
			return true, h.noteTrailer(f.Value)
		}
	case len("Connection"):
		if exchange.EqualName(f.Name, "Connection") {
			h.noteConnection(f.Value)
		}
	case len("Content-Length"):
		if exchange.EqualName(f.Name, "Content-Length") {
			return false, h.noteLength(f.Value)
		}
		if twin(f.Name, "Content-Length") {
			return false, errTwin
		}
	case len("Transfer-Encoding"):
		if exchange.EqualName(f.Name, "Transfer-Encoding") {
			h.noteCoding(f.Value)
			return false, nil
		}
		if twin(f.Name, "Transfer-Encoding") {
			return false, errTwin
		}
	}
	return true, nil
}

// twin tells whether name is to, with "_" for "-".
func twin(name []byte, to string) bool {
	for i := range name {
		if c := name[i]; lower(c) != lower(to[i]) && (c != '_' || to[i] != '-') {
			return false
		}
	}
	return true
}

func (h *Head) noteExpect(value []byte) {
	for more := true; more; {
		var element []byte
		element, value, more = nextElement(value)
		h.expects = h.expects || exchange.EqualName(element, "100-continue")
		h.otherwise = h.otherwise || !exchange.EqualName(element, "100-continue")
	}
}

func (h *Head) noteTrailer(value []byte) error {
	for more := true; more; {
		if h.announced++; h.announced > MaxFields {
			return errHeadCount // each would be a line of the head that is sent on
		}
		var name []byte
		name, value, more = nextElement(value)
		if validName(name) && exchange.MayTrail(name) {
			h.Trailers = append(h.Trailers, exchange.Field{Name: name[:len(name):len(name)]})
		}
	}
	return nil
}

func validName(name []byte) bool {
	for _, c := range name {
		if !isToken[c] {
			return false
		}
	}
	return len(name) > 0
}

func (h *Head) noteConnection(value []byte) {
	for more := true; more; {
		var option []byte
		option, value, more = nextElement(value)
		switch len(option) {
		case len("close"):
			h.saysClose = h.saysClose || exchange.EqualName(option, "close")
		case len("upgrade"):
			h.saysUp = h.saysUp || exchange.EqualName(option, "upgrade")
		case len("keep-alive"):
			h.saysKeep = h.saysKeep || exchange.EqualName(option, "keep-alive")
		}
	}
}

func (h *Head) noteLength(value []byte) error {
	if h.ContentLength >= 0 {
		return errManyLengths
	}
	n := int64(0)
	for _, c := range value {
		digit := int64(c) - '0'
		if digit < 0 || digit > 9 || n > (math.MaxInt64-digit)/10 {
			return errLength
		}
		n = n*10 + digit
	}
	if len(value) == 0 {
		return errLength
	}
	h.ContentLength = n
	return nil
}

func (h *Head) noteCoding(value []byte) {
	if h.codings++; h.codings > 1 {
		h.codingErr = errCoding
		return
	}
	chunked := false
	for more := true; more; {
		var coding []byte
		coding, value, more = nextElement(value)
		switch {
		case chunked || len(coding) == 0:
			h.codingErr = errCoding
			return
		case exchange.EqualName(coding, "chunked"):
			chunked = true
		default:
			h.codingErr = errUnknownCoding
		}
	}
}

// frame decides the framing that the fields give. without is what their absence
// means.
func (h *Head) frame(without Framing) error {
	switch {
	case h.codings > 0 && h.ContentLength >= 0:
		return errLengthAndCoding
	case h.codings > 0 && h.Minor == 0:
		return errCodingIn10
	case h.codingErr != nil:
		return h.codingErr
	case h.codings > 0:
		h.Framing = ByChunks
	case h.ContentLength >= 0:
		h.Framing = ByLength
	default:
		h.Framing = without
	}
	return nil
}

// settle decides what the connection options mean together (RFC 9112 §9.3).
func (h *Head) settle() {
	h.KeepAlive = !h.saysClose && (h.Minor == 1 || h.saysKeep)
	if h.saysUp && h.upgrades == 1 && h.websocket && h.Minor == 1 {
		h.Upgrade = "websocket"
	}
}
