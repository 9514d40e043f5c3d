package kv

import (
	"fmt"
	"path/filepath"
	"testing"
)

func benchStore(b *testing.B, path string, keys int) *Store {
	b.Helper()
	s, err := Open(Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	var ops []Op
	for i := range keys {
		ops = append(ops, Put(Key(fmt.Sprintf("gateway/routes/r%d", i)), make([]byte, 200)))
	}
	benchMerge(b, s, ops)
	return s
}

func benchMerge(b *testing.B, s *Store, ops []Op) {
	b.Helper()
	commit, _, err := s.View().Resolve(Txn{Then: ops})
	if err == nil && !commit.Rev.IsZero() {
		err = s.Merge(commit)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkGet(b *testing.B) {
	view := benchStore(b, "", 10_000).View()
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := view.Get("gateway/routes/r5000"); !ok {
			b.Fatal("not there")
		}
	}
}

func BenchmarkIterate10000(b *testing.B) {
	view := benchStore(b, "", 10_000).View()
	for b.Loop() {
		for range view.Under("gateway/routes/") {
		}
	}
}

func BenchmarkPutSynced(b *testing.B) {
	s := benchStore(b, filepath.Join(b.TempDir(), "kv.db"), 1000)
	for b.Loop() {
		benchMerge(b, s, []Op{Put("gateway/routes/r5", make([]byte, 200))})
	}
}

func BenchmarkPutMemory(b *testing.B) {
	s := benchStore(b, "", 10_000)
	for b.Loop() {
		benchMerge(b, s, []Op{Put("gateway/routes/r5", make([]byte, 200))})
	}
}

func BenchmarkMerge1000Keys(b *testing.B) {
	s := benchStore(b, filepath.Join(b.TempDir(), "kv.db"), 1000)
	var ops []Op
	for i := range 1000 {
		ops = append(ops, Put(Key(fmt.Sprintf("gateway/routes/r%d", i)), make([]byte, 200)))
	}
	for b.Loop() {
		benchMerge(b, s, ops)
	}
}
