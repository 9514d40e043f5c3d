package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

// ErrLocked is returned by Open when another process has the store open.
var ErrLocked = errors.New("in use by another process")

// CorruptError says that a store's file is damaged, and where. The file has not
// been changed.
type CorruptError struct {
	Path    string
	What    string // as page 7, or revision 1.12
	Problem string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt and was left as it is: %s %s; put a backup in its place, or move it away to start empty",
		e.Path, e.What, e.Problem)
}

// corrupt is a *CorruptError of which the path is still to be filled in.
func corrupt(problem, what string, args ...any) error {
	return &CorruptError{What: fmt.Sprintf(what, args...), Problem: problem}
}

// openDisk opens the store at path, or creates it, and reads all of it.
func openDisk(path string) (*disk, contents, error) {
	d, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createFile(path); err != nil {
			return nil, contents{}, explain(err, path)
		}
		d, err = openFile(path)
	}
	if err != nil {
		return nil, contents{}, explain(err, path)
	}
	var found contents
	if err := guard(func() error { return d.db.View(d.loadInto(&found)) }); err != nil {
		return nil, contents{}, errors.Join(explain(err, path), d.abandon(err))
	}
	return d, found, nil
}

// explain makes the error that Open promises.
func explain(err error, path string) error {
	var damage *CorruptError
	var broken *fault
	switch {
	case errors.As(err, &damage):
		damage.Path = path
		return damage
	case errors.As(err, &broken):
		return &CorruptError{Path: path, What: "a page", Problem: "cannot be read: " + broken.Error()}
	case errors.Is(err, ErrLocked):
		return fmt.Errorf("store %s is %w", path, ErrLocked)
	case isDiskFull(err):
		return fmt.Errorf("store %s: %w: %w", path, ErrDiskFull, err)
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err // its path may be that of the draft, which nobody asked for
	}
	return fmt.Errorf("store %s: %w", path, err)
}

// createFile makes an empty store. It appears at path complete and synced or not
// at all, so that a file which is there but short or empty is known to be damaged.
func createFile(path string) error {
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	if err := errors.Join(draft.Close(), guard(func() error { return fillFile(draft.Name()) })); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces what another process made meanwhile.
	if err := os.Link(draft.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func fillFile(path string) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		start := newContents().view.head
		return tx.Bucket(bucketMeta).Put(ledgerName, encodeLedger(ledger{head: start, base: start}))
	})
	return errors.Join(err, db.Close())
}

// syncFolder makes a new name in a folder survive a power cut.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// openFile opens a store that exists. The pages are checked under the lock and
// before bbolt, which trusts them, maps the file.
func openFile(path string) (*disk, error) {
	d := &disk{path: path, commit: (*bolt.Tx).Commit}
	err := guard(func() (err error) {
		d.db, err = bolt.Open(path, 0o600, &bolt.Options{
			// The freelist stays on disk (NoFreelistSync is off): without it bbolt
			// rebuilds the list in a goroutine of its own, which no guard reaches.
			FreelistType: bolt.FreelistMapType,
			OpenFile: func(path string, _ int, _ os.FileMode) (_ *os.File, err error) {
				d.file, err = lockFile(path)
				return d.file, err
			},
		})
		return err
	})
	var broken *fault
	if errors.As(err, &broken) {
		return nil, errors.Join(err, release(d.file))
	}
	return d, err
}

// lockFile opens, locks and checks a file.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err == nil {
		err = checkPages(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// release gives the lock back before it closes the file: a mapping that a
// fault left behind would keep it else.
func release(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}

// abandon closes a file that could not be read because of err.
func (d *disk) abandon(err error) error {
	d.failed = err
	return d.close()
}
