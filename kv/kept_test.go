package kv

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// kept lists the files of replaced states in a folder.
func kept(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "lkg*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}

// A state of another epoch is not lost when it is replaced.
func TestReplacedStateIsKept(t *testing.T) {
	folder := t.TempDir()
	s := openStore(t, Options{Path: filepath.Join(folder, "kv.db")})
	restore := func(source *Store) *Snapshot {
		t.Helper()
		before := s.Snapshot()
		if err := s.Restore(source.Snapshot()); err != nil {
			t.Fatal(err)
		}
		return before
	}
	ours, later, other := grownStore(t, start, 3), grownStore(t, start, 4), grownStore(t, genesis(1, [16]byte{8}), 4)
	restore(ours)
	restore(later)
	if files := kept(t, folder); len(files) != 0 {
		t.Errorf("an empty state, or one of the same epoch, was kept: %q", files)
	}
	before := restore(other)
	stream, err := os.ReadFile(filepath.Join(folder, "lkg-1-4.snap"))
	if err != nil || !bytes.Equal(stream, written(t, before)) || !bytes.Equal(written(t, read(t, stream)), stream) {
		t.Errorf("%q, %v: not the state that was replaced", kept(t, folder), err)
	}
	restore(later) // replaces one of the same name
	restore(other) // replaces one that is kept already
	if files, want := kept(t, folder), []string{"lkg-1-4-2.snap", "lkg-1-4.snap"}; !slices.Equal(files, want) {
		t.Errorf("kept are %q; want %q", files, want)
	}
	for epoch := range uint32(keptStates + 3) {
		restore(grownStore(t, genesis(10+epoch, [16]byte{byte(epoch)}), 2))
	}
	restore(ours)
	files := kept(t, folder)
	if len(files) != keptStates || !slices.Contains(files, "lkg-16-2.snap") {
		t.Errorf("kept are %q; want the last %d", files, keptStates)
	}
}

// A state that can't be kept is not replaced.
func TestReplacedStateCannotBeKept(t *testing.T) {
	folder := t.TempDir()
	s := openStore(t, Options{Path: filepath.Join(folder, "kv.db")})
	put(t, s, "a", nil)
	before := everythingIn(t, s)
	if err := os.MkdirAll(filepath.Join(folder, keptDraft, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	other := grownStore(t, genesis(2, [16]byte{8}), 4)
	if err := s.Restore(other.Snapshot()); err == nil || !everythingIn(t, s).equal(before) {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(filepath.Join(folder, keptDraft)); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(other.Snapshot()); err != nil {
		t.Errorf("the next restore: %v", err)
	}
}
