package kv

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
)

// grownStore is a store in memory of n commits, each signed and with an id.
func grownStore(t *testing.T, start Head, n int) *Store {
	t.Helper()
	s := storeAt(start)
	for i := range n {
		commit, _, err := s.View().Resolve(Txn{ID: fmt.Sprint("id ", i), By: "uid:0", Then: []Op{Put(Key(fmt.Sprint("k", i)), fmt.Append(nil, i))}})
		commit.Signature[0] = byte(i + 1)
		if err := errors.Join(err, s.Merge(commit)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// A watcher waits while its state is replaced. It is told, unless the restored
// history leads through where it stands.
func TestWatchersOfARestore(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source func(t *testing.T, base *Store) *Store
		want   error // nil: it goes on, and sees the next revision
	}{
		{"older state of the same history", func(t *testing.T, _ *Store) *Store { return grownStore(t, start, 3) }, ErrCompacted},
		{"newer state of the same history", func(t *testing.T, _ *Store) *Store { return grownStore(t, start, 6) }, ErrCompacted},
		{"the same state", func(t *testing.T, _ *Store) *Store { return grownStore(t, start, 5) }, nil},
		{"the same revision of another history", func(t *testing.T, _ *Store) *Store { return grownStore(t, genesis(1, [16]byte{8}), 5) }, ErrCompacted},
		{"a later epoch", func(t *testing.T, base *Store) *Store {
			if err := base.NewEpoch([16]byte{8}, nil); err != nil {
				t.Fatal(err)
			}
			return base
		}, ErrCompacted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := grownStore(t, start, 5)
				source := tt.source(t, grownStore(t, start, 5))
				w, err := s.Watch("", Rev{})
				if err != nil {
					t.Fatal(err)
				}
				told := make(chan error, 1)
				go func() {
					_, err := w.Next(t.Context())
					told <- err
				}()
				synctest.Wait()
				if err := s.Restore(source.Snapshot()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if tt.want == nil {
					put(t, s, "after", nil)
				}
				if err := <-told; !errors.Is(err, tt.want) {
					t.Errorf("Next: %v; want %v", err, tt.want)
				}
			})
		})
	}
}

// A watcher that was away while the state went back, and on again by another way
// to a revision that it knew, is told.
func TestWatcherThatSleptOverARestore(t *testing.T) {
	s := grownStore(t, start, 5)
	w, err := s.Watch("", Rev{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(grownStore(t, start, 3).Snapshot()); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		put(t, s, "other", nil)
	}
	var compacted *CompactedError
	if _, err := w.Next(t.Context()); !errors.As(err, &compacted) || compacted.Oldest != (Rev{1, 3}) {
		t.Errorf("Next: %v; want a *CompactedError with the oldest 1.3", err)
	}
}

// What changed since a view of before is not known after a restore, and known
// again of what comes after it.
func TestChangedSinceOverARestore(t *testing.T) {
	s := grownStore(t, start, 5)
	before := s.View()
	if err := s.Restore(grownStore(t, start, 6).Snapshot()); err != nil {
		t.Fatal(err)
	}
	restored := s.View()
	put(t, s, "after", nil)
	if keys, ok := s.View().ChangedSince(before); ok {
		t.Errorf("since before the restore: %q", keys)
	}
	if keys, ok := s.View().ChangedSince(restored); !ok || !slices.Equal(keys, []Key{"after"}) {
		t.Errorf("since the restore: %q, %v", keys, ok)
	}
}

// Two stores with one snapshot go their own ways: they share nothing that is
// written to.
func TestRestoreSharesNothing(t *testing.T) {
	source := grownStore(t, start, 5)
	want := source.Snapshot()
	target := storeAt(start)
	if err := target.Restore(want); err != nil {
		t.Fatal(err)
	}
	resolved(t, target, Txn{ID: "of the target", Then: []Op{Put("a", nil)}})
	resolved(t, source, Txn{ID: "of the source", Then: []Op{Put("b", nil)}})
	resolved(t, target, Txn{ID: "later", Then: []Op{Put("c", nil)}})
	for _, tt := range []struct {
		s  *Store
		id string
	}{{target, "of the target"}, {source, "of the source"}} {
		ids := []string{}
		for _, r := range tt.s.now.Load().requests.ordered {
			ids = append(ids, r.id)
		}
		if !slices.Contains(ids, tt.id) {
			t.Errorf("%q is not among %q", tt.id, ids)
		}
	}
}

// Entries that differ in anything are written.
func TestDifferences(t *testing.T) {
	base := Entry{Key: "b", Value: []byte("v"), CreateRev: Rev{1, 1}, ModRev: Rev{1, 2}, Version: 2, By: "by", Message: "why", At: time.Unix(1, 2).UTC()}
	view := func(all ...Entry) View {
		keys := View{}.begin()
		for _, entry := range all {
			keys.Insert([]byte(entry.Key), &entry)
		}
		return View{keys: keys.CommitOnly()}
	}
	for name, change := range map[string]func(*Entry){
		"value":    func(e *Entry) { e.Value = []byte("w") },
		"created":  func(e *Entry) { e.CreateRev.Rev++ },
		"modified": func(e *Entry) { e.ModRev.Epoch++ },
		"version":  func(e *Entry) { e.Version++ },
		"author":   func(e *Entry) { e.By = "" },
		"message":  func(e *Entry) { e.Message = "" },
		"time":     func(e *Entry) { e.At = e.At.Add(1) },
	} {
		changed := base
		change(&changed)
		n := 0
		for before, after := range view(base).differences(view(changed)) {
			if n++; !before.same(&base) || !after.same(&changed) {
				t.Errorf("%s: %+v and %+v", name, before, after)
			}
		}
		if n != 1 {
			t.Errorf("another %s: %d differences", name, n)
		}
	}
	key := func(key Key) Entry { return Entry{Key: key} }
	var got []string
	for before, after := range view(key("a"), base, key("c"), key("e")).differences(view(base, key("c/d"), key("e"), key("f"))) {
		switch {
		case after == nil:
			got = append(got, "-"+string(before.Key))
		case before == nil:
			got = append(got, "+"+string(after.Key))
		}
	}
	if want := []string{"-a", "-c", "+c/d", "+f"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	for range (View{}).differences(View{}) {
		t.Error("two empty views differ")
	}
}

// A restore that fails, before it is written or after, is seen by nobody. The file
// then holds the old state or the new one, whole.
func TestFailedRestore(t *testing.T) {
	source := grownStore(t, genesis(2, [16]byte{8}), 5)
	refuse := func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.EIO) }
	late := func(tx *bolt.Tx) error { return errors.Join(tx.Commit(), syscall.EIO) }
	for _, tt := range []struct {
		name        string
		commit      func(*bolt.Tx) error
		want, later error
		replaced    bool
	}{
		{"disk full", func(tx *bolt.Tx) error { return errors.Join(tx.Rollback(), syscall.ENOSPC) }, ErrDiskFull, nil, false},
		{"input/output error", refuse, ErrReadOnly, ErrReadOnly, false},
		{"input/output error when all was written", late, ErrReadOnly, ErrReadOnly, true},
		{"panic", func(*bolt.Tx) error { panic("page 7: damaged") }, ErrReadOnly, ErrReadOnly, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kv.db")
			s := openStore(t, Options{Path: path})
			put(t, s, "a", nil)
			if err := s.SetLocal("name", []byte("local")); err != nil {
				t.Fatal(err)
			}
			before, changed := everythingIn(t, s), s.Changed()
			s.disk.commit = tt.commit
			if err := s.Restore(source.Snapshot()); !errors.Is(err, tt.want) {
				t.Errorf("got %v; want %v", err, tt.want)
			}
			if !everythingIn(t, s).equal(before) {
				t.Error("a refused restore is seen")
			}
			select {
			case <-changed:
				t.Error("a refused restore was signalled")
			default:
			}
			s.disk.commit = (*bolt.Tx).Commit
			if err := s.SetLocal("name", []byte("local")); !errors.Is(err, tt.later) {
				t.Errorf("the next write: %v; want %v", err, tt.later)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			want := before
			if tt.replaced {
				want = everythingIn(t, source)
				want.History, want.Local = nil, before.Local
			}
			if got := everythingIn(t, openStore(t, Options{Path: path})); !got.equal(want) {
				t.Errorf("the file has another state (-want +got):\n%s", cmp.Diff(want, got))
			}
		})
	}
}

func TestRestoreIntoAClosedStore(t *testing.T) {
	s := openStore(t, Options{Path: filepath.Join(t.TempDir(), "kv.db")})
	snapshot := s.Snapshot()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(snapshot); !errors.Is(err, ErrClosed) {
		t.Errorf("Restore: %v; want ErrClosed", err)
	}
	if err := s.NewEpoch([16]byte{1}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("NewEpoch: %v; want ErrClosed", err)
	}
}

// A file of the first version is replaced as any other.
func TestRestoreIntoVersion1(t *testing.T) {
	path, source := version1(t), grownStore(t, start, 3)
	s := openStore(t, Options{Path: path})
	if err := s.Restore(source.Snapshot()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Path: path})
	compareStores(t, source, s)
	if local, _ := s.Local("name"); string(local) != "local value" {
		t.Errorf("local value %q", local)
	}
}
