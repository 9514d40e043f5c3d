package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"grapevine/kv"
)

// entryAt makes a log entry whose content tells its index and term.
func entryAt(index, term uint64) *raft.Log {
	return &raft.Log{
		Index: index, Term: term, Type: raft.LogCommand,
		Data: fmt.Appendf(nil, "%d of term %d", index, term), AppendedAt: time.Unix(int64(index), int64(term)),
	}
}

// modelLog is a log as one would write it down.
type modelLog struct {
	entries []raft.Log // contiguous
	stable  map[string]string
}

func (m *modelLog) bounds() (first, last uint64) {
	if len(m.entries) == 0 {
		return 0, 0
	}
	return m.entries[0].Index, m.entries[len(m.entries)-1].Index
}

// Both logs do what a slice would, also when the file is opened again between.
func TestLogStoreIsASlice(t *testing.T) {
	for name, open := range map[string]func(dir string, old backend) (backend, error){
		"file": func(dir string, old backend) (backend, error) {
			if old != nil {
				if err := old.close(); err != nil {
					return nil, err
				}
			}
			return openLogStore(dir)
		},
		"memory": func(_ string, old backend) (backend, error) {
			if old != nil {
				return old, nil
			}
			return newMemoryLog(), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				dir, remove := memoryDir(t)
				defer remove()
				log, err := open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { log.close() }()
				m := &modelLog{stable: map[string]string{}}
				t.Repeat(map[string]func(*rapid.T){
					"":       func(t *rapid.T) { checkLog(t, log, m) },
					"append": func(t *rapid.T) { appendSome(t, log, m) },
					"cut":    func(t *rapid.T) { cutSome(t, log, m) },
					"set": func(t *rapid.T) {
						key, value := rapid.SampledFrom([]string{"CurrentTerm", "b"}).Draw(t, "key"), rapid.StringN(0, 20, -1).Draw(t, "value")
						if err := log.Set([]byte(key), []byte(value)); err != nil {
							t.Fatal(err)
						}
						m.stable[key] = value
					},
					"reopen": func(t *rapid.T) {
						if log, err = open(dir, log); err != nil {
							t.Fatal(err)
						}
					},
				})
			})
		})
	}
}

// memoryDir is a folder in memory if the system has one: what is tested does not
// depend on how long a sync takes.
func memoryDir(t interface{ Fatal(...any) }) (dir string, remove func()) {
	parent := "/dev/shm"
	if _, err := os.Stat(parent); err != nil {
		parent = ""
	}
	dir, err := os.MkdirTemp(parent, "raft")
	if err != nil {
		t.Fatal(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

func testDir(t *testing.T) string {
	t.Helper()
	dir, remove := memoryDir(t)
	t.Cleanup(remove)
	return dir
}

func appendSome(t *rapid.T, log backend, m *modelLog) {
	_, last := m.bounds()
	if last == 0 {
		last = rapid.Uint64Range(0, 5000).Draw(t, "before")
	}
	term := rapid.Uint64Range(1, 9).Draw(t, "term")
	var added []*raft.Log
	for n := range rapid.IntRange(1, 700).Draw(t, "entries") {
		added = append(added, entryAt(last+1+uint64(n), term))
	}
	if err := log.StoreLogs(added); err != nil {
		t.Fatal(err)
	}
	for _, entry := range added {
		m.entries = append(m.entries, *entry)
	}
	hole := entryAt(last+uint64(len(added))+2, term)
	if err := log.StoreLog(hole); err == nil {
		t.Fatalf("entry %d was taken after %d", hole.Index, last+uint64(len(added)))
	}
}

func cutSome(t *rapid.T, log backend, m *modelLog) {
	first, last := m.bounds()
	if first == 0 {
		return
	}
	at := rapid.Uint64Range(first, last).Draw(t, "at")
	switch rapid.SampledFrom([]string{"front", "back", "all"}).Draw(t, "side") {
	case "front":
		if err := log.DeleteRange(first-min(first, 3), at); err != nil {
			t.Fatal(err)
		}
		m.entries = m.entries[at-first+1:]
	case "back":
		if err := log.DeleteRange(at, last+3); err != nil {
			t.Fatal(err)
		}
		m.entries = m.entries[:at-first]
	default:
		if err := log.DeleteRange(first, last); err != nil {
			t.Fatal(err)
		}
		m.entries = nil
	}
}

func checkLog(t *rapid.T, log backend, m *modelLog) {
	first, last := m.bounds()
	gotFirst, _ := log.FirstIndex()
	gotLast, _ := log.LastIndex()
	if gotFirst != first || gotLast != last {
		t.Fatalf("entries %d to %d; want %d to %d", gotFirst, gotLast, first, last)
	}
	for _, index := range []uint64{first, (first + last) / 2, last} {
		var got raft.Log
		err := log.GetLog(index, &got)
		if first == 0 {
			if !errors.Is(err, raft.ErrLogNotFound) {
				t.Fatalf("entry %d of an empty log: %v", index, err)
			}
			continue
		}
		if want := m.entries[index-first]; err != nil || !cmp.Equal(got, want) {
			t.Fatalf("entry %d: %v, %s", index, err, cmp.Diff(want, got))
		}
	}
	var none raft.Log
	if err := log.GetLog(last+1, &none); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatalf("entry %d after the last: %v", last+1, err)
	}
	for _, key := range []string{"CurrentTerm", "b"} {
		got, err := log.Get([]byte(key))
		want, there := m.stable[key]
		if there && (err != nil || string(got) != want) || !there && (err == nil || err.Error() != "not found") {
			t.Fatalf("%s is %q, %v; want %q, %t", key, got, err, want, there)
		}
	}
}

// image is what is in a log.
func image(t *testing.T, dir string) (entries []raft.Log, term uint64) {
	t.Helper()
	log, err := openLogStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	first, _ := log.FirstIndex()
	last, _ := log.LastIndex()
	for index := first; index <= last && first > 0; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	term, _ = log.GetUint64([]byte(termName))
	return entries, term
}

// A power cut while pages are written leaves the log as it was: whatever part of
// the new pages is there, the old meta page leads to the old ones.
func TestPowerCutBetweenPages(t *testing.T) {
	const pageSize = 4096
	random := rand.New(rand.NewPCG(7, 7))
	changes := map[string]func(l *logStore) error{
		"append": func(l *logStore) error {
			var added []*raft.Log
			for n := range uint64(300) {
				added = append(added, entryAt(1001+n, 3))
			}
			return l.StoreLogs(added)
		},
		"compact":    func(l *logStore) error { return l.DeleteRange(1, 400) },
		"truncate":   func(l *logStore) error { return l.DeleteRange(700, 1000) },
		"delete all": func(l *logStore) error { return l.DeleteRange(1, 1000) },
		"set a term": func(l *logStore) error { return l.SetUint64([]byte(termName), 99) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			dir := testDir(t)
			before, after := beforeAndAfter(t, dir, change)
			wantEntries, wantTerm := readImage(t, before)
			for range 12 {
				torn := bytes.Clone(before)
				if random.IntN(2) == 0 { // the file may have grown already
					torn = append(torn, make([]byte, max(0, len(after)-len(torn)))...)
				}
				for at := 2 * pageSize; at+pageSize <= len(torn) && at+pageSize <= len(after); at += pageSize {
					if random.IntN(2) == 0 {
						copy(torn[at:at+pageSize], after[at:])
					}
				}
				entries, term := readImage(t, torn)
				if len(entries) != len(wantEntries) || term != wantTerm {
					t.Fatalf("%d entries, term %d; want %d, %d", len(entries), term, len(wantEntries), wantTerm)
				}
			}
		})
	}
}

// beforeAndAfter gives a log's file before and after a change.
func beforeAndAfter(t *testing.T, dir string, change func(*logStore) error) (before, after []byte) {
	t.Helper()
	log, err := openLogStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	for at := uint64(1); at <= 1000; at += 50 {
		var added []*raft.Log
		for n := range uint64(50) {
			added = append(added, entryAt(at+n, 2))
		}
		if err := log.StoreLogs(added); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.SetUint64([]byte(termName), 2); err != nil {
		t.Fatal(err)
	}
	if before, err = os.ReadFile(filepath.Join(dir, logFile)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(log), log.close()); err != nil {
		t.Fatal(err)
	}
	if after, err = os.ReadFile(filepath.Join(dir, logFile)); err != nil {
		t.Fatal(err)
	}
	return before, after
}

func readImage(t *testing.T, file []byte) ([]raft.Log, uint64) {
	t.Helper()
	dir, remove := memoryDir(t)
	defer remove()
	if err := os.WriteFile(filepath.Join(dir, logFile), file, 0o600); err != nil {
		t.Fatal(err)
	}
	return image(t, dir)
}

// However much is written, the file stays within some times of what the log holds
// (hashicorp/consul #21875, #5181): compaction frees pages, and they are used again.
func TestLogStaysSmall(t *testing.T) {
	total := uint64(20_000)
	if os.Getenv("GRAPEVINE_LONG") == "1" {
		total = 200_000
	}
	const kept, threshold, size = 1000, 800, 400
	dir := testDir(t)
	log, err := openLogStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	for at := uint64(1); at < total; at += 20 {
		var added []*raft.Log
		for n := range uint64(20) {
			added = append(added, &raft.Log{Index: at + n, Term: 1, Data: make([]byte, size)})
		}
		if err := log.StoreLogs(added); err != nil {
			t.Fatal(err)
		}
		first, _ := log.FirstIndex()
		if last := at + 19; last-first > kept+threshold {
			if err := log.DeleteRange(first, last-kept); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	live := int64((kept + threshold) * (size + recordHead + 4))
	t.Logf("%d entries were written: the file has %d bytes, the log held up to %d", total, info.Size(), live)
	if info.Size() > 4*live {
		t.Errorf("the file has %d bytes; want at most four times %d", info.Size(), live)
	}
}

// A garbled file is refused by name, or reads as it should, and never panics. Whoever
// starts the node learns that it has to rejoin.
func TestGarbledLog(t *testing.T) {
	dir := testDir(t)
	_, sound := beforeAndAfter(t, dir, func(*logStore) error { return nil })
	random := rand.New(rand.NewPCG(11, 11))
	refused := 0
	for range 60 {
		garbled := bytes.Clone(sound)
		at := random.IntN(len(garbled) - 64)
		for n := range 64 {
			garbled[at+n] = byte(random.Uint32())
		}
		if err := os.WriteFile(filepath.Join(dir, logFile), garbled, 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := openHome(dir)
		if err != nil {
			refused++
			var damage *kv.CorruptError
			if !errors.Is(err, ErrRejoin) || !errors.As(err, &damage) || damage.Path == "" {
				t.Fatalf("%v; want ErrRejoin with the file's name", err)
			}
			continue
		}
		readAll(t, h.backend)
		if err := h.backend.close(); err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("no garbled file was refused")
	}
}

// readAll reads every entry; those that are there are as they were written.
func readAll(t *testing.T, log backend) {
	first, _ := log.FirstIndex()
	last, _ := log.LastIndex()
	for index := first; index <= last; index++ {
		var got raft.Log
		if err := log.GetLog(index, &got); err == nil && !cmp.Equal(got, *entryAt(index, 2)) {
			t.Fatalf("entry %d reads %+v", index, got)
		}
	}
}

// A second process is refused, and told why.
func TestLogIsLocked(t *testing.T) {
	dir := t.TempDir()
	log, err := openLogStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	if _, err := openLogStore(dir); !errors.Is(err, kv.ErrLocked) {
		t.Errorf("got %v; want kv.ErrLocked", err)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(uint64(1), encodeRecord(entryAt(1, 2)))
	f.Add(uint64(3), encodeRecord(&raft.Log{Index: 3, Term: 1, Type: raft.LogConfiguration, Extensions: []byte("x")}))
	f.Fuzz(func(t *testing.T, index uint64, record []byte) {
		var entry raft.Log
		if err := decodeRecord(index, record, &entry); err != nil {
			return
		}
		if again := encodeRecord(&entry); !bytes.Equal(again, record) {
			t.Errorf("%x becomes %x", record, again)
		}
	})
}
