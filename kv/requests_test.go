package kv

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

// resolved applies a transaction to a store and returns what it was told.
func resolved(t *testing.T, s *Store, txn Txn) Result {
	t.Helper()
	commit, result, err := s.View().Resolve(txn)
	if err == nil && !commit.Rev.IsZero() {
		err = s.Merge(commit)
	}
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// Whoever asks again gets the answer of the first time, also when the commit has
// left the history, and after a restart.
func TestCommittedIsTheResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kv.db")
	s := openStore(t, Options{Path: path, HistoryRevs: 2})
	absent := Compare{Key: "a", Target: TargetAbsent}
	want := map[string]Result{
		"put":    resolved(t, s, Txn{ID: "put", Compare: []Compare{absent}, Then: []Op{Put("a", nil), Put("a/b", nil)}}),
		"else":   resolved(t, s, Txn{ID: "else", Compare: []Compare{absent}, Then: []Op{Put("c", nil)}, Else: []Op{Put("d", nil)}}),
		"delete": resolved(t, s, Txn{ID: "delete", Then: []Op{DeleteRange("a"), Put("e", nil)}}),
	}
	resolved(t, s, Txn{ID: "nothing", Then: []Op{Delete("none")}})
	resolved(t, s, Txn{ID: "", Then: []Op{Put("f", nil)}})
	if want["else"].Succeeded || want["delete"].Deleted != 2 {
		t.Fatalf("the results are not those to be tested: %+v", want)
	}
	check := func(when string) {
		t.Helper()
		for id, result := range want {
			got, ok := s.Committed(id)
			if diff := cmp.Diff(result, got); !ok || diff != "" {
				t.Errorf("%s, %s: known %v (-want +got):\n%s", when, id, ok, diff)
			}
		}
		for _, id := range []string{"nothing", "", "never"} {
			if got, ok := s.Committed(id); ok {
				t.Errorf("%s, %q: %+v", when, id, got)
			}
		}
	}
	check("in part from the history")
	for range 3 {
		resolved(t, s, Txn{Then: []Op{Put("f", nil)}})
	}
	check("after it")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Path: path, HistoryRevs: 2})
	check("after a restart")
}

// Nobody can change what a store remembers.
func TestCommittedIsACopy(t *testing.T) {
	s := storeAt(start)
	s.revs = 1
	for range 2 {
		put(t, s, "a", nil)
	}
	got, _ := s.Committed("request 1.1")
	got.Changed[0] = "b"
	if got, _ = s.Committed("request 1.1"); got.Changed[0] != "a" {
		t.Errorf("it was changed to %q", got.Changed[0])
	}
}

// The newest KeptRequests are known, no more and no fewer, whether the history
// is longer or shorter than that, or is cut by its size.
func TestCommittedIsBounded(t *testing.T) {
	const more = 300
	for name, o := range map[string]Options{
		"long history":        {HistoryRevs: 2 * KeptRequests},
		"short history":       {HistoryRevs: 10},
		"history cut by size": {HistoryBytes: 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			o.Path = filepath.Join(t.TempDir(), "kv.db")
			s := openStore(t, o)
			s.disk.db.NoSync = true
			for written := 0; written < KeptRequests+more; {
				var commits []Commit
				for view := s.View(); len(commits) < 73 && written < KeptRequests+more; written++ {
					var commit Commit
					view, commit = applied(t, view, Txn{ID: strconv.Itoa(written), Then: []Op{Put("a", nil)}})
					commits = append(commits, commit)
				}
				if err := s.Merge(commits...); err != nil {
					t.Fatal(err)
				}
			}
			for _, reopened := range []bool{false, true} {
				if reopened {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = openStore(t, o)
				}
				for i := range KeptRequests + more {
					got, ok := s.Committed(strconv.Itoa(i))
					if ok != (i >= more) || ok && got.Rev.Rev != uint64(i+1) {
						t.Fatalf("reopened %v, id %d of %d: %+v, %v", reopened, i, KeptRequests+more, got, ok)
					}
				}
				onDisk := 0
				if err := s.disk.db.View(func(tx *bolt.Tx) error {
					onDisk = tx.Bucket(bucketRequests).Stats().KeyN
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if n := len(s.now.Load().requests.ordered); n != KeptRequests || onDisk > KeptRequests {
					t.Errorf("reopened %v: %d are kept, and %d on disk apart from the history", reopened, n, onDisk)
				}
			}
		})
	}
}

// An id that is used again stands for its later commit, also when the earlier
// one is forgotten.
func TestCommittedTwice(t *testing.T) {
	s := storeAt(start)
	s.revs = 10
	twice := func() { resolved(t, s, Txn{ID: "twice", Then: []Op{Put("a", nil)}}) }
	twice()
	for i := range KeptRequests - 2 {
		resolved(t, s, Txn{ID: strconv.Itoa(i), Then: []Op{Put("a", nil)}})
	}
	twice()
	resolved(t, s, Txn{ID: "last", Then: []Op{Put("a", nil)}}) // forgets the first
	if got, ok := s.Committed("twice"); !ok || got.Rev.Rev != KeptRequests {
		t.Errorf("got %+v, %v", got, ok)
	}
}

// A commit of very many keys is known with all of them while the history holds
// it, and then without them.
func TestCommittedOfManyKeys(t *testing.T) {
	s := storeAt(start)
	s.revs = 1
	var ops []Op
	for i := range 1000 {
		ops = append(ops, Put(Key(fmt.Sprintf("gateway/routes/%d", i)), nil))
	}
	want := resolved(t, s, Txn{ID: "many", Then: ops})
	if got, _ := s.Committed("many"); !slices.Equal(got.Changed, want.Changed) {
		t.Errorf("in the history: %d keys", len(got.Changed))
	}
	put(t, s, "a", nil)
	if got, ok := s.Committed("many"); !ok || got.Rev != want.Rev || !got.Succeeded || got.Changed != nil {
		t.Errorf("after it: %+v, %v", got, ok)
	}
}

// Records of ids that went missing, or that do not belong there, are found.
func TestDamagedRequests(t *testing.T) {
	for name, change := range map[string]func(*bolt.Bucket) error{
		"one is missing": func(b *bolt.Bucket) error { return b.Delete(revName(Rev{1, 1})) },
		"one is under another name": func(b *bolt.Bucket) error {
			return b.Put(revName(Rev{1, 2}), b.Get(revName(Rev{1, 1})))
		},
		"one is of the history": func(b *bolt.Bucket) error {
			return b.Put(revName(Rev{1, 5}), encodeRequest(&request{id: "x", result: Result{Rev: Rev{1, 5}}}))
		},
		"one has a name that is none": func(b *bolt.Bucket) error {
			return b.Put([]byte("name"), seal(requestVersion, []byte("name"), nil))
		},
	} {
		path := filepath.Join(t.TempDir(), "kv.db")
		s := openStore(t, Options{Path: path, HistoryRevs: 2})
		for range 5 {
			put(t, s, "a", nil)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, func(tx *bolt.Tx) error { return change(tx.Bucket(bucketRequests)) })
		var damage *CorruptError
		if _, err := Open(Options{Path: path}); !errors.As(err, &damage) {
			t.Errorf("%s: %v; want a *CorruptError", name, err)
		}
	}
}
