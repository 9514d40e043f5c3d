package kv

import (
	"encoding/binary"
	"time"
)

// The binary form has fixed widths and no choices, so that equal values have
// equal bytes and a hash over the bytes is a hash over the value. Numbers are
// big-endian.
//
//	u8, u32, u64   1, 4, 8 bytes
//	flag           1 byte, 0 or 1
//	bytes, string  4 bytes length, then the content
//	rev            4 bytes epoch, 8 bytes revision
//	time           8 bytes seconds since 1970 (signed), 4 bytes nanoseconds, UTC
//	hash           32 bytes
//	signature      64 bytes
//	epoch id       16 bytes

// encoder appends values to buf.
type encoder struct{ buf []byte }

func (e *encoder) u32(n uint32) { e.buf = binary.BigEndian.AppendUint32(e.buf, n) }
func (e *encoder) u64(n uint64) { e.buf = binary.BigEndian.AppendUint64(e.buf, n) }
func (e *encoder) raw(b []byte) { e.buf = append(e.buf, b...) }

func (e *encoder) flag(set bool) {
	if set {
		e.buf = append(e.buf, 1)
		return
	}
	e.buf = append(e.buf, 0)
}

func (e *encoder) bytes(b []byte) {
	e.u32(uint32(len(b)))
	e.raw(b)
}

func (e *encoder) string(s string) {
	e.u32(uint32(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) rev(r Rev) {
	e.u32(r.Epoch)
	e.u64(r.Rev)
}

func (e *encoder) time(t time.Time) {
	e.u64(uint64(t.Unix()))
	e.u32(uint32(t.Nanosecond()))
}

// decoder takes values from the front of rest. After the first problem it only
// gives zero values, so that callers look at problem once, at the end.
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

// take returns the next n bytes, or n zero bytes when they are not there. Only
// widths known to this file are asked for past the end, so n stays small then.
func (d *decoder) take(n int) []byte {
	if len(d.rest) < n {
		d.fail("is cut short")
		return make([]byte, n)
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) u32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

func (d *decoder) flag() bool {
	b := d.take(1)[0]
	if b > 1 {
		d.fail("has a flag that is neither 0 nor 1")
	}
	return b == 1
}

// sized takes what follows its length.
func (d *decoder) sized() []byte {
	n := d.u32()
	if uint64(n) > uint64(len(d.rest)) {
		d.fail("is cut short")
		return nil
	}
	return d.take(int(n))
}

// bytes returns a copy, so that what was decoded does not keep the whole record
// alive. It is never nil.
func (d *decoder) bytes() []byte { return append([]byte{}, d.sized()...) }

func (d *decoder) string() string { return string(d.sized()) }

func (d *decoder) rev() Rev { return Rev{Epoch: d.u32(), Rev: d.u64()} }

func (d *decoder) time() time.Time {
	seconds, nanoseconds := int64(d.u64()), d.u32()
	if nanoseconds > 999_999_999 {
		d.fail("has a time with too many nanoseconds")
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanoseconds)).UTC()
}

func (d *decoder) signature() [64]byte { return [64]byte(d.take(64)) }

func (d *decoder) hash() Hash { return Hash(d.take(len(Hash{}))) }

// count reads how many items follow, each of at least size bytes, so that a
// wild count is refused before it is allocated for.
func (d *decoder) count(size int) int {
	n := d.u32()
	if uint64(n) > uint64(len(d.rest)/size) {
		d.fail("is cut short")
		return 0
	}
	return int(n)
}

// end reports the first problem, or that bytes are left over.
func (d *decoder) end() string {
	if d.problem == "" && len(d.rest) > 0 {
		d.fail("has bytes after its end")
	}
	return d.problem
}
