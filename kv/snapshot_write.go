package kv

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
)

// WriteTo writes the snapshot as ReadSnapshot reads it. It returns the number of
// bytes that were written, and the writer's error; a *LimitError if the snapshot
// has more than MaxSnapshotBytes, which nobody would read.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := snapshotWriter{to: w, sum: sha256.New()}
	prefix := snapshotPrefix{head: s.view.head, entries: uint64(s.view.Len()), requests: uint32(len(s.requests.ordered))}
	out.raw(prefix.encode())
	for entry := range s.view.Under("") {
		out.record(func(e *encoder) {
			e.string(string(entry.Key))
			e.entry(entry)
		})
	}
	for _, r := range s.requests.ordered {
		out.record(func(e *encoder) {
			e.rev(r.result.Rev)
			e.request(r)
		})
	}
	return out.end()
}

// flushBytes is how much a snapshotWriter gathers before it writes.
const flushBytes = 64 << 10

// snapshotWriter writes and sums. After the first error it does nothing more.
type snapshotWriter struct {
	to      io.Writer
	sum     hash.Hash
	encoder encoder // what is not written yet
	written int64
	err     error
}

func (w *snapshotWriter) raw(b []byte) {
	w.encoder.raw(b)
	if len(w.encoder.buf) >= flushBytes {
		w.flush()
	}
}

// record writes what encode appends, and in front of it the size.
func (w *snapshotWriter) record(encode func(*encoder)) {
	if w.err != nil {
		return
	}
	start := len(w.encoder.buf)
	w.encoder.u32(0)
	encode(&w.encoder)
	record := w.encoder.buf[start:]
	binary.BigEndian.PutUint32(record, uint32(len(record)-4))
	if len(w.encoder.buf) >= flushBytes {
		w.flush()
	}
}

func (w *snapshotWriter) flush() {
	if size := w.written + int64(len(w.encoder.buf)); w.err == nil && size > MaxSnapshotBytes-snapshotSumBytes {
		w.err = &LimitError{What: "the snapshot's size in bytes", Got: int(size), Max: MaxSnapshotBytes}
	}
	w.sum.Write(w.encoder.buf)
	w.write(w.encoder.buf)
	w.encoder.buf = w.encoder.buf[:0]
}

func (w *snapshotWriter) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.to.Write(b)
	w.written += int64(n)
	w.err = err
}

func (w *snapshotWriter) end() (int64, error) {
	w.flush()
	w.write(w.sum.Sum(nil))
	return w.written, w.err
}
