package kv

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func written(t rapid.TB, s *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo: %d bytes of %d, %v", n, b.Len(), err)
	}
	return b.Bytes()
}

func read(t rapid.TB, b []byte) *Snapshot {
	t.Helper()
	s, err := ReadSnapshot(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("ReadSnapshot: %v", err)
	}
	return s
}

// exampleSnapshot has one entry and one request id.
func exampleSnapshot() *Snapshot {
	head := Head{Rev: Rev{1, 2}, EpochID: [16]byte{3}, Index: 4, Hash: Hash{5}, Signature: [64]byte{6, 63: 7}}
	entry := Entry{Key: "a", Value: []byte("value"), CreateRev: Rev{1, 1}, ModRev: Rev{1, 2}, Version: 2, By: "uid:0", Message: "why", At: time.Unix(1, 2).UTC()}
	keys := View{}.begin()
	keys.Insert([]byte(entry.Key), &entry)
	done := &request{id: "request", result: Result{Succeeded: true, Rev: Rev{1, 2}, Changed: []Key{"a"}}}
	return &Snapshot{view: View{head: head, keys: keys.CommitOnly()}, requests: requests{}.with([]*request{done})}
}

// What is written today can be read for ever.
func TestSnapshotIsStable(t *testing.T) {
	want := goldenRecord(t, "snapshot.hex")
	if got := written(t, exampleSnapshot()); !bytes.Equal(got, want) {
		t.Errorf("the snapshot is\n%x\nand was\n%x", got, want)
	}
	if again := written(t, read(t, want)); !bytes.Equal(again, want) {
		t.Errorf("read and written again it is %x", again)
	}
	view := read(t, want).View()
	if entry, ok := view.Get("a"); !ok || string(entry.Value) != "value" || view.Len() != 1 || view.Head() != exampleSnapshot().Head() {
		t.Errorf("its view has %d entries, a is %+v, the head %+v", view.Len(), entry, view.Head())
	}
	head, err := DecodeSnapshotHead(want[:SnapshotPrefixBytes])
	if err != nil || head != exampleSnapshot().Head() {
		t.Errorf("the head in the prefix is %+v, %v", head, err)
	}
	if _, err := DecodeSnapshotHead(want[:SnapshotPrefixBytes-1]); !errors.Is(err, ErrBadSnapshot) {
		t.Errorf("a prefix cut short: %v", err)
	}
}

// Whatever happens to the bytes is found out: a change by the checks and the
// sums, and a cut as one.
func TestSnapshotDamage(t *testing.T) {
	sound := written(t, exampleSnapshot())
	for i := range sound {
		for bit := range 8 {
			garbled := bytes.Clone(sound)
			garbled[i] ^= 1 << bit
			_, err := ReadSnapshot(bytes.NewReader(garbled))
			if !errors.Is(err, ErrBadSnapshot) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("byte %d, bit %d: %v", i, bit, err)
			}
		}
		if _, err := ReadSnapshot(bytes.NewReader(sound[:i])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	broken := errors.New("connection reset")
	torn := io.MultiReader(bytes.NewReader(sound[:200]), iotest.ErrReader(broken))
	if _, err := ReadSnapshot(torn); !errors.Is(err, broken) || errors.Is(err, ErrBadSnapshot) {
		t.Errorf("a torn connection: %v", err)
	}
}

// What follows the snapshot in a buffered reader is left there.
func TestSnapshotEndsWhereItEnds(t *testing.T) {
	stream := append(written(t, exampleSnapshot()), "after"...)
	from := bufio.NewReader(iotest.OneByteReader(bytes.NewReader(stream)))
	if _, err := ReadSnapshot(from); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(from); string(rest) != "after" {
		t.Errorf("left is %q", rest)
	}
}

// forged is a stream with right sums around whatever is to be said in it.
func forged(prefix snapshotPrefix, records ...[]byte) []byte {
	stream := prefix.encode()
	for _, record := range records {
		stream = binary.BigEndian.AppendUint32(stream, uint32(len(record)))
		stream = append(stream, record...)
	}
	sum := sha256.Sum256(stream)
	return append(stream, sum[:]...)
}

func entryRecord(change func(*Entry)) []byte {
	entry := Entry{Key: "b", Value: []byte("v"), CreateRev: Rev{1, 1}, ModRev: Rev{1, 2}, Version: 1}
	change(&entry)
	var e encoder
	e.string(string(entry.Key))
	e.entry(entry)
	return e.buf
}

func requestRecord(change func(*request)) []byte {
	r := &request{id: "id", result: Result{Rev: Rev{1, 2}}}
	change(r)
	var e encoder
	e.rev(r.result.Rev)
	e.request(r)
	return e.buf
}

// A sender that knows the format and lies is told what is wrong.
func TestHostileSnapshots(t *testing.T) {
	head := Head{Rev: Rev{1, 9}, EpochID: [16]byte{1}}
	one := entryRecord(func(*Entry) {})
	entries := func(records ...[]byte) []byte {
		return forged(snapshotPrefix{head: head, entries: uint64(len(records))}, records...)
	}
	entry := func(change func(*Entry)) []byte { return entries(entryRecord(change)) }
	ids := func(records ...[]byte) []byte {
		return forged(snapshotPrefix{head: head, requests: uint32(len(records))}, records...)
	}
	id := func(change func(*request)) []byte { return ids(requestRecord(change)) }
	rehead := func(change func(prefix []byte)) []byte {
		prefix := snapshotPrefix{head: head}.encode()
		change(prefix)
		binary.BigEndian.PutUint32(prefix[len(prefix)-4:], crc32.Checksum(prefix[:len(prefix)-4], castagnoli))
		return prefix
	}
	for _, tt := range []struct {
		name   string
		stream []byte
		want   string
	}{
		{"no snapshot", []byte(strings.Repeat("GET / HTTP/1.1\r\n", 20)), `it begins with "GET / HT"`},
		{"later version", rehead(func(b []byte) { b[8] = 9 }), "version 9 is not known, 1 is"},
		{"prefix garbled", func() []byte { b := entries(one); b[20]++; return b }(), "prefix does not match its checksum"},
		{"too many ids", forged(snapshotPrefix{head: head, requests: 4097}), "it has 4097 request ids, at most 4096"},
		{"more entries than come", forged(snapshotPrefix{head: head, entries: 1 << 60}, one), "possible"},
		{"huge record", append(snapshotPrefix{head: head, entries: 1}.encode(), 0xff, 0xff, 0xff, 0xff), "entry 1 has 4294967295 bytes"},
		{"empty record", entries(nil), "is cut short"},
		{"record with more", entries(append(bytes.Clone(one), 0)), "has bytes after its end"},
		{"size of a text beyond the record", entries([]byte{0xff, 0xff, 0xff, 0xff}), "is cut short"},
		{"same key twice", entries(one, one), `entry 2, key "b", does not stand after key "b"`},
		{"wrong order", entries(one, entryRecord(func(e *Entry) { e.Key = "a" })), `does not stand after key "b"`},
		{"no key", entry(func(e *Entry) { e.Key = "a/../b" }), "has the segment"},
		{"key too long", entry(func(e *Entry) { e.Key = Key(strings.Repeat("k", 513)) }), "has 513 bytes"},
		{"value too large", entry(func(e *Entry) { e.Value = make([]byte, MaxValueBytes+1) }), "has a value of 262145 bytes"},
		{"author too long", entry(func(e *Entry) { e.By = strings.Repeat("x", MaxAuthorBytes+1) }), "has an author of 1025 bytes"},
		{"message too long", entry(func(e *Entry) { e.Message = strings.Repeat("x", MaxMessageBytes+1) }), "has a message of 16385 bytes"},
		{"version 0", entry(func(e *Entry) { e.Version = 0 }), "has the version 0"},
		{"created late", entry(func(e *Entry) { e.CreateRev = Rev{1, 3} }), "created in 1.3, after it was modified in 1.2"},
		{"from the future", entry(func(e *Entry) { e.ModRev = Rev{2, 1} }), "modified in 2.1, after the snapshot's revision 1.9"},
		{"no id", id(func(r *request) { r.id = "" }), "is empty"},
		{"id too long", id(func(r *request) { r.id = strings.Repeat("x", MaxIDBytes+1) }), "has 129 bytes"},
		{"id from the future", id(func(r *request) { r.result.Rev = Rev{1, 10} }), "has revision 1.10, after the snapshot's 1.9"},
		{"ids of one revision", ids(requestRecord(func(*request) {}), requestRecord(func(*request) {})), "has revision 1.2 and stands after 1.2"},
		{"id with a bad key", id(func(r *request) { r.result.Changed = []Key{"a//b"} }), "changed a key that has an empty segment"},
		{"id with too many keys", id(func(r *request) { r.result.Changed = slices.Repeat([]Key{"abcdefgh"}, 600) }), "4800 bytes of changed keys"},
		{"wrong sum", func() []byte { b := entries(one); b[len(b)-1]++; return b }(), "content does not match its checksum"},
	} {
		_, err := ReadSnapshot(bytes.NewReader(tt.stream))
		if !errors.Is(err, ErrBadSnapshot) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v; want %q", tt.name, err, tt.want)
		}
	}
	if _, err := ReadSnapshot(bytes.NewReader(entries(one, entryRecord(func(e *Entry) { e.Key = "b/c" })))); err != nil {
		t.Errorf("an honest one of this kind: %v", err)
	}
}

// endless gives zeros for ever.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// A stream without an end is given up.
func TestEndlessSnapshot(t *testing.T) {
	in := &snapshotReader{from: bufio.NewReader(endless{}), sum: sha256.New(), left: 1000}
	for {
		if _, err := in.take(100); err != nil {
			if !errors.Is(err, ErrBadSnapshot) || in.left >= 0 {
				t.Errorf("got %v with %d bytes left", err, in.left)
			}
			return
		}
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add(written(f, exampleSnapshot()))
	f.Add(written(f, &Snapshot{}))
	f.Fuzz(func(t *testing.T, stream []byte) {
		// The sums are made right, so that the checks behind them are reached.
		if len(stream) >= SnapshotPrefixBytes+snapshotSumBytes {
			prefix, body := stream[:SnapshotPrefixBytes], stream[:len(stream)-snapshotSumBytes]
			binary.BigEndian.PutUint32(prefix[len(prefix)-4:], crc32.Checksum(prefix[:len(prefix)-4], castagnoli))
			sum := sha256.Sum256(body)
			copy(stream[len(body):], sum[:])
		}
		s, err := ReadSnapshot(bytes.NewReader(stream))
		if err != nil {
			return
		}
		if again := written(t, s); !bytes.Equal(again, stream[:len(again)]) {
			t.Errorf("%x became %x", stream, again)
		}
		store := storeAt(start)
		if err := store.Restore(s); err != nil {
			t.Errorf("Restore: %v", err)
		}
	})
}

// Two stores that merged the same commits give the same bytes, in whatever
// batches they came and however much history each keeps.
func TestSnapshotsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, commits := drawCommits(t)
		one, two := storeAt(start), storeAt(start)
		one.revs = rapid.IntRange(1, 4).Draw(t, "history")
		two.revs = rapid.IntRange(1, 4).Draw(t, "other history")
		for i := range commits {
			commits[i].ID = fmt.Sprint("request ", rapid.IntRange(0, 5).Draw(t, "id"))
			commits[i].Prev = one.View().Head().Hash
			commits[i].Hash = commits[i].hash()
			if err := one.Merge(commits[i]); err != nil {
				t.Fatal(err)
			}
		}
		for left := commits; len(left) > 0; {
			n := rapid.IntRange(1, len(left)).Draw(t, "batch")
			if err := two.Merge(left[:n]...); err != nil {
				t.Fatal(err)
			}
			left = left[n:]
		}
		if !bytes.Equal(written(t, one.Snapshot()), written(t, two.Snapshot())) {
			t.Fatal("the two snapshots differ")
		}
	})
}

// A snapshot stays what it was while the store goes on.
func TestSnapshotIsImmutable(t *testing.T) {
	s := storeAt(start)
	put(t, s, "a", []byte("before"))
	snapshot := s.Snapshot()
	want := written(t, snapshot)
	done := make(chan error, 1)
	go func() {
		for i := range 200 {
			commit, _, err := s.View().Resolve(Txn{ID: fmt.Sprint(i), Then: []Op{Put("a", []byte("after")), Put(Key(fmt.Sprint("k", i)), nil)}})
			if err := errors.Join(err, s.Merge(commit)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 20 {
		if got := written(t, snapshot); !bytes.Equal(got, want) {
			t.Error("the snapshot has changed")
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// failing takes so many bytes and no more.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if len(b) > f.left {
		return f.left, io.ErrShortWrite
	}
	f.left -= len(b)
	return len(b), nil
}

func TestSnapshotWriterFails(t *testing.T) {
	s := storeAt(start)
	for i := range 10 {
		put(t, s, Key(fmt.Sprint("k", i)), make([]byte, 20<<10))
	}
	size := len(written(t, s.Snapshot()))
	for _, left := range []int{0, 10, flushBytes, 2 * flushBytes, size - 1} {
		n, err := s.Snapshot().WriteTo(&failing{left: left})
		if !errors.Is(err, io.ErrShortWrite) || n > int64(left) {
			t.Errorf("with room for %d of %d bytes: %d, %v", left, size, n, err)
		}
	}
	if _, err := s.Snapshot().WriteTo(&failing{left: size}); err != nil {
		t.Errorf("with room for all: %v", err)
	}
}

// The state of a store goes over the wire into another one, which is then like
// the first in all that is shared, follows it, and opens again as that.
func TestRestoreEqualsTheSource(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		source, options := storeAt(start), Options{Path: filepath.Join(dir, fmt.Sprint(n)), HistoryRevs: rapid.IntRange(1, 5).Draw(t, "history")}
		write := func() []Commit {
			var commits []Commit
			for _, txn := range rapid.SliceOfN(someTxn, 0, 8).Draw(t, "log") {
				txn.ID = rapid.SampledFrom([]string{"", "one", "two", "three"}).Draw(t, "id")
				commit, _, err := source.View().Resolve(txn)
				if err == nil && !commit.Rev.IsZero() {
					commit.Signature = [64]byte{byte(len(commits))}
					commits = append(commits, commit)
					err = source.Merge(commit)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return commits
		}
		target, err := Open(options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { target.Close() }()
		target.disk.db.NoSync = true
		if err := tryPut(target, "gone", nil); err != nil {
			t.Fatal(err)
		}
		write()
		if err := target.Restore(read(t, written(t, source.Snapshot()))); err != nil {
			t.Fatal(err)
		}
		compareStores(t, source, target)
		later := write()
		if err := target.Merge(later...); err != nil {
			t.Fatal(err)
		}
		compareStores(t, source, target)
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		if target, err = Open(options); err != nil {
			t.Fatal(err)
		}
		compareStores(t, source, target)
	})
}

func compareStores(t rapid.TB, want, got *Store) {
	t.Helper()
	if want.View().Head() != got.View().Head() {
		t.Fatalf("head %+v; want %+v", got.View().Head(), want.View().Head())
	}
	if diff := cmp.Diff(entries(want.View(), ""), entries(got.View(), "")); diff != "" {
		t.Fatalf("entries (-want +got):\n%s", diff)
	}
	for _, id := range []string{"one", "two", "three", "none"} {
		wantResult, wantKnown := want.Committed(id)
		result, known := got.Committed(id)
		if diff := cmp.Diff(wantResult, result); known != wantKnown || diff != "" {
			t.Fatalf("id %q is known: %v; want %v (-want +got):\n%s", id, known, wantKnown, diff)
		}
	}
	if !bytes.Equal(written(t, want.Snapshot()), written(t, got.Snapshot())) {
		t.Fatal("the snapshots of the two differ")
	}
}
