package http1

import (
	"io"
	"math"

	"grapevine/gateway/exchange"
)

// maxChunkWaste bounds what chunk lines may cost beyond their data: else a body
// of single bytes with long extensions would be 256 times its size to read.
const maxChunkWaste = 8 << 10

// maxChunkDigits is what a size below 2^64 has at most.
const maxChunkDigits = 16

// ChunkedDecoder decodes a chunked body (RFC 9112 §7.1). The zero value is at a
// body's begin.
type ChunkedDecoder struct {
	// Trailers are complete when Decode has answered io.EOF: those fields that
	// may be forwarded. They are in the decoder's memory, until Reset.
	Trailers exchange.Fields

	state  chunkState
	left   int64 // bytes of data that this chunk still has
	digits int   // of the size
	line   int   // bytes behind the size on its line
	waste  int
	count  int    // trailer lines
	raw    []byte // the trailer section so far
	at     int    // where its current line begins
}

type chunkState uint8

const (
	atSize chunkState = iota
	inExtension
	atSizeLF
	inData
	atDataCR
	atDataLF
	atTrailers // right behind the last chunk's line
	atLastLF   // in an empty trailer section
	inTrailers
	atEnd
)

// Reset begins another body.
func (d *ChunkedDecoder) Reset() {
	*d = ChunkedDecoder{Trailers: d.Trailers[:0], raw: d.raw[:0]}
}

// Data is how many bytes of data come next before anything else does. Who reads
// them without Decode says so with Skip.
func (d *ChunkedDecoder) Data() int64 {
	if d.state != inData {
		return 0
	}
	return d.left
}

// Skip takes note of n bytes of data, at most Data, that were read elsewhere.
func (d *ChunkedDecoder) Skip(n int64) {
	if d.left -= n; d.left == 0 {
		d.state = atDataCR
	}
}

// Decode decodes src into dst until one of them is used up, the body ends
// (io.EOF), or it is malformed (*Refusal). It has read ns bytes of src and
// written nd of dst; what is behind ns at io.EOF belongs to the next message. dst
// and src may begin at the same byte. After an error d must be Reset.
func (d *ChunkedDecoder) Decode(dst, src []byte) (nd, ns int, err error) {
	for ns < len(src) {
		if d.state == inData {
			n := copy(dst[nd:], src[ns:ns+int(min(d.left, int64(len(src)-ns)))])
			if n == 0 {
				return nd, ns, nil
			}
			nd, ns = nd+n, ns+n
			d.Skip(int64(n))
			continue
		}
		if err := d.step(src[ns]); err != nil {
			return nd, ns, err
		}
		ns++
		if d.state == atEnd {
			return nd, ns, io.EOF
		}
	}
	return nd, ns, nil
}

// step takes one byte that is no data.
func (d *ChunkedDecoder) step(c byte) error {
	switch d.state {
	case atSize:
		return d.stepSize(c)
	case inExtension:
		return d.stepExtension(c)
	case atSizeLF:
		if c != '\n' {
			return errBareCR
		}
		return d.endLine()
	case atDataCR:
		if c != '\r' {
			return errChunkEnd
		}
		d.state = atDataLF
	case atDataLF:
		if c != '\n' {
			return errChunkEnd
		}
		d.state, d.left, d.digits, d.line = atSize, 0, 0, 0
	case atTrailers:
		if c == '\r' {
			d.state = atLastLF
			return nil
		}
		d.state = inTrailers
		return d.stepTrailers(c)
	case atLastLF:
		if c != '\n' {
			return errBareCR
		}
		d.state = atEnd
	case inTrailers:
		return d.stepTrailers(c)
	}
	return nil
}

// stepSize takes a byte of a size, or the one behind it. Whitespace behind a size
// is refused: servers that trim it and servers that don't see other chunks.
func (d *ChunkedDecoder) stepSize(c byte) error {
	digit := unhex(c)
	switch {
	case digit >= 0:
		if d.digits++; d.digits > maxChunkDigits || d.left > math.MaxInt64>>4 {
			return errChunkSize
		}
		d.left = d.left<<4 | int64(digit)
	case d.digits == 0:
		return errChunkSize
	case c == '\r':
		d.state = atSizeLF
	case c == '\n':
		return errBareLF
	case c == ';':
		d.state, d.line = inExtension, 1
	default:
		return errChunkSize
	}
	return nil
}

func (d *ChunkedDecoder) stepExtension(c byte) error {
	switch {
	case c == '\r':
		d.state = atSizeLF
		return nil
	case c == '\n':
		return errBareLF
	case !isText(c):
		return errChunkLine
	}
	if d.line++; d.line > MaxChunkLine {
		return errChunkLine
	}
	return nil
}

// endLine begins what the size says: data, or the end.
func (d *ChunkedDecoder) endLine() error {
	if d.left == 0 {
		d.state = atTrailers
		return nil
	}
	d.state = inData
	// A line of 16 bytes and data twice as long as the rest are free.
	d.waste += d.digits + d.line + len("\r\n\r\n") - 16
	d.waste = max(0, d.waste-int(min(2*min(d.left, maxChunkWaste), maxChunkWaste)))
	if d.waste > maxChunkWaste {
		return errChunkLine
	}
	return nil
}

// stepTrailers takes a byte of a trailer section that is not empty.
func (d *ChunkedDecoder) stepTrailers(c byte) error {
	if len(d.raw) >= MaxTrailers {
		return errTrailers
	}
	d.raw = append(d.raw, c)
	if c != '\n' {
		return nil
	}
	empty, _, err := emptyLine(d.raw, d.at)
	if err != nil || empty {
		d.state = atEnd
		return err
	}
	field, next, err := parseField(d.raw, d.at)
	if err != nil {
		return err
	}
	if d.count++; d.count > MaxFields {
		return errTrailers
	}
	if exchange.MayTrail(field.Name) {
		d.Trailers = append(d.Trailers, field)
	}
	d.at = next
	return nil
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= lower(c) && lower(c) <= 'f':
		return int(lower(c)-'a') + 10
	}
	return -1
}
