package identity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile bounds the identity's file, which has some 2 KiB.
const maxFile = 64 << 10

// load reads the file at path. Without one the error is fs.ErrNotExist; a path
// of "" has none ever.
func load(path string) (*holding, error) {
	if path == "" {
		return nil, fs.ErrNotExist
	}
	data, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	h, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("identity %q: %w; restore it from a backup, or remove it and join again", path, err)
	}
	return h, nil
}

// readSecret reads a file that nobody else may read.
func readSecret(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("identity: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("identity %q: is no plain file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("identity %q: has mode %04o, so that others on this host may reach its keys; chmod 600 it, and if somebody may have read it, join again",
			path, info.Mode().Perm())
	case info.Size() > maxFile:
		return nil, fmt.Errorf("identity %q: has %d bytes, at most %d are expected", path, info.Size(), maxFile)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return data, nil
}

// save makes the file hold h, wholly or not at all, and lasting. A path of ""
// keeps nothing.
func save(path string, h *holding) error {
	if path == "" {
		return nil
	}
	data, err := h.encode()
	if err == nil {
		err = replace(path, data)
	}
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

func replace(path string, data []byte) error {
	// What a crash left behind may be of any mode.
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new name in a folder outlive a power cut.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
