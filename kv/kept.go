package kv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// keptStates is how many replaced states are kept beside a store's file, the
// latest ones. Four are the mistakes of a bad night.
const keptStates = 4

const (
	keptPrefix = "lkg-" // last known good
	keptSuffix = ".snap"
	// keptDraft is always the same file, so that a crash leaves at most one.
	keptDraft = "lkg.new"
)

// keep writes a state that is about to be replaced beside the store's file,
// synced. An empty one is not worth it.
func (d *disk) keep(old *state) error {
	if old.view.Len() == 0 {
		return nil
	}
	err := keepSnapshot(filepath.Dir(d.path), &Snapshot{view: old.view, requests: old.requests})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the state at revision %s can't be kept and is not replaced: %w", old.view.Rev(), err)
	if isDiskFull(err) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}

func keepSnapshot(folder string, snapshot *Snapshot) error {
	path, kept := keptPath(folder, snapshot.Head())
	if kept {
		return nil
	}
	draft := filepath.Join(folder, keptDraft)
	if err := writeSynced(draft, snapshot); err != nil {
		os.Remove(draft) // what stays is overwritten by the next
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	forgetKept(folder, filepath.Base(path))
	return syncFolder(folder)
}

// keptPath is where the state at head is kept, or where it is to be: under a
// number if the state of another history has its name.
func keptPath(folder string, head Head) (path string, kept bool) {
	name := fmt.Sprintf("%s%d-%d", keptPrefix, head.Rev.Epoch, head.Rev.Rev)
	path = filepath.Join(folder, name+keptSuffix)
	for n := 2; ; n++ {
		there, err := keptHead(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, false
		}
		if err == nil && bytes.Equal(there.SigningBytes(), head.SigningBytes()) {
			return path, true
		}
		path = filepath.Join(folder, fmt.Sprintf("%s-%d%s", name, n, keptSuffix))
	}
}

func keptHead(path string) (Head, error) {
	file, err := os.Open(path)
	if err != nil {
		return Head{}, err
	}
	defer file.Close()
	prefix := make([]byte, SnapshotPrefixBytes)
	if _, err := io.ReadFull(file, prefix); err != nil {
		return Head{}, err
	}
	return DecodeSnapshotHead(prefix)
}

func writeSynced(path string, snapshot *Snapshot) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = snapshot.WriteTo(file)
	return errors.Join(err, file.Sync(), file.Close())
}

// forgetKept removes the oldest that are too many, beside the latest. If it can't
// there is one too many, which is no reason to refuse what is to be done.
func forgetKept(folder, latest string) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	written := map[string]time.Time{}
	var names []string
	for _, file := range files {
		name := file.Name()
		if !strings.HasPrefix(name, keptPrefix) || !strings.HasSuffix(name, keptSuffix) || name == latest {
			continue
		}
		if info, err := file.Info(); err == nil {
			written[name] = info.ModTime()
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return written[b].Compare(written[a]) })
	for _, name := range names[min(keptStates-1, len(names)):] {
		os.Remove(filepath.Join(folder, name))
	}
}
