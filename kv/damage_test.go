package kv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

// filled makes a store with a few pages of every kind.
func filled(t *testing.T) (path string, state map[Key]Entry) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kv.db")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 60 {
		put(t, s, Key(fmt.Sprintf("app/%d", i%40)), make([]byte, i*20))
	}
	if err := s.SetLocal("name", []byte("value")); err != nil {
		t.Fatal(err)
	}
	return path, entries(s.View(), "")
}

func put(t *testing.T, s *Store, key Key, value []byte) {
	t.Helper()
	if err := tryPut(s, key, value); err != nil {
		t.Fatal(err)
	}
}

func tryPut(s *Store, key Key, value []byte) error {
	commit, _, err := s.View().Resolve(Txn{Then: []Op{Put(key, value)}})
	if err != nil {
		return err
	}
	return s.Merge(commit)
}

// Whatever happens to the bytes of the file, opening it never panics and never
// gives another state: it is refused, and left as it was, or it is whole.
func TestDamagedFile(t *testing.T) {
	path, state := filled(t)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for i := range 400 {
		garbled := append([]byte{}, sound...)
		switch i % 4 {
		case 0: // one byte
			garbled[random.IntN(len(garbled))] ^= byte(1 + random.IntN(255))
		case 1: // a page of noise
			page := random.IntN(len(garbled)/4096) * 4096
			for j := range 4096 {
				garbled[page+j] = byte(random.Uint32())
			}
		case 2: // one page where another belongs
			from, to := random.IntN(len(garbled)/4096)*4096, random.IntN(len(garbled)/4096)*4096
			copy(garbled[to:to+4096], sound[from:from+4096])
		case 3: // cut short
			garbled = garbled[:random.IntN(len(garbled))]
		}
		if openDamaged(t, i, garbled, state) {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("only %d of 400 damaged files were refused: the test shows nothing", refused)
	}
}

func openDamaged(t *testing.T, i int, garbled []byte, state map[Key]Entry) (refused bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kv.db")
	if err := os.WriteFile(path, garbled, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Path: path})
	if err != nil {
		var damage *CorruptError
		if !errors.As(err, &damage) {
			t.Errorf("damage %d: %v; want a *CorruptError", i, err)
		}
		if now, _ := os.ReadFile(path); string(now) != string(garbled) {
			t.Errorf("damage %d: the refused file was changed", i)
		}
		return true
	}
	defer s.Close()
	if diff := cmp.Diff(state, entries(s.View(), "")); diff != "" {
		t.Errorf("damage %d: opened with another state:\n%s", i, diff)
	}
	return false
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Open(Options{Path: path}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v, %v; want ErrLocked", second, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Options{Path: path}); err != nil {
		t.Fatalf("after Close: %v", err)
	}
	s.Close()
}

// A write that was not synced is refused and seen by nobody. A full disk
// refuses that write alone; any other failure all that follow.
func TestFailedSync(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  error
		later error
	}{
		{syscall.ENOSPC, ErrDiskFull, nil},
		{syscall.EIO, ErrReadOnly, ErrReadOnly},
	} {
		s, err := Open(Options{Path: filepath.Join(t.TempDir(), "kv.db")})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "a", []byte("before"))
		changed := s.Changed()
		s.disk.commit = func(tx *bolt.Tx) error {
			return errors.Join(fmt.Errorf("sync: %w", tt.cause), tx.Rollback())
		}
		if err := tryPut(s, "a", []byte("after")); !errors.Is(err, tt.want) {
			t.Errorf("%v: %v; want %v", tt.cause, err, tt.want)
		}
		if entry, _ := s.View().Get("a"); string(entry.Value) != "before" || s.View().Rev().Rev != 1 {
			t.Errorf("%v: the refused write is seen: %s", tt.cause, entry.Value)
		}
		select {
		case <-changed:
			t.Errorf("%v: a refused write was signalled", tt.cause)
		default:
		}
		s.disk.commit = (*bolt.Tx).Commit
		if err := tryPut(s, "a", []byte("later")); !errors.Is(err, tt.later) {
			t.Errorf("%v: the next write: %v; want %v", tt.cause, err, tt.later)
		}
		s.Close()
	}
}

// A disk that is really full refuses, and takes writes again when there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small tmpfs can't be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, err := Open(Options{Path: filepath.Join(dir, "kv.db"), HistoryRevs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, "a", []byte("before"))
	ballast := filepath.Join(dir, "ballast")
	os.WriteFile(ballast, make([]byte, 1<<20), 0o600) // takes what there is, then fails
	var full error
	for i := 0; full == nil && i < 100; i++ {
		full = tryPut(s, Key(fmt.Sprintf("big/%d", i)), make([]byte, 100<<10))
	}
	if !errors.Is(full, ErrDiskFull) {
		t.Fatalf("a full disk: %v; want ErrDiskFull", full)
	}
	before := s.View().Rev()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", []byte("after"))
	if got := s.View().Rev(); got != before.Next() {
		t.Errorf("revision %s after %s", got, before)
	}
}

func TestClosedStore(t *testing.T) {
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Watch("", Rev{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := w.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next: %v; want ErrClosed", err)
	}
	if err := tryPut(s, "a", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Merge: %v; want ErrClosed", err)
	}
}
