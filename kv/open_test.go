package kv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpenNew(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Path: filepath.Join(dir, "kv.db")})
	if head := s.View().Head(); head.Rev != (Rev{Epoch: 1}) || head.EpochID == ([16]byte{}) || s.View().Len() != 0 {
		t.Errorf("a new store has %d keys and head %+v", s.View().Len(), head)
	}
	if other := openStore(t, Options{}); other.View().Head().EpochID == s.View().Head().EpochID {
		t.Error("two new stores have the same epoch id")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v; want the store alone", files, err)
	}
}

// What can't be opened is one line that names the path and says why.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for path, content := range map[string]string{"file": "x", "empty": "", "text": strings.Repeat("no store\n", 5000)} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none", "kv.db"): "no such file or directory",
		filepath.Join(file, "kv.db"):        "not a directory",
		dir:                                 "is a directory",
		file:                                "is corrupt and was left as it is: meta page 0 is cut off",
		filepath.Join(dir, "empty"):         "is corrupt and was left as it is: meta page 0 is cut off",
		filepath.Join(dir, "text"):          "is corrupt and was left as it is: meta page 0 is not that of a store",
	} {
		s, err := Open(Options{Path: path})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want the path and %q", path, err, want)
		}
	}
}

func TestOpenLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path})
	if _, err := Open(Options{Path: path}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("second Open: %v; want ErrLocked", err)
	}
	put(t, s, "a", nil) // the attempt did no harm
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, Options{Path: path})
	if again.View().Len() != 1 {
		t.Errorf("%d keys after Close and Open; want 1", again.View().Len())
	}
}

// A refused file is not left locked.
func TestOpenReleasesWhatItRefuses(t *testing.T) {
	sound, want := filled(t)
	path := filepath.Join(t.TempDir(), "kv.db")
	damaged := append([]byte{}, sound...)
	damaged[pageHeader]++
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); err == nil {
		t.Fatal("a damaged file was opened")
	}
	if err := os.WriteFile(path, sound, 0o600); err != nil { // the backup is put in its place
		t.Fatal(err)
	}
	if got := everythingIn(t, openStore(t, Options{Path: path})); !got.equal(want) {
		t.Error("the backup has another state")
	}
}

func TestClosedStore(t *testing.T) {
	s := openStore(t, Options{Path: filepath.Join(t.TempDir(), "kv.db")})
	put(t, s, "a", nil)
	w, err := s.Watch("", s.View().Rev())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := w.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next: %v; want ErrClosed", err)
	}
	if err := tryPut(s, "a", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Merge: %v; want ErrClosed", err)
	}
	if _, there := s.View().Get("a"); !there {
		t.Error("a closed store has lost its view")
	}
}
