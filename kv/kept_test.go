package kv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
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
	age := func(file string, hours uint32) { // the clock of files is too coarse
		t.Helper()
		then := time.Now().Add(-time.Duration(hours) * time.Hour)
		if err := os.Chtimes(filepath.Join(folder, file), then, then); err != nil {
			t.Fatal(err)
		}
	}
	restore(grownStore(t, genesis(109, [16]byte{1}), 2))
	age("lkg-1-4.snap", 1000)
	age("lkg-1-4-2.snap", 1000)
	for epoch := uint32(108); epoch > 101; epoch-- {
		restore(grownStore(t, genesis(epoch, [16]byte{1}), 2))
		age(fmt.Sprintf("lkg-%d-2.snap", epoch+1), epoch)
	}
	want := []string{"lkg-103-2.snap", "lkg-104-2.snap", "lkg-105-2.snap", "lkg-106-2.snap"}
	if files := kept(t, folder); !slices.Equal(files, want) {
		t.Errorf("kept are %q; want the last ones, %q", files, want)
	}
}

// On a full disk nothing is replaced, and nothing is left behind. It is when there
// is room.
func TestRestoreOnAFullDisk(t *testing.T) {
	folder := smallDisk(t)
	s := openStore(t, Options{Path: filepath.Join(folder, "kv.db")})
	put(t, s, "a", make([]byte, 10_000))
	before, ballast := everythingIn(t, s), filepath.Join(folder, "ballast")
	fill(t, ballast)
	sameEpoch, other := grownStore(t, before.Head, 1), grownStore(t, genesis(2, [16]byte{8}), 4)
	put(t, sameEpoch, "big", make([]byte, 200<<10))
	for _, source := range []*Store{sameEpoch, other} {
		if err := s.Restore(source.Snapshot()); !errors.Is(err, ErrDiskFull) || !everythingIn(t, s).equal(before) {
			t.Errorf("got %v; want ErrDiskFull", err)
		}
	}
	if files := kept(t, folder); len(files) != 0 {
		t.Errorf("left behind: %q", files)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for _, source := range []*Store{sameEpoch, other} {
		if err := s.Restore(source.Snapshot()); err != nil {
			t.Error(err)
		}
	}
	if files := kept(t, folder); !slices.Equal(files, []string{"lkg-1-3.snap"}) {
		t.Errorf("kept are %q", files)
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
