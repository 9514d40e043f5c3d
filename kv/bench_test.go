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

// A thousand commits in one batch, as a node gets them that was away.
func BenchmarkMerge1000Commits(b *testing.B) {
	s := benchStore(b, filepath.Join(b.TempDir(), "kv.db"), 1000)
	for b.Loop() {
		b.StopTimer()
		view, commits := s.View(), make([]Commit, 1000)
		for i := range commits {
			var err error
			commits[i], _, err = view.Resolve(Txn{Then: []Op{Put(Key(fmt.Sprintf("gateway/routes/r%d", i)), make([]byte, 200))}})
			if err == nil {
				view, err = view.Apply(commits[i])
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := s.Merge(commits...); err != nil {
			b.Fatal(err)
		}
	}
}

// A restart with 10,000 keys: check of all pages, checksums of all records.
func BenchmarkOpen10000(b *testing.B) {
	path := filepath.Join(b.TempDir(), "kv.db")
	if err := benchStore(b, path, 10_000).Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(Options{Path: path})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
