package kv

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"
)

// largeStore has as many keys of 300 B as a large gateway, and all the ids.
func largeStore(b *testing.B, keys int) *Store {
	b.Helper()
	s, err := Open(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	for from := 0; from < keys; from += 1000 {
		var ops []Op
		for i := range 1000 {
			ops = append(ops, Put(Key(fmt.Sprintf("gateway/routes/r%d", from+i)), make([]byte, 300)))
		}
		benchMerge(b, s, ops)
	}
	for i := range KeptRequests {
		commit, _, err := s.View().Resolve(Txn{ID: fmt.Sprint("request ", i), Then: []Op{Put("gateway/routes/r5", make([]byte, 300))}})
		if err == nil {
			err = s.Merge(commit)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// 100,000 keys of 300 B: taken, written, read, restored into an empty store and
// into one that differs in one key of a hundred.
func BenchmarkSnapshot100000(b *testing.B) {
	s := largeStore(b, 100_000)
	var stream bytes.Buffer
	if _, err := s.Snapshot().WriteTo(&stream); err != nil {
		b.Fatal(err)
	}
	b.Run("take", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Snapshot()
		}
	})
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(stream.Len()))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Snapshot().WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(stream.Len()))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadSnapshot(bytes.NewReader(stream.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("restore all", func(b *testing.B) { benchRestore(b, s.Snapshot(), (&Snapshot{view: View{head: s.View().head}})) })
	b.Run("restore 1 in 100", func(b *testing.B) {
		full := s.Snapshot()
		var ops []Op
		for i := range 1000 {
			ops = append(ops, Put(Key(fmt.Sprintf("gateway/routes/r%d", i*100)), make([]byte, 301)))
		}
		benchMerge(b, s, ops)
		benchRestore(b, s.Snapshot(), full)
	})
}

// benchRestore measures the restore of a snapshot into a store that holds another.
func benchRestore(b *testing.B, snapshot, other *Snapshot) {
	b.Helper()
	for b.Loop() {
		b.StopTimer()
		target, err := Open(Options{Path: filepath.Join(b.TempDir(), "kv.db")})
		if err == nil {
			err = target.Restore(other)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := target.Restore(snapshot); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := target.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
