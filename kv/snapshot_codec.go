package kv

import (
	"errors"
	"fmt"
	"hash/crc32"
)

// The stream of a snapshot, in the encoding of codec.go:
//
//	prefix, SnapshotPrefixBytes:
//	    magic      8 bytes
//	    version    1 byte
//	    head       132 bytes: rev, epoch id, u64 index, hash, signature
//	    entries    8 bytes, their number
//	    requests   4 bytes, their number
//	    crc        4 bytes, CRC-32C over all before
//	entries, in the order of their keys, each: u32 size, string key, entry
//	requests, in the order of their revisions, each: u32 size, rev, request
//	sum            32 bytes, SHA-256 over all before
const (
	// snapshotMagic has a newline and a byte of no text, so that a transfer that
	// changes either is found out.
	snapshotMagic   = "gvsnap\n\xff"
	snapshotVersion = 1

	headBytes = 4 + 8 + 16 + 8 + 32 + 64

	// SnapshotPrefixBytes is how much of a snapshot DecodeSnapshotHead needs.
	SnapshotPrefixBytes = len(snapshotMagic) + 1 + headBytes + 8 + 4 + 4

	snapshotSumBytes = 32
)

// Limits of a snapshot.
const (
	MaxSnapshotBytes = 1 << 30

	// maxRecordBytes is more than the largest entry or request takes.
	maxRecordBytes = MaxKeyBytes + MaxValueBytes + MaxAuthorBytes + MaxMessageBytes + 1<<10
)

// ErrBadSnapshot is returned for a snapshot that is damaged, or that no store
// wrote. The error says what is wrong with it.
var ErrBadSnapshot = errors.New("bad snapshot")

func badSnapshot(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadSnapshot, fmt.Sprintf(format, args...))
}

// snapshotPrefix is what stands before the records.
type snapshotPrefix struct {
	head     Head
	entries  uint64
	requests uint32
}

func (p snapshotPrefix) encode() []byte {
	e := encoder{buf: append([]byte(snapshotMagic), snapshotVersion)}
	e.head(p.head)
	e.u64(p.entries)
	e.u32(p.requests)
	e.u32(crc32.Checksum(e.buf, castagnoli))
	return e.buf
}

func decodeSnapshotPrefix(b []byte) (snapshotPrefix, error) {
	magic, rest := b[:len(snapshotMagic)], b[len(snapshotMagic):]
	if string(magic) != snapshotMagic {
		return snapshotPrefix{}, badSnapshot("it begins with %q", magic)
	}
	if rest[0] != snapshotVersion {
		return snapshotPrefix{}, badSnapshot("version %d is not known, %d is", rest[0], snapshotVersion)
	}
	d := decoder{rest: rest[1:]}
	p := snapshotPrefix{head: d.head(), entries: d.u64(), requests: d.u32()}
	if crc := d.u32(); crc != crc32.Checksum(b[:len(b)-4], castagnoli) {
		return snapshotPrefix{}, badSnapshot("its prefix does not match its checksum")
	}
	if p.requests > KeptRequests {
		return snapshotPrefix{}, badSnapshot("it has %d request ids, at most %d are kept", p.requests, KeptRequests)
	}
	return p, nil
}

// DecodeSnapshotHead reads the head from the first SnapshotPrefixBytes of a
// snapshot, for whoever wants to know whether to take the rest. It wraps
// ErrBadSnapshot if they are not those of one.
func DecodeSnapshotHead(prefix []byte) (Head, error) {
	if len(prefix) < SnapshotPrefixBytes {
		return Head{}, badSnapshot("its prefix is cut short")
	}
	p, err := decodeSnapshotPrefix(prefix[:SnapshotPrefixBytes])
	return p.head, err
}
