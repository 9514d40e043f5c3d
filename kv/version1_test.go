package kv

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// version1 puts a file in its place that the first version wrote: five commits
// with the ids request-1 to request-5 under a history of three, and a local value.
func version1(t *testing.T) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", "version1.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	unpack, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpack)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kv.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file of the first version opens with all that is in it, and is written on as
// one of this version.
func TestOpenVersion1(t *testing.T) {
	path := version1(t)
	hash, _ := hex.DecodeString("d8453293adb9cd5d6e2bd590aac7cdcd5dde82e8303ac797baf7bbcfc74d8586")
	s := openStore(t, Options{Path: path, HistoryRevs: 3})
	head := s.View().Head()
	if head.Rev != (Rev{1, 5}) || head.Index != 104 || head.Hash != Hash(hash) || head.Signature != ([64]byte{}) {
		t.Errorf("head %+v", head)
	}
	values := map[Key]string{}
	for entry := range s.View().Under("") {
		values[entry.Key] = string(entry.Value)
	}
	if len(values) != 4 || values["app/0"] != "again" || values["app/4"] != "value 5" {
		t.Errorf("entries %q", values)
	}
	if local, _ := s.Local("name"); string(local) != "local value" {
		t.Errorf("local value %q", local)
	}
	if _, ok := s.Committed("request-2"); ok {
		t.Error("an id from before the history is known; the first version did not keep it")
	}
	want, ok := s.Committed("request-5")
	if !ok || want.Rev != head.Rev || want.Deleted != 1 || !slices.Equal(want.Changed, []Key{"app/0", "app/1", "app/4"}) {
		t.Errorf("request-5: %+v, %v", want, ok)
	}
	for range 3 { // all that the first version wrote leaves the history
		put(t, s, "app/5", nil)
	}
	before := everythingIn(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Path: path, HistoryRevs: 3})
	if !everythingIn(t, s).equal(before) {
		t.Error("after three writes it opened with another state")
	}
	if got, ok := s.Committed("request-5"); !ok || !slices.Equal(got.Changed, want.Changed) || got.Rev != want.Rev || got.Deleted != 1 || !got.Succeeded {
		t.Errorf("request-5 is remembered as %+v, %v", got, ok)
	}
}
