package kv

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// ReadSnapshot reads what Snapshot.WriteTo wrote, and checks all of it: sizes,
// numbers, order, and the sum at the end. It takes memory in proportion to the
// bytes that came, of which it takes no more than MaxSnapshotBytes. It reads ahead,
// unless r is a *bufio.Reader, in which what follows the snapshot is left.
//
// The error wraps ErrBadSnapshot if that is what was read, else it is the
// reader's; io.ErrUnexpectedEOF if the snapshot ends too early.
func ReadSnapshot(r io.Reader) (*Snapshot, error) {
	in := &snapshotReader{from: bufio.NewReader(r), sum: sha256.New(), left: MaxSnapshotBytes}
	prefix, err := in.prefix()
	if err != nil {
		return nil, err
	}
	s := &Snapshot{view: View{head: prefix.head}}
	if s.view.keys, err = in.entries(prefix); err != nil {
		return nil, err
	}
	if s.requests, err = in.requests(prefix); err != nil {
		return nil, err
	}
	if err := in.end(); err != nil {
		return nil, err
	}
	return s, nil
}

// snapshotReader reads and sums.
type snapshotReader struct {
	from *bufio.Reader
	sum  hash.Hash
	left int64
	buf  []byte // of the last read, used again
}

// take reads the next n bytes. They are valid until the next call.
func (r *snapshotReader) take(n int) ([]byte, error) {
	if r.left -= int64(n); r.left < 0 {
		return nil, badSnapshot("it has more than %d bytes", int64(MaxSnapshotBytes))
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	b := r.buf[:n]
	if _, err := io.ReadFull(r.from, b); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("snapshot: %w", io.ErrUnexpectedEOF)
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return b, nil
}

// summed is take, and counts the bytes in the sum.
func (r *snapshotReader) summed(n int) ([]byte, error) {
	b, err := r.take(n)
	r.sum.Write(b)
	return b, err
}

func (r *snapshotReader) prefix() (snapshotPrefix, error) {
	b, err := r.summed(SnapshotPrefixBytes)
	if err != nil {
		return snapshotPrefix{}, err
	}
	return decodeSnapshotPrefix(b)
}

// record reads the next record, which what names.
func (r *snapshotReader) record(what string, i uint64) (*decoder, error) {
	b, err := r.summed(4)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(b)
	if size > maxRecordBytes {
		return nil, badSnapshot("%s %d has %d bytes, at most %d are possible", what, i+1, size, maxRecordBytes)
	}
	if b, err = r.summed(int(size)); err != nil {
		return nil, err
	}
	return &decoder{rest: b}, nil
}

func (r *snapshotReader) entries(p snapshotPrefix) (*iradix.Tree[*Entry], error) {
	keys, last := iradix.New[*Entry]().Txn(), Key("")
	for i := range p.entries {
		d, err := r.record("entry", i)
		if err != nil {
			return nil, err
		}
		entry := d.entry(Key(d.string()))
		problem := d.end()
		if problem == "" {
			problem = entry.problem(last, p.head.Rev)
		}
		if problem != "" {
			return nil, badSnapshot("entry %d, key %s, %s", i+1, quoteShort(string(entry.Key)), problem)
		}
		keys.Insert([]byte(entry.Key), &entry)
		last = entry.Key
	}
	return keys.CommitOnly(), nil
}

// problem says what keeps an entry from standing after the key last in a snapshot
// of revision head.
func (e *Entry) problem(last Key, head Rev) string {
	if problem := keyProblem(string(e.Key)); problem != "" {
		return problem
	}
	switch {
	case len(e.Value) > MaxValueBytes:
		return fmt.Sprintf("has a value of %d bytes, at most %d are allowed", len(e.Value), MaxValueBytes)
	case len(e.By) > MaxAuthorBytes:
		return fmt.Sprintf("has an author of %d bytes, at most %d are allowed", len(e.By), MaxAuthorBytes)
	case len(e.Message) > MaxMessageBytes:
		return fmt.Sprintf("has a message of %d bytes, at most %d are allowed", len(e.Message), MaxMessageBytes)
	case e.Key <= last:
		return fmt.Sprintf("does not stand after key %s", quoteShort(string(last)))
	case e.Version == 0:
		return "has the version 0"
	case e.CreateRev.Compare(e.ModRev) > 0:
		return fmt.Sprintf("was created in %s, after it was modified in %s", e.CreateRev, e.ModRev)
	case e.ModRev.Compare(head) > 0:
		return fmt.Sprintf("was modified in %s, after the snapshot's revision %s", e.ModRev, head)
	}
	return ""
}

func (r *snapshotReader) requests(p snapshotPrefix) (requests, error) {
	all, last := make([]*request, 0, p.requests), Rev{}
	for i := range p.requests {
		d, err := r.record("request id", uint64(i))
		if err != nil {
			return requests{}, err
		}
		one := d.request(d.rev())
		problem := d.end()
		if problem == "" {
			problem = one.problem(last, p.head.Rev)
		}
		if problem != "" {
			return requests{}, badSnapshot("request id %d, %s, %s", i+1, quoteShort(one.id), problem)
		}
		all = append(all, one)
		last = one.result.Rev
	}
	return requests{}.with(all), nil
}

// problem says what keeps a request from standing after revision last in a
// snapshot of revision head.
func (r *request) problem(last, head Rev) string {
	switch {
	case r.id == "":
		return "is empty"
	case len(r.id) > MaxIDBytes:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(r.id), MaxIDBytes)
	case r.result.Rev.Compare(last) <= 0:
		return fmt.Sprintf("has revision %s and stands after %s", r.result.Rev, last)
	case r.result.Rev.Compare(head) > 0:
		return fmt.Sprintf("has revision %s, after the snapshot's %s", r.result.Rev, head)
	}
	size := 0
	for _, key := range r.result.Changed {
		if problem := keyProblem(string(key)); problem != "" {
			return fmt.Sprintf("changed a key that %s", problem)
		}
		size += len(key)
	}
	if size > maxKeptChanged {
		return fmt.Sprintf("has %d bytes of changed keys, at most %d are kept", size, maxKeptChanged)
	}
	return ""
}

// end checks the sum.
func (r *snapshotReader) end() error {
	want := r.sum.Sum(nil)
	sum, err := r.take(len(want))
	if err != nil {
		return err
	}
	if string(sum) != string(want) {
		return badSnapshot("its content does not match its checksum")
	}
	return nil
}
