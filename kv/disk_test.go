package kv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A write of which the sync failed is refused and seen by nobody. A full disk
// refuses that write alone, if it is certain that nothing happened; anything else
// refuses all that follow, until the file is opened again.
func TestFailedSync(t *testing.T) {
	refuse := func(cause error) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error { return errors.Join(fmt.Errorf("sync: %w", cause), tx.Rollback()) }
	}
	late := func(cause error) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), cause) }
	}
	for _, tt := range []struct {
		name   string
		commit func(*bolt.Tx) error
		want   error
		later  error
		file   string // what the file holds when it is opened again without a later write
	}{
		{"disk full", refuse(syscall.ENOSPC), ErrDiskFull, nil, "before"},
		{"quota used up", refuse(syscall.EDQUOT), ErrDiskFull, nil, "before"},
		{"disk full while growing", refuse(errors.New("file resize error: truncate: no space left on device")), ErrDiskFull, nil, "before"},
		{"disk full when all was written", late(syscall.ENOSPC), ErrReadOnly, ErrReadOnly, "after"},
		{"input/output error", refuse(syscall.EIO), ErrReadOnly, ErrReadOnly, "before"},
		{"input/output error when all was written", late(syscall.EIO), ErrReadOnly, ErrReadOnly, "after"},
		{"panic", func(*bolt.Tx) error { panic("page 7: damaged") }, ErrReadOnly, ErrReadOnly, "before"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kv.db")
			s := openStore(t, Options{Path: path})
			put(t, s, "a", []byte("before"))
			changed, before := s.Changed(), s.View().Head()
			s.disk.commit = tt.commit
			if err := tryPut(s, "a", []byte("after")); !errors.Is(err, tt.want) {
				t.Errorf("got %v; want %v", err, tt.want)
			}
			if entry, _ := s.View().Get("a"); string(entry.Value) != "before" || s.View().Head() != before {
				t.Errorf("the refused write is seen: %q at %s", entry.Value, s.View().Rev())
			}
			select {
			case <-changed:
				t.Error("a refused write was signalled")
			default:
			}
			s.disk.commit = (*bolt.Tx).Commit
			if err := s.SetLocal("name", nil); !errors.Is(err, tt.later) {
				t.Errorf("the next write: %v; want %v", err, tt.later)
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			again := openStore(t, Options{Path: path})
			if entry, _ := again.View().Get("a"); string(entry.Value) != tt.file {
				t.Errorf("the file has %q; want %q", entry.Value, tt.file)
			}
		})
	}
}

// A file that is cut off while it is open does not end the process. Reading goes
// on from memory.
func TestFileCutOffWhileOpen(t *testing.T) {
	sound, want := filled(t)
	path := filepath.Join(t.TempDir(), "kv.db")
	if err := os.WriteFile(path, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Path: path})
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tryPut(s, "app/1", nil); !errors.Is(err, ErrReadOnly) {
			t.Errorf("got %v; want ErrReadOnly", err)
		}
	}
	if !everythingIn(t, s).equal(want) {
		t.Error("what was in memory has changed")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// smallDisk is a folder on a disk of 1 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small tmpfs can't be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A disk that is really full refuses, and takes writes again when there is room.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path, ballast := filepath.Join(dir, "kv.db"), filepath.Join(dir, "ballast")
	fill(t, ballast)
	if _, err := Open(Options{Path: path}); !errors.Is(err, ErrDiskFull) {
		t.Errorf("a new store on a full disk: %v; want ErrDiskFull", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Path: path, HistoryRevs: 1})
	for round := range 3 {
		put(t, s, "a", fmt.Append(nil, "before ", round))
		fill(t, ballast)
		before := everythingIn(t, s)
		for i := range 3 {
			if err := tryPut(s, "big", make([]byte, 200<<10)); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("round %d, write %d to a full disk: %v; want ErrDiskFull", round, i, err)
			}
		}
		if !everythingIn(t, s).equal(before) {
			t.Errorf("round %d: a refused write changed something", round)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", fmt.Append(nil, "after ", round))
	}
	want := everythingIn(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !everythingIn(t, openStore(t, Options{Path: path})).equal(want) {
		t.Error("the file has another state")
	}
}

// fill writes to a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}
