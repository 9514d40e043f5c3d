package agent_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"grapevine/agent/api"
)

func TestSecondAgentIsRefused(t *testing.T) {
	c := config(t)
	n := start(t, c)
	n.set("app/x", "1")
	has(t, fails(t, c, 1), c.DataDir, "process id "+strconv.Itoa(os.Getpid()), "--data-dir")
	// The first one has noticed nothing: not its store, and not its socket.
	if r := n.get("socket", "/v1/kv/app/x"); r.body != "1" {
		t.Errorf("the first agent answers %s", r)
	}
	if err := n.stopped(); err != nil {
		t.Fatal(err)
	}
	n = start(t, c)
	if r := n.get("socket", "/v1/kv/app/x"); r.body != "1" {
		t.Errorf("its successor answers %s", r)
	}
}

// A lock file with a process id in it is no lock: the process may be long gone.
func TestLockOfADeadAgentIsTaken(t *testing.T) {
	c := config(t)
	mkdir(t, c.DataDir)
	write(t, filepath.Join(c.DataDir, "agent.lock"), "1\n")
	start(t, c)
}

func TestFaultsOfTheDataDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, dir string)
		parts []string
	}{
		"file in its place": {func(t *testing.T, dir string) { write(t, dir, "") }, []string{"not a directory"}},
		"file above it": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Dir(dir)); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Dir(dir), "")
		}, []string{"not a directory"}},
		"may not be made":   {func(t *testing.T, dir string) { forbid(t, filepath.Dir(dir)) }, []string{"permi"}},
		"may not be used":   {func(t *testing.T, dir string) { mkdir(t, dir); forbid(t, dir) }, []string{"agent.lock", "permi"}},
		"read-only":         {func(t *testing.T, dir string) { mount(t, dir, syscall.MS_RDONLY, "") }, []string{"agent.lock", "read-only file system"}},
		"full":              {func(t *testing.T, dir string) { mount(t, dir, 0, "size=16k") }, []string{"disk is full"}},
		"lock is a folder":  {func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "agent.lock")) }, []string{"agent.lock", "is a directory"}},
		"store is a folder": {func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "kv.db")) }, []string{"kv.db", "is a directory"}},
		"store is empty":    {func(t *testing.T, dir string) { mkdir(t, dir); write(t, filepath.Join(dir, "kv.db"), "") }, []string{"kv.db", "corrupt"}},
		"store is garbage": {func(t *testing.T, dir string) {
			mkdir(t, dir)
			write(t, filepath.Join(dir, "kv.db"), strings.Repeat("garbage ", 4096))
		}, []string{"kv.db", "corrupt"}},
		"id is garbage": {func(t *testing.T, dir string) { mkdir(t, dir); write(t, filepath.Join(dir, "node.id"), "Node One") }, []string{"node.id", "Node One", "backup"}},
		"id is in capitals": {func(t *testing.T, dir string) {
			mkdir(t, dir)
			write(t, filepath.Join(dir, "node.id"), "01ARZ3NDEKTSV4RRFFQ69G5FAV")
		}, []string{"node.id", "01ARZ3NDEKTSV4RRFFQ69G5FAV"}},
		"id is empty":    {func(t *testing.T, dir string) { mkdir(t, dir); write(t, filepath.Join(dir, "node.id"), "") }, []string{"node.id"}},
		"id is a folder": {func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "node.id")) }, []string{"node.id", "is a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(t)
			c.spoil(t, config.DataDir)
			before := contents(t, filepath.Dir(config.DataDir))
			has(t, fails(t, config, 1), append(c.parts, config.DataDir)...)
			after := contents(t, filepath.Dir(config.DataDir))
			// What an agent may leave behind: the lock, which is free, and a store that it made for itself.
			for _, own := range []string{"agent.lock", "kv.db"} {
				if _, had := before[filepath.Join(config.DataDir, own)]; !had {
					delete(after, filepath.Join(config.DataDir, own))
				}
			}
			if !maps.Equal(before, after) {
				t.Errorf("was %v, is %v", before, after)
			}
		})
	}
}

func TestTruncatedStoreIsRefusedAndLeftAlone(t *testing.T) {
	c := config(t)
	n := start(t, c)
	n.set("app/x", `"`+strings.Repeat("x", 100_000)+`"`)
	if err := n.stopped(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(c.DataDir, "kv.db")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()/2); err != nil {
		t.Fatal(err)
	}
	before := contents(t, c.DataDir)
	has(t, fails(t, c, 1), path, "corrupt")
	if after := contents(t, c.DataDir); !maps.Equal(before, after) {
		t.Error("the store was changed")
	}
}

// A disk that fills up refuses the writes that it has no room for, and nothing else.
func TestFullDiskRefusesWrites(t *testing.T) {
	c := config(t)
	mount(t, c.DataDir, 0, "size=4m")
	c.ConfigFiles = []string{file(t, "gateway.yaml", "routes: {a: {path: /a, backends: [\""+backend(t, "a")+"\"]}}")}
	n := start(t, c)
	value := `"` + strings.Repeat("x", 100_000) + `"`
	written, refused := 0, reply{}
	for written < 100 {
		if r := n.do("admin", "PUT", fmt.Sprintf("/v1/kv/app/%d", written), value); r.status != 200 {
			refused = r
			break
		}
		written++
	}
	if p := decode[api.Problem](t, refused); refused.status != 507 || p.Code != "disk_full" || !p.NothingWritten {
		t.Fatalf("after %d writes: %s", written, refused)
	}
	s := decode[api.Status](t, n.get("admin", "/v1/status"))
	if s.Keys != written || s.Rev != fmt.Sprintf("1.%d", written) {
		t.Errorf("%d writes were acknowledged, the status is %+v", written, s)
	}
	if r := n.get("http", "/a"); r.body != "a /a" {
		t.Errorf("the route answers %s", r)
	}
	if err := n.stopped(); err != nil {
		t.Fatal(err)
	}
	n = start(t, c)
	if s := decode[api.Status](t, n.get("admin", "/v1/status")); s.Keys != written {
		t.Errorf("%d writes were acknowledged, after a restart the status is %+v", written, s)
	}
	n.stopped() // before the file system goes
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

// contents are the files below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = fmt.Sprintf("%d %x", len(data), data[:min(len(data), 64)])
		if filepath.Base(path) == "agent.lock" {
			files[path] = "" // who had it last is of no matter
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// mount puts a file system in memory at a folder.
func mount(t *testing.T, folder string, flags uintptr, options string) {
	t.Helper()
	mkdir(t, folder)
	if err := syscall.Mount("tmpfs", folder, "tmpfs", flags, options); err != nil {
		t.Skipf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
}
