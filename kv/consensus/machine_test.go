package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"grapevine/kv"
)

type fataler interface {
	Helper()
	Fatal(...any)
}

func memoryStore(t fataler) *kv.Store {
	t.Helper()
	store, err := kv.Open(kv.Options{HistoryRevs: 50})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// bytesOf is a snapshot of a store as it is written.
func bytesOf(t fataler, store *kv.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := store.Snapshot().WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reader(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }

// cloneOf is another store in the same state.
func cloneOf(t fataler, store *kv.Store) *kv.Store {
	t.Helper()
	other := memoryStore(t)
	m := newMachine(other, false, newWatchdog(), func(error) {})
	if err := m.Restore(reader(bytesOf(t, store))); err != nil {
		t.Fatal(err)
	}
	return other
}

// drawLog makes the entries that leaders may have left in a log: commits that
// follow, and such that were resolved on a view that another's write overtook.
func drawLog(t *rapid.T, start kv.View) []*raft.Log {
	view, views := start, []kv.View{start}
	var entries []*raft.Log
	for n := range rapid.IntRange(1, 40).Draw(t, "entries") {
		entry := &raft.Log{Index: uint64(n) + 10, Term: 1, Type: raft.LogCommand}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			entry.Type, entry.Data = raft.LogConfiguration, raft.EncodeConfiguration(someServers)
		case 1: // resolved on an old view
			old := rapid.SampledFrom(views).Draw(t, "old view")
			entry.Data = encodeEntry(drawCommit(t, old))
		case 2: // the same entry once more
			if len(entries) > 0 {
				again := rapid.SampledFrom(entries).Draw(t, "again")
				entry.Type, entry.Data = again.Type, again.Data
				break
			}
			fallthrough
		default:
			c := drawCommit(t, view)
			entry.Data = encodeEntry(c)
			next, err := view.Apply(c)
			if err != nil {
				t.Fatal(err)
			}
			view = next
			views = append(views, view)
		}
		entries = append(entries, entry)
	}
	return entries
}

func drawCommit(t *rapid.T, view kv.View) kv.Commit {
	key := kv.Key(rapid.SampledFrom([]string{"a", "b", "c/d"}).Draw(t, "key"))
	txn := kv.Txn{ID: fmt.Sprint(rapid.Uint64().Draw(t, "id")), Then: []kv.Op{kv.Put(key, []byte{byte(rapid.IntRange(0, 255).Draw(t, "value"))})}}
	c, _, err := view.Resolve(txn)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// feed gives a machine entries in batches of any size.
func feed(t *rapid.T, m *machine, entries []*raft.Log) (answers []any) {
	for len(entries) > 0 {
		n := rapid.IntRange(1, len(entries)).Draw(t, "batch")
		answers = append(answers, m.ApplyBatch(entries[:n])...)
		entries = entries[n:]
	}
	return answers
}

// Machines that get one log come to one state, byte for byte, and answer alike:
// whatever the batches, and whether one went through a snapshot, or saw entries
// again after a restart.
func TestMachinesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := memoryStore(t)
		defer first.Close()
		second := cloneOf(t, first)
		defer second.Close()
		third := cloneOf(t, first)
		defer third.Close()
		entries := drawLog(t, first.View())
		failed := func(err error) { t.Fatalf("stopped: %v", err) }

		straight := newMachine(first, true, newWatchdog(), failed)
		answers := feed(t, straight, entries)

		// The second is restarted: raft gives it entries again, from any before.
		at := rapid.IntRange(0, len(entries)).Draw(t, "restart after")
		feed(t, newMachine(second, true, newWatchdog(), failed), entries[:at])
		from := rapid.IntRange(0, at).Draw(t, "again from")
		restarted := newMachine(second, true, newWatchdog(), failed)
		later := feed(t, restarted, entries[from:])
		if !slices.Equal(later[at-from:], answers[at:]) {
			t.Fatalf("answers %v; want %v", later[at-from:], answers[at:])
		}

		// The third takes a snapshot of the first's state at some entry.
		at = rapid.IntRange(0, len(entries)).Draw(t, "snapshot after")
		source := cloneOf(t, third)
		defer source.Close()
		feed(t, newMachine(source, true, newWatchdog(), failed), entries[:at])
		restored := newMachine(third, true, newWatchdog(), failed)
		if err := restored.Restore(reader(bytesOf(t, source))); err != nil {
			t.Fatal(err)
		}
		feed(t, restored, entries[at:])

		want := bytesOf(t, first)
		for n, store := range []*kv.Store{second, third} {
			if !bytes.Equal(bytesOf(t, store), want) {
				t.Fatalf("store %d is at %+v, the first at %+v", n+2, store.View().Head(), first.View().Head())
			}
		}
	})
}

// An entry that another overtook is skipped, and its proposer told so.
func TestOvertakenEntryIsSkipped(t *testing.T) {
	store := memoryStore(t)
	defer store.Close()
	m := newMachine(store, true, newWatchdog(), func(err error) { t.Error(err) })
	commit := func(id string) []byte {
		c, _, err := store.View().Resolve(kv.Txn{ID: id, Then: []kv.Op{kv.Put("k", []byte(id))}})
		if err != nil {
			t.Fatal(err)
		}
		return encodeEntry(c)
	}
	one, other := commit("one"), commit("other")
	answers := m.ApplyBatch([]*raft.Log{{Index: 1, Data: one}, {Index: 2, Data: other}})
	if answers[0] != nil || answers[1] != errSkipped {
		t.Errorf("answers %v; want nil and skipped", answers)
	}
	if head := store.View().Head(); head.Rev.Rev != 1 || head.Index != 1 {
		t.Errorf("head %+v", head)
	}
}

// What can't be read stops the machine: what comes after it is not applied, and
// no snapshot pretends that it was.
func TestUnknownEntryStops(t *testing.T) {
	for name, data := range map[string][]byte{"kind": {9, 1, 2}, "empty": {}, "garbled": {kindCommit, 1, 2, 3}} {
		t.Run(name, func(t *testing.T) {
			store := memoryStore(t)
			defer store.Close()
			var told error
			m := newMachine(store, true, newWatchdog(), func(err error) { told = err })
			before, _, _ := store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put("a", nil)}})
			next, err := store.View().Apply(before)
			if err != nil {
				t.Fatal(err)
			}
			after, _, _ := next.Resolve(kv.Txn{Then: []kv.Op{kv.Put("b", nil)}})
			answers := m.ApplyBatch([]*raft.Log{
				{Index: 4, Data: encodeEntry(before)}, {Index: 5, Data: data}, {Index: 6, Data: encodeEntry(after)},
			})
			var stopped *StoppedError
			if answers[0] != nil || !errors.As(told, &stopped) || stopped.Index != 5 || answers[2] != error(stopped) {
				t.Errorf("answers %v, told %v", answers, told)
			}
			if store.View().Len() != 1 {
				t.Errorf("%d keys; want the one before", store.View().Len())
			}
			if _, err := m.Snapshot(); err == nil {
				t.Error("a snapshot was taken")
			}
			if again := m.Apply(&raft.Log{Index: 7, Data: encodeEntry(after)}); again != error(stopped) {
				t.Errorf("the next entry: %v", again)
			}
		})
	}
}

// A commit that is not sound is refused by every machine alike, and takes none
// with it but those that build on it.
func TestUnsoundCommit(t *testing.T) {
	for _, together := range []bool{true, false} {
		store := memoryStore(t)
		defer store.Close()
		m := newMachine(store, true, newWatchdog(), func(err error) { t.Error(err) })
		good, _, _ := store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put("a", nil)}})
		view, err := store.View().Apply(good)
		if err != nil {
			t.Fatal(err)
		}
		bad, _, _ := view.Resolve(kv.Txn{Then: []kv.Op{kv.Put("b", []byte("1"))}})
		on, err := view.Apply(bad)
		if err != nil {
			t.Fatal(err)
		}
		onBad, _, _ := on.Resolve(kv.Txn{Then: []kv.Op{kv.Put("c", nil)}})
		bad.Effects = slices.Clone(bad.Effects)
		bad.Effects[0].Entry.Value = []byte("2") // its hash is of another content
		entries := []*raft.Log{{Index: 1, Data: encodeEntry(good)}, {Index: 2, Data: encodeEntry(bad)}, {Index: 3, Data: encodeEntry(onBad)}}
		var answers []any
		if together {
			answers = m.ApplyBatch(entries)
		} else {
			for _, entry := range entries {
				answers = append(answers, m.Apply(entry))
			}
		}
		refusal, _ := answers[1].(error)
		if answers[0] != nil || !errors.Is(refusal, kv.ErrDamaged) || answers[2] != errSkipped || store.View().Len() != 1 {
			t.Errorf("together %t: answers %v, %d keys", together, answers, store.View().Len())
		}
	}
}

// A store that is ahead in the same history keeps what it has; one that parted
// from it takes the leader's; one of another cluster refuses it.
func TestRestoreKeepsWhatIsAhead(t *testing.T) {
	behind := memoryStore(t)
	defer behind.Close()
	ahead := cloneOf(t, behind)
	defer ahead.Close()
	write(t, behind, "same")
	if err := ahead.Merge(mustHistory(t, behind)...); err != nil {
		t.Fatal(err)
	}
	write(t, ahead, "more")
	if err := restore(ahead, behind.Snapshot()); err != nil || ahead.View().Rev().Rev != 2 {
		t.Errorf("the one ahead is at %s, %v", ahead.View().Rev(), err)
	}
	empty := memoryStore(t)
	defer empty.Close()
	if err := restore(empty, behind.Snapshot()); err != nil || empty.View().Head() != behind.View().Head() {
		t.Errorf("the empty one is at %+v, %v", empty.View().Head(), err)
	}
	other := memoryStore(t)
	defer other.Close()
	write(t, other, "x")
	if err := restore(other, behind.Snapshot()); !errors.Is(err, errForeign) || other.View().Rev().Rev != 1 {
		t.Errorf("the other cluster is at %s, %v; want errForeign", other.View().Rev(), err)
	}
	if err := behind.NewEpoch([16]byte{7}, nil); err != nil {
		t.Fatal(err)
	}
	if err := restore(other, behind.Snapshot()); err != nil || other.View().Head() != behind.View().Head() {
		t.Errorf("after a later epoch it is at %+v, %v", other.View().Head(), err)
	}
}

// A store that parted from its leader's in one epoch takes the leader's.
func TestRestoreMendsWhatParted(t *testing.T) {
	behind := memoryStore(t)
	defer behind.Close()
	ahead := cloneOf(t, behind)
	defer ahead.Close()
	for n := range 3 {
		write(t, behind, fmt.Sprint("here ", n))
		write(t, ahead, fmt.Sprint("there ", n))
	}
	write(t, ahead, "more")
	if err := restore(ahead, behind.Snapshot()); err != nil || ahead.View().Head() != behind.View().Head() {
		t.Errorf("the one that parted is at %+v, %v", ahead.View().Head(), err)
	}
}

func write(t *testing.T, store *kv.Store, value string) {
	t.Helper()
	c, _, err := store.View().Resolve(kv.Txn{Then: []kv.Op{kv.Put("k", []byte(value))}})
	if err == nil {
		err = store.Merge(c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func mustHistory(t *testing.T, store *kv.Store) []kv.Commit {
	t.Helper()
	commits, err := store.History("", kv.Rev{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return commits
}

func FuzzEntry(f *testing.F) {
	store, err := kv.Open(kv.Options{})
	if err != nil {
		f.Fatal(err)
	}
	defer store.Close()
	c, _, _ := store.View().Resolve(kv.Txn{ID: "x", Then: []kv.Op{kv.Put("a", []byte(strings.Repeat("v", 20)))}})
	f.Add(encodeEntry(c))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeEntry(data)
		if err == nil && !bytes.Equal(encodeEntry(c), data) {
			t.Errorf("%x becomes %x", data, encodeEntry(c))
		}
	})
}
