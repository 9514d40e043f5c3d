package kv

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Local values are durable, have no revision and are apart from the keys.
func TestLocal(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "kv.db")} {
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		changed, value := s.Changed(), []byte("first")
		for _, name := range []string{"good/a", "good/a/b", "good/a-b", "other"} {
			if err := s.SetLocal(name, value); err != nil {
				t.Fatal(err)
			}
		}
		value[0] = 'X' // the store has its own copy
		if err := errors.Join(s.SetLocal("good/a", nil), s.DeleteLocal("good/a-b"), s.DeleteLocal("none")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
			t.Error("a local value signalled a change")
		default:
		}
		if s.View().Len() != 0 || s.View().Rev().Rev != 0 {
			t.Errorf("local values are seen as keys: %d at %s", s.View().Len(), s.View().Rev())
		}
		if path != "" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(Options{Path: path}); err != nil {
				t.Fatal(err)
			}
		}
		got := maps.Collect(s.LocalUnder("good"))
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"good/a", "good/a/b"}) || string(got["good/a/b"]) != "first" {
			t.Errorf("path %q: %q", path, got)
		}
		if value, there := s.Local("good/a"); !there || len(value) != 0 {
			t.Errorf("an empty value: %q, %v", value, there)
		}
		if _, there := s.Local("none"); there {
			t.Error("a name that nobody set is there")
		}
		s.Close()
		if err := s.SetLocal("a", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestLocalName(t *testing.T) {
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, good := range map[string]bool{"": false, "\x00 any/../byte": true, strings.Repeat("n", MaxLocalNameBytes): true, strings.Repeat("n", MaxLocalNameBytes+1): false} {
		var refusal *KeyError
		if err := s.SetLocal(name, nil); (err == nil) != good || !good && !errors.As(err, &refusal) {
			t.Errorf("name of %d bytes: %v", len(name), err)
		}
	}
}
