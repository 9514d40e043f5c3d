package kv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testPage = 4096

// filled makes a file with several pages of every kind, and returns its bytes
// and all that the store in it holds.
func filled(t *testing.T) ([]byte, everything) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path, HistoryRevs: 100})
	s.disk.db.NoSync = true
	for i := range 200 {
		put(t, s, Key(fmt.Sprintf("app/%d", i%120)), make([]byte, i*10))
		if i%10 == 0 {
			if err := s.SetLocal(fmt.Sprintf("name/%d", i), make([]byte, 500)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := everythingIn(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sound, want
}

// everything is what a store holds, as readers see it.
type everything struct {
	Head    Head
	Keys    map[Key]Entry
	Local   map[string][]byte
	History []Commit
	Done    map[string]Result // by request id
}

func everythingIn(t *testing.T, s *Store) everything {
	t.Helper()
	history, err := s.History("", Rev{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return everything{
		Head: s.View().Head(), Keys: entries(s.View(), ""),
		Local: maps.Collect(s.LocalUnder("")), History: history, Done: doneBy(s),
	}
}

func doneBy(s *Store) map[string]Result {
	done := map[string]Result{}
	for _, r := range s.now.Load().requests.ordered {
		done[r.id], _ = s.Committed(r.id)
	}
	return done
}

func openStore(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, key Key, value []byte) {
	t.Helper()
	if err := tryPut(s, key, value); err != nil {
		t.Fatal(err)
	}
}

func tryPut(s *Store, key Key, value []byte) error {
	id := "request " + s.View().Rev().Next().String()
	commit, _, err := s.View().Resolve(Txn{ID: id, Then: []Op{Put(key, value)}})
	if err != nil {
		return err
	}
	return s.Merge(commit)
}

// Whatever happens to the bytes of the file, opening it never panics and never
// gives another state: it is refused, and left as it was, or it is whole, and
// then stays whole when it is written to.
func TestRandomDamage(t *testing.T) {
	sound, want := filled(t)
	random := rand.New(rand.NewPCG(1, 2))
	page := func() int { return random.IntN(len(sound)/testPage) * testPage }
	kinds := []func([]byte) []byte{
		func(b []byte) []byte { // one byte, anywhere
			b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
			return b
		},
		func(b []byte) []byte { // one byte where pages keep their structure
			b[page()+random.IntN(64)] ^= byte(1 + random.IntN(255))
			return b
		},
		func(b []byte) []byte { // a page of noise
			for p, i := page(), 0; i < testPage; i++ {
				b[p+i] = byte(random.Uint32())
			}
			return b
		},
		func(b []byte) []byte { // a page of zeros
			clear(b[page():][:testPage])
			return b
		},
		func(b []byte) []byte { // a page where another belongs
			copy(b[page():][:testPage], sound[page():])
			return b
		},
		func(b []byte) []byte { return b[:random.IntN(len(b))] }, // cut short
	}
	refused := make([]int, len(kinds))
	for i := range 600 {
		kind := i % len(kinds)
		if !survives(t, fmt.Sprintf("case %d of kind %d", i, kind), kinds[kind](bytes.Clone(sound)), want) {
			refused[kind]++
		}
	}
	t.Logf("refused of 100 each: %v", refused)
	if slices.Min(refused) < 10 {
		t.Errorf("refused of 100 each: %v; so few show nothing", refused)
	}
}

// survives opens a damaged file and reports whether it opened, with all in it.
func survives(t *testing.T, name string, damaged []byte, want everything) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kv.db")
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Path: path})
	if err != nil {
		checkRefusal(t, name, err, path, damaged)
		return false
	}
	defer s.Close()
	if got := everythingIn(t, s); !got.equal(want) {
		t.Errorf("%s: opened with another state (-want +got):\n%s", name, cmp.Diff(want, got))
	}
	s.disk.db.NoSync = true
	put(t, s, "app/after", make([]byte, 3*testPage)) // takes free pages
	written := everythingIn(t, s)
	if err := s.Close(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if s, err = Open(Options{Path: path}); err != nil {
		t.Errorf("%s: after a write: %v", name, err)
		return true
	}
	defer s.Close()
	if got := everythingIn(t, s); !got.equal(written) {
		t.Errorf("%s: a write gave another state (-want +got):\n%s", name, cmp.Diff(written, got))
	}
	return true
}

func (e everything) equal(other everything) bool {
	same := func(a, b Entry) bool {
		return a.ModRev == b.ModRev && a.Version == b.Version && bytes.Equal(a.Value, b.Value)
	}
	sameCommit := func(a, b Commit) bool { return a.Hash == b.Hash && a.Hash == b.hash() }
	return e.Head == other.Head && maps.EqualFunc(e.Keys, other.Keys, same) &&
		maps.EqualFunc(e.Local, other.Local, bytes.Equal) && slices.EqualFunc(e.History, other.History, sameCommit) &&
		maps.EqualFunc(e.Done, other.Done, func(a, b Result) bool { return a.Rev == b.Rev && slices.Equal(a.Changed, b.Changed) })
}

func checkRefusal(t *testing.T, name string, err error, path string, damaged []byte) {
	t.Helper()
	var damage *CorruptError
	if !errors.As(err, &damage) || damage.Path != path || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v; want one line, a *CorruptError", name, err)
	}
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, damaged) {
		t.Errorf("%s: the refused file was changed, %v", name, err)
	}
	others, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(others) != 1 {
		t.Errorf("%s: beside the refused file there is %v, %v", name, others, err)
	}
}
