package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"os"
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
