package gossip

import (
	"encoding/binary"

	"grapevine/kv"
)

// All that goes over the wire is binary, big-endian and without choices:
//
//	u8, u32, u64  1, 4, 8 bytes
//	text          1 byte length, then the content
//	rev           4 bytes epoch, 8 bytes revision
//	head          rev, 16 bytes epoch id, 32 bytes hash, 64 bytes signature

// encoder appends values to buf.
type encoder struct{ buf []byte }

func (e *encoder) u8(n uint8)   { e.buf = append(e.buf, n) }
func (e *encoder) u32(n uint32) { e.buf = binary.BigEndian.AppendUint32(e.buf, n) }
func (e *encoder) u64(n uint64) { e.buf = binary.BigEndian.AppendUint64(e.buf, n) }

// text cuts what is longer than max, at most 255 bytes.
func (e *encoder) text(s string, max int) {
	s = s[:min(len(s), max)]
	e.u8(uint8(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) rev(r kv.Rev) {
	e.u32(r.Epoch)
	e.u64(r.Rev)
}

func (e *encoder) head(h kv.Head) {
	e.rev(h.Rev)
	e.buf = append(e.buf, h.EpochID[:]...)
	e.buf = append(e.buf, h.Hash[:]...)
	e.buf = append(e.buf, h.Signature[:]...)
}

// decoder takes values from the front of rest. After the first problem it gives
// zero values only, so that callers look at problem once, at the end.
type decoder struct {
	rest    []byte
	problem string
}

func (d *decoder) fail(problem string) {
	if d.problem == "" {
		d.problem = problem
	}
	d.rest = nil
}

// take returns the next n bytes, or n zero bytes if they are not there. Only
// widths up to 255 are asked for.
func (d *decoder) take(n int) []byte {
	if len(d.rest) < n {
		d.fail("is cut short")
		return make([]byte, n)
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

// text refuses what is longer than max bytes.
func (d *decoder) text(max int) string {
	n := int(d.u8())
	if n > max {
		d.fail("has a text that is too long")
		return ""
	}
	return string(d.take(n))
}

func (d *decoder) rev() kv.Rev { return kv.Rev{Epoch: d.u32(), Rev: d.u64()} }

func (d *decoder) head() kv.Head {
	return kv.Head{
		Rev:       d.rev(),
		EpochID:   [16]byte(d.take(16)),
		Hash:      kv.Hash(d.take(32)),
		Signature: [64]byte(d.take(64)),
	}
}

// end reports the first problem, or that bytes are left over.
func (d *decoder) end() string {
	if d.problem == "" && len(d.rest) > 0 {
		d.fail("has bytes after its end")
	}
	return d.problem
}
