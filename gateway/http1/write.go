package http1

import (
	"errors"
	"net/http"
	"strconv"

	"grapevine/gateway/exchange"
)

// errUnwritable is a field, or a first line, that would break the message it is
// written into (RFC 9110 §5.5, RFC 9112 §11.1). Whoever made it is at fault.
var errUnwritable = errors.New("a field or the target has a byte that can't be sent")

// ChunkHeadroom is what PutChunkHead needs in front of the data, in bytes.
const ChunkHeadroom = 16 + len("\r\n")

// AppendRequestHead appends the head of r in HTTP/1.1, framed anew. A body of
// unknown length is chunked. r.Fields are written in order, without those that
// framing and the connection decide; Connection is written only to ask for
// r.Upgrade. After an error dst is unchanged.
func AppendRequestHead(dst []byte, r *exchange.Request) ([]byte, error) {
	if !validName([]byte(r.Method)) || !validTarget(r.Target) || textEnd(r.Authority, 0) < len(r.Authority) {
		return dst, errUnwritable
	}
	out := append(dst, r.Method...)
	out = append(out, ' ')
	out = append(out, r.Target...)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(out, r.Authority...)
	out = append(out, "\r\n"...)
	out, err := appendFields(out, r.Fields)
	if err != nil {
		return dst, err
	}
	if r.Upgrade != "" {
		out = append(out, "Connection: Upgrade\r\nUpgrade: "...)
		out = append(out, r.Upgrade...)
		out = append(out, "\r\n"...)
	}
	switch {
	case r.Body == nil:
		if r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
			out = append(out, "Content-Length: 0\r\n"...) // RFC 9110 §8.6
		}
	case r.ContentLength >= 0 && len(r.Trailers) == 0:
		out = appendLength(out, r.ContentLength)
	default:
		out = appendChunked(out, r.Trailers)
	}
	return append(out, "\r\n"...), nil
}

func validTarget(target []byte) bool {
	for _, c := range target {
		if !isTarget[c] {
			return false
		}
	}
	return len(target) > 0
}

// AppendResponseHead appends a head in HTTP/1.1, framed as given: length is
// written when it is at least 0 and the framing is not ByChunks. connection is
// the value of Connection, "" for none; with status 101 both are the protocol's.
// After an error dst is unchanged.
func AppendResponseHead(dst []byte, r *exchange.Response, framing Framing, length int64, connection string) ([]byte, error) {
	if r.Status < 100 || r.Status > 999 {
		return dst, errUnwritable
	}
	out := appendStatusLine(dst, r.Status)
	out, err := appendFields(out, r.Fields)
	if err != nil {
		return dst, err
	}
	if r.Status == http.StatusSwitchingProtocols {
		return append(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"...), nil
	}
	if connection != "" {
		out = append(out, "Connection: "...)
		out = append(out, connection...)
		out = append(out, "\r\n"...)
	}
	switch {
	case framing == ByChunks:
		out = appendChunked(out, r.Trailers)
	case length >= 0:
		out = appendLength(out, length)
	}
	return append(out, "\r\n"...), nil
}

func appendStatusLine(dst []byte, status int) []byte {
	if status == http.StatusOK {
		return append(dst, "HTTP/1.1 200 OK\r\n"...)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, http.StatusText(status)...)
	return append(dst, "\r\n"...)
}

func appendLength(dst []byte, length int64) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, length, 10)
	return append(dst, "\r\n"...)
}

// appendChunked appends Transfer-Encoding, and Trailer for the names that are
// known.
func appendChunked(dst []byte, trailers exchange.Fields) []byte {
	dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	for i := range trailers {
		if validName(trailers[i].Name) {
			dst = append(dst, "Trailer: "...)
			dst = append(dst, trailers[i].Name...)
			dst = append(dst, "\r\n"...)
		}
	}
	return dst
}

// appendFields appends every field but those of framing and of the connection.
func appendFields(dst []byte, fields exchange.Fields) ([]byte, error) {
	for i := range fields {
		f := &fields[i]
		if ofFraming(f.Name) {
			continue
		}
		if !validName(f.Name) || textEnd(f.Value, 0) < len(f.Value) {
			return dst, errUnwritable
		}
		dst = appendField(dst, f)
	}
	return dst, nil
}

func appendField(dst []byte, f *exchange.Field) []byte {
	dst = append(dst, f.Name...)
	dst = append(dst, ": "...)
	dst = append(dst, f.Value...)
	return append(dst, "\r\n"...)
}

// ofFraming are the fields that a writer makes itself.
func ofFraming(name []byte) bool {
	switch len(name) {
	case len("Host"):
		return exchange.EqualName(name, "Host")
	case len("Upgrade"):
		return exchange.EqualName(name, "Upgrade") || exchange.EqualName(name, "Trailer")
	case len("Connection"):
		return exchange.EqualName(name, "Connection")
	case len("Content-Length"):
		return exchange.EqualName(name, "Content-Length")
	case len("Transfer-Encoding"):
		return exchange.EqualName(name, "Transfer-Encoding")
	}
	return false
}

// PutChunkHead writes the line of a chunk of size bytes, which must be positive,
// so that it ends at b[end], and returns where it begins.
func PutChunkHead(b []byte, end, size int) (begin int) {
	const digits = "0123456789abcdef"
	b[end-1], b[end-2] = '\n', '\r'
	for begin = end - 2; size > 0; size >>= 4 {
		begin--
		b[begin] = digits[size&0xf]
	}
	return begin
}

// AppendChunk appends data as one chunk. No data appends nothing, since an empty
// chunk ends a body.
func AppendChunk(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = strconv.AppendInt(dst, int64(len(data)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// AppendLastChunk ends a chunked body. Trailers without a value were announced
// and did not come, or are empty; they, and those that can't be sent, are left
// out.
func AppendLastChunk(dst []byte, trailers exchange.Fields) []byte {
	dst = append(dst, "0\r\n"...)
	for i := range trailers {
		f := &trailers[i]
		if len(f.Value) > 0 && validName(f.Name) && textEnd(f.Value, 0) == len(f.Value) && exchange.MayTrail(f.Name) {
			dst = appendField(dst, f)
		}
	}
	return append(dst, "\r\n"...)
}
