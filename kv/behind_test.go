package kv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

// putSoon is put with MergeSoon.
func putSoon(s *Store, soon Soon, key Key, value string) error {
	commit, _, err := s.View().Resolve(Txn{ID: "soon " + string(key) + value, Then: []Op{Put(key, []byte(value))}})
	if err != nil {
		return err
	}
	return s.MergeSoon(soon, commit)
}

// copyOf is what a crash now would leave of a store's file.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	from, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	copied := filepath.Join(t.TempDir(), "kv.db")
	to, err := os.Create(copied)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}

// gated lets a store's transactions pass one for one token.
func gated(s *Store) (pass chan struct{}) {
	pass = make(chan struct{})
	s.disk.commit = func(tx *bolt.Tx) error {
		<-pass
		return tx.Commit()
	}
	return pass
}

// Readers see what is merged soon before the disk has it. A crash in between leaves
// the revision before, whole, and to the end of Flush all is there.
func TestMergeSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path})
	put(t, s, "a", []byte("before"))
	before := everythingIn(t, s)
	pass := gated(s)
	for i := range 10 {
		if err := putSoon(s, Soon{}, "a", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if entry, _ := s.View().Get("a"); string(entry.Value) != "9" {
		t.Errorf("readers see %q; want 9", entry.Value)
	}
	crashed := openStore(t, Options{Path: copyOf(t, path)})
	if got := everythingIn(t, crashed); !got.equal(before) {
		t.Errorf("a crash leaves %+v; want %+v", got, before)
	}
	close(pass)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	flushed := openStore(t, Options{Path: copyOf(t, path)})
	if got, want := everythingIn(t, flushed), everythingIn(t, s); !got.equal(want) {
		t.Errorf("after Flush the file has %+v; want %+v", got, want)
	}
}

// Everything else that writes comes after what is unsaved, and Close takes it along:
// the file is opened with all of it, also when the history is short and forgets.
func TestMergeSoonAmongOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	options := Options{Path: path, HistoryRevs: 4}
	s := openStore(t, options)
	for i := range 60 {
		key := Key(fmt.Sprintf("k%d", i%7))
		switch i % 9 {
		case 3:
			put(t, s, key, []byte("synced"))
		case 5:
			if err := s.SetLocal("name", []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		case 7:
			if err := s.Restore(s.Snapshot()); err != nil {
				t.Fatal(err)
			}
		case 8:
			if err := s.NewEpoch([16]byte{1, byte(i)}, nil); err != nil {
				t.Fatal(err)
			}
		default:
			if err := putSoon(s, Soon{Gather: SaveWithin}, key, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := everythingIn(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := everythingIn(t, openStore(t, options)); !got.equal(want) {
		t.Errorf("the file has %s", cmp.Diff(want, got, cmp.AllowUnexported(everything{})))
	}
}

// A store that is far ahead of its disk waits for it.
func TestMergeSoonWaitsForASlowDisk(t *testing.T) {
	s := openStore(t, Options{Path: filepath.Join(t.TempDir(), "kv.db")})
	pass := gated(s)
	for i := range maxUnsaved {
		if err := putSoon(s, Soon{}, "a", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- putSoon(s, Soon{}, "a", "one more") }()
	select {
	case err := <-done:
		t.Errorf("the disk wrote nothing yet, and the merge returned: %v", err)
	case pass <- struct{}{}:
	}
	close(pass)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A disk that fails is told of; from then on nobody sees what it does not have. When
// it has room again it is given all that was missing.
func TestMergeSoonOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path})
	var full atomic.Bool
	full.Store(true)
	s.disk.commit = func(tx *bolt.Tx) error {
		if full.Load() {
			return errors.Join(syscall.ENOSPC, tx.Rollback())
		}
		return tx.Commit()
	}
	told := make(chan error, 1)
	soon := Soon{Failed: func(err error) { told <- err }}
	if err := putSoon(s, soon, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := <-told; !errors.Is(err, ErrDiskFull) {
		t.Errorf("told of %v; want %v", err, ErrDiskFull)
	}
	if err := putSoon(s, soon, "a", "2"); !errors.Is(err, ErrDiskFull) {
		t.Errorf("the next merge: %v; want %v", err, ErrDiskFull)
	}
	if entry, _ := s.View().Get("a"); string(entry.Value) != "1" {
		t.Errorf("readers see %q; want 1", entry.Value)
	}
	if err := s.Flush(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("Flush: %v; want %v", err, ErrDiskFull)
	}
	full.Store(false)
	if err := putSoon(s, soon, "a", "3"); err != nil {
		t.Fatal(err)
	}
	want := everythingIn(t, s)
	if got := everythingIn(t, openStore(t, Options{Path: copyOf(t, path)})); !got.equal(want) {
		t.Errorf("the file has %+v; want %+v", got, want)
	}
}
