package consensus

import (
	"encoding/binary"
	"errors"
	"time"

	"grapevine/kv"
)

// Calls between nodes have fixed widths and no choices, as the records of kv do.
// Numbers are big-endian.
//
//	u8, u32, u64   1, 4, 8 bytes
//	flag           1 byte, 0 or 1
//	bytes, string  4 bytes length, then the content
//	rev            4 bytes epoch, 8 bytes revision
//	time           8 bytes seconds since 1970 (signed), 4 bytes nanoseconds, UTC

// encoder appends values to buf.
type encoder struct{ buf []byte }

func (e *encoder) u8(n byte)    { e.buf = append(e.buf, n) }
func (e *encoder) u32(n uint32) { e.buf = binary.BigEndian.AppendUint32(e.buf, n) }
func (e *encoder) u64(n uint64) { e.buf = binary.BigEndian.AppendUint64(e.buf, n) }

func (e *encoder) flag(set bool) {
	if set {
		e.u8(1)
		return
	}
	e.u8(0)
}

func (e *encoder) bytes(b []byte) {
	e.u32(uint32(len(b)))
	e.buf = append(e.buf, b...)
}

func (e *encoder) string(s string) {
	e.u32(uint32(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) rev(r kv.Rev) {
	e.u32(r.Epoch)
	e.u64(r.Rev)
}

func (e *encoder) time(t time.Time) {
	e.u64(uint64(t.Unix()))
	e.u32(uint32(t.Nanosecond()))
}

// decoder takes values from the front of rest. After the first problem it only
// gives zero values, so that callers look at err once, at the end.
type decoder struct {
	rest []byte
	err  error
}

var (
	errShort = errors.New("is cut short")
	errLong  = errors.New("has bytes after its end")
	errFlag  = errors.New("has a flag that is neither 0 nor 1")
	errTime  = errors.New("has a time with too many nanoseconds")
	errForm  = errors.New("is of a form that this program does not know")
)

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

// take returns the next n bytes, or as many zero bytes when they are not there:
// only small widths are asked for past the end.
func (d *decoder) take(n int) []byte {
	if len(d.rest) < n {
		d.fail(errShort)
		return make([]byte, n)
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) u8() byte    { return d.take(1)[0] }
func (d *decoder) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

func (d *decoder) flag() bool {
	b := d.u8()
	if b > 1 {
		d.fail(errFlag)
	}
	return b == 1
}

// bytes returns a part of what is decoded.
func (d *decoder) bytes() []byte {
	n := d.u32()
	if uint64(n) > uint64(len(d.rest)) {
		d.fail(errShort)
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) rev() kv.Rev { return kv.Rev{Epoch: d.u32(), Rev: d.u64()} }

func (d *decoder) time() time.Time {
	seconds, nanoseconds := int64(d.u64()), d.u32()
	if nanoseconds > 999_999_999 {
		d.fail(errTime)
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds)).UTC()
}

// count reads how many items follow, each of at least size bytes, so that a wild
// count is refused before it is allocated for.
func (d *decoder) count(size int) int {
	n := d.u32()
	if uint64(n) > uint64(len(d.rest)/size) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

// end reports the first problem, or that bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail(errLong)
	}
	return d.err
}
