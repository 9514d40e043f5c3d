package kv

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a store made of maps: obviously right and slow.
type model struct {
	states []map[Key]Entry // by revision
	oldest int             // the first revision that is kept
}

func (m *model) now() map[Key]Entry { return m.states[len(m.states)-1] }

func (m *model) rev() Rev { return Rev{Epoch: 1, Rev: uint64(len(m.states) - 1)} }

// do runs a transaction and says whether the compares held and a revision was
// made.
func (m *model) do(t Txn) (succeeded, changed bool) {
	succeeded = true
	for _, c := range t.Compare {
		succeeded = succeeded && m.holds(c)
	}
	ops := t.Then
	if !succeeded {
		ops = t.Else
	}
	next, rev := maps.Clone(m.now()), m.rev().Next()
	written := map[Key]bool{}
	for _, op := range ops {
		switch op.Kind {
		case OpPut:
			entry := Entry{Key: op.Key, Value: op.Value, CreateRev: rev, ModRev: rev, Version: 1, By: t.By, Message: t.Message}
			if old, there := next[op.Key]; there {
				entry.CreateRev, entry.Version = old.CreateRev, old.Version
				if old.ModRev != rev {
					entry.Version++
				}
			}
			next[op.Key], written[op.Key] = entry, true
		default:
			maps.DeleteFunc(next, func(key Key, _ Entry) bool {
				gone := op.Kind == OpDelete && key == op.Key || op.Kind == OpDeleteRange && covers(op.Prefix, key)
				if gone {
					written[key] = true
				}
				return gone
			})
		}
	}
	for key := range written {
		_, before := m.now()[key]
		_, after := next[key]
		changed = changed || before || after
	}
	if changed {
		m.states = append(m.states, next)
	}
	return succeeded, changed
}

func covers(prefix string, key Key) bool {
	if strings.HasSuffix(prefix, "/") {
		return strings.HasPrefix(string(key), prefix)
	}
	return string(key) == prefix || strings.HasPrefix(string(key), prefix+"/")
}

func (m *model) holds(c Compare) bool {
	entry, there := m.now()[c.Key]
	order := 0
	switch c.Target {
	case TargetAbsent:
		return there != (c.Op == Equal)
	case TargetModRev:
		order = entry.ModRev.Compare(c.Rev)
	case TargetVersion:
		order = int(entry.Version) - int(c.Version)
	case TargetValue:
		if !there {
			return c.Op == NotEqual
		}
		order = bytes.Compare(entry.Value, c.Value)
	}
	return map[CompareOp]bool{Equal: order == 0, NotEqual: order != 0, Less: order < 0, Greater: order > 0}[c.Op]
}

var (
	someKey    = rapid.SampledFrom([]Key{"a", "a/b", "a/bc", "a/b/c", "a-b", "b", "gateway/routes/app", "gateway/routes/app-dev"})
	somePrefix = rapid.SampledFrom([]string{"a", "a/", "a/b", "b", "gateway/routes/app", "gateway", "none"})
	someValue  = rapid.SliceOfN(rapid.Byte(), 0, 4)
	someOp     = rapid.OneOf(
		rapid.Custom(func(t *rapid.T) Op { return Put(someKey.Draw(t, "key"), someValue.Draw(t, "value")) }),
		rapid.Custom(func(t *rapid.T) Op { return Delete(someKey.Draw(t, "key")) }),
		rapid.Custom(func(t *rapid.T) Op { return DeleteRange(somePrefix.Draw(t, "prefix")) }),
	)
	someCompare = rapid.Custom(func(t *rapid.T) Compare {
		c := Compare{
			Key: someKey.Draw(t, "key"), Target: rapid.SampledFrom([]Target{TargetModRev, TargetVersion, TargetValue, TargetAbsent}).Draw(t, "target"),
			Op:  rapid.SampledFrom([]CompareOp{Equal, NotEqual, Less, Greater}).Draw(t, "op"),
			Rev: Rev{Epoch: 1, Rev: rapid.Uint64Range(0, 20).Draw(t, "rev")}, Version: rapid.Uint64Range(0, 3).Draw(t, "version"), Value: someValue.Draw(t, "value"),
		}
		if c.Target == TargetAbsent {
			c.Op %= 2
		}
		return c
	})
	someTxn = rapid.Custom(func(t *rapid.T) Txn {
		return Txn{
			Compare: rapid.SliceOfN(someCompare, 0, 2).Draw(t, "compare"),
			Then:    rapid.SliceOfN(someOp, 0, 4).Draw(t, "then"), Else: rapid.SliceOfN(someOp, 0, 2).Draw(t, "else"),
			By: rapid.SampledFrom([]string{"", "uid:0"}).Draw(t, "by"), Message: rapid.SampledFrom([]string{"", "why"}).Draw(t, "message"),
		}
	})
)

// machine runs the same transactions on a store and on the model.
type machine struct {
	store   *Store
	options Options
	model   model
	watcher *Watcher
	// watched is what the watcher's events make of the state it began with.
	watched map[Key]Entry
}

func (m *machine) open(t *rapid.T) {
	var err error
	if m.store, err = Open(m.options); err != nil {
		t.Fatalf("open: %v", err)
	}
}

func (m *machine) write(t *rapid.T) {
	txn := someTxn.Draw(t, "txn")
	commit, result, err := m.store.View().Resolve(txn)
	if err != nil {
		t.Fatalf("%+v: %v", txn, err)
	}
	if !commit.Rev.IsZero() {
		if err := m.store.Merge(commit); err != nil {
			t.Fatalf("merge: %v", err)
		}
	}
	succeeded, changed := m.model.do(txn)
	if result.Succeeded != succeeded || result.Rev != m.model.rev() || commit.Rev.IsZero() == changed {
		t.Fatalf("%+v gave %+v; want succeeded %v, changed %v, revision %s", txn, result, succeeded, changed, m.model.rev())
	}
	m.model.oldest = max(m.model.oldest, len(m.model.states)-1-m.options.HistoryRevs)
}

func (m *machine) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	m.open(t)
	m.watch(t)
}

// watch begins anew from the present view.
func (m *machine) watch(t *rapid.T) {
	var err error
	if m.watcher, err = m.store.Watch("a", Rev{}); err != nil {
		t.Fatalf("watch: %v", err)
	}
	m.watched = entries(m.store.View(), "a")
}

// follow replays what the watcher has, and compares the result with the view.
func (m *machine) follow(t *rapid.T) {
	for m.watcher.Rev() != m.store.View().Rev() {
		batch, err := m.watcher.advance(m.store.now.Load().history)
		if errors.Is(err, ErrCompacted) {
			m.watch(t) // told, and never silently behind
			return
		}
		if err != nil {
			t.Fatalf("advance: %v", err)
		}
		for i, event := range batch.Events {
			if event.Entry.ModRev != batch.Rev {
				t.Fatalf("event of %s in the batch of %s", event.Entry.ModRev, batch.Rev)
			}
			if i > 0 && batch.Events[i-1].Entry.Key >= event.Entry.Key {
				t.Fatalf("events out of order: %v", batch.Events)
			}
			if event.Type == EventDelete {
				delete(m.watched, event.Entry.Key)
			} else {
				m.watched[event.Entry.Key] = event.Entry
			}
		}
	}
	if diff := cmp.Diff(entries(m.store.View(), "a"), m.watched); diff != "" {
		t.Fatalf("what the watcher saw is not the state (-state +watched):\n%s", diff)
	}
}

// past reads a revision that is kept, or one that is not.
func (m *machine) past(t *rapid.T) {
	rev := rapid.IntRange(0, len(m.model.states)).Draw(t, "past")
	view, err := m.store.At(Rev{Epoch: 1, Rev: uint64(rev)})
	switch {
	case rev < m.model.oldest && !errors.Is(err, ErrCompacted):
		t.Fatalf("revision %d of %d: %v; want ErrCompacted", rev, m.model.oldest, err)
	case rev == len(m.model.states) && !errors.Is(err, ErrFuture):
		t.Fatalf("revision %d: %v; want ErrFuture", rev, err)
	case rev >= m.model.oldest && rev < len(m.model.states):
		if err != nil {
			t.Fatalf("revision %d: %v", rev, err)
		}
		if diff := cmp.Diff(m.model.states[rev], entries(view, "")); diff != "" {
			t.Fatalf("revision %d (-model +store):\n%s", rev, diff)
		}
	}
}

func (m *machine) Check(t *rapid.T) {
	if diff := cmp.Diff(m.model.now(), entries(m.store.View(), "")); diff != "" {
		t.Fatalf("(-model +store):\n%s", diff)
	}
}

func entries(v View, prefix string) map[Key]Entry {
	all := map[Key]Entry{}
	for entry := range v.Under(prefix) {
		if len(entry.Value) == 0 {
			entry.Value = []byte{}
		}
		all[entry.Key] = entry
	}
	return all
}

// The store does what a few maps do, whatever is asked of it in whatever order,
// also over restarts, and with a history that is short.
func TestStoreIsTheModel(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := &machine{
			options: Options{Path: filepath.Join(dir, fmt.Sprint(n)), HistoryRevs: rapid.IntRange(1, 12).Draw(t, "history")},
			model:   model{states: []map[Key]Entry{{}}},
		}
		m.open(t)
		defer func() { m.store.Close() }()
		m.watch(t)
		t.Repeat(map[string]func(*rapid.T){
			"write": m.write, "write again": m.write, "reopen": m.reopen, "follow": m.follow, "past": m.past, "": m.Check,
		})
	})
}

// Two views that get the same transactions are equal to the last hash; commits
// may come twice, and never with one missing or from elsewhere.
func TestMergeIsTheOneDoor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, err := Open(Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		var commits []Commit
		for range rapid.IntRange(1, 10).Draw(t, "commits") {
			commit, _, err := source.View().Resolve(someTxn.Draw(t, "txn"))
			if err != nil {
				t.Fatal(err)
			}
			if commit.Rev.IsZero() {
				continue
			}
			if err := source.Merge(commit); err != nil {
				t.Fatal(err)
			}
			commits = append(commits, commit)
		}
		if len(commits) == 0 {
			return
		}
		copied := &Store{revs: 100, bytes: 1 << 30, closed: make(chan struct{})}
		copied.now.Store(&state{view: View{head: source.now.Load().history.base}, history: history{base: source.now.Load().history.base}, changed: make(chan struct{})})
		for next := 0; next < len(commits); {
			i := rapid.IntRange(0, len(commits)-1).Draw(t, "commit")
			switch err := copied.Merge(commits[i]); {
			case i == next && err == nil:
				next++
			case i < next && err == nil: // a repetition
			case i > next && errors.Is(err, ErrGap):
			default:
				t.Fatalf("commit %d when %d is next: %v", i, next, err)
			}
		}
		if copied.View().Head() != source.View().Head() {
			t.Fatalf("heads %+v and %+v", copied.View().Head(), source.View().Head())
		}
		if diff := cmp.Diff(entries(source.View(), ""), entries(copied.View(), "")); diff != "" {
			t.Fatal(diff)
		}
		forged := commits[len(commits)-1]
		forged.Hash[0]++
		if err := copied.Merge(forged); !errors.Is(err, ErrDiverged) {
			t.Fatalf("a commit with another hash: %v; want ErrDiverged", err)
		}
		foreign := forged
		foreign.Rev.Rev++
		foreign.Prev[0]++
		if err := copied.Merge(foreign); !errors.Is(err, ErrDiverged) {
			t.Fatalf("a commit of another history: %v; want ErrDiverged", err)
		}
	})
}

func TestUnder(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		key    Key
		want   bool
	}{
		{"gateway/routes/app", "gateway/routes/app", true},
		{"gateway/routes/app", "gateway/routes/app/x", true},
		{"gateway/routes/app", "gateway/routes/app-dev", false},
		{"gateway/routes/", "gateway/routes/app", true},
		{"gateway/routes/app/", "gateway/routes/app", false},
		{"", "a", true},
	} {
		if got := Under(tt.prefix, tt.key); got != tt.want {
			t.Errorf("Under(%q, %q) = %v", tt.prefix, tt.key, got)
		}
	}
	if _, _, err := (View{}).Resolve(Txn{Then: []Op{DeleteRange("")}}); err == nil {
		t.Error("a range delete of everything was taken")
	}
	if !slices.IsSortedFunc(slices.Collect(View{}.Under("")), func(a, b Entry) int { return strings.Compare(string(a.Key), string(b.Key)) }) {
		t.Error("not sorted")
	}
}
