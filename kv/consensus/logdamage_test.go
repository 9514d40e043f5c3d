package consensus

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"grapevine/kv"
)

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
