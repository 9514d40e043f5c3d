package consensus

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
)

var someServers = toConfiguration([]Server{{ID: "a", Address: "10.0.0.1:1", Voter: true}, {ID: "b.2", Address: "10.0.0.2:1"}})

// take makes a snapshot with some content.
func take(t *testing.T, s raft.SnapshotStore, index, term uint64, content string) {
	t.Helper()
	sink, err := s.Create(raft.SnapshotVersionMax, index, term, someServers, index-1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(sink, content); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}

func snapshotStores(t *testing.T) map[string]raft.SnapshotStore {
	t.Helper()
	files, err := openSnapshots(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]raft.SnapshotStore{"file": files, "memory": &memorySnapshots{}}
}

// A snapshot reads as it was written; the newest comes first; one that was
// cancelled, or is being written, is not seen.
func TestSnapshots(t *testing.T) {
	for name, s := range snapshotStores(t) {
		t.Run(name, func(t *testing.T) {
			take(t, s, 10, 2, "ten")
			unfinished, err := s.Create(raft.SnapshotVersionMax, 30, 2, someServers, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(unfinished, "half")
			take(t, s, 20, 3, strings.Repeat("twenty ", 100_000))
			metas, err := s.List()
			if err != nil || len(metas) == 0 || metas[0].Index != 20 || metas[0].Term != 3 {
				t.Fatalf("list: %+v, %v", metas, err)
			}
			if err := unfinished.Cancel(); err != nil {
				t.Fatal(err)
			}
			meta, content, err := s.Open(metas[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			defer content.Close()
			got, err := io.ReadAll(content)
			if err != nil || string(got) != strings.Repeat("twenty ", 100_000) || meta.Size != int64(len(got)) {
				t.Errorf("read %d bytes of %d, %v", len(got), meta.Size, err)
			}
			if meta.ConfigurationIndex != 19 || !cmp.Equal(meta.Configuration, someServers) {
				t.Errorf("meta %+v", meta)
			}
			if _, _, err := s.Open("../../etc/passwd"); err == nil {
				t.Error("a path was opened")
			}
		})
	}
}

// Old snapshots go, drafts of a crash go, and damage is found before a byte is
// read.
func TestSnapshotFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := openSnapshots(dir)
	if err != nil {
		t.Fatal(err)
	}
	for index := uint64(1); index <= 4; index++ {
		take(t, s, index, 1, "content")
	}
	if _, err := s.Create(raft.SnapshotVersionMax, 9, 1, someServers, 1, nil); err != nil {
		t.Fatal(err)
	}
	if s, err = openSnapshots(dir); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(s.dir)
	if err != nil || len(files) != keptSnapshots {
		t.Errorf("%v, %v; want the newest %d", files, err, keptSnapshots)
	}
	metas, _ := s.List()
	path := s.path(metas[0].ID)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range sound {
		damaged := bytes.Clone(sound)
		damaged[at] ^= 0x40
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, content, err := s.Open(metas[0].ID); err == nil {
			content.Close()
			t.Fatalf("byte %d of %d was damaged, and it was opened", at, len(sound))
		}
	}
	if err := os.WriteFile(path, sound[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	if metas, err = s.List(); err != nil || len(metas) != 1 || metas[0].Index != 3 {
		t.Errorf("with the newest cut short: %+v, %v", metas, err)
	}
	if _, err := filepath.Glob(filepath.Join(s.dir, "*")); err != nil {
		t.Fatal(err)
	}
}

func FuzzSnapshotHead(f *testing.F) {
	meta := newMeta(raft.SnapshotVersionMax, 7, 3, someServers, 5)
	meta.Size = 12
	f.Add(encodeHead(meta, 99))
	f.Add(encodeHead(newMeta(raft.SnapshotVersionMax, 0, 0, raft.Configuration{}, 0), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		meta, sum, err := readHead(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := encodeHead(meta, sum); !bytes.HasPrefix(b, again) {
			t.Skip("raft has more than one encoding of a configuration")
		}
	})
}
