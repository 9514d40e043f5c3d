package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// dataDir is the directory of a node, held by this process alone:
//
//	agent.lock  locked while an agent has the directory; holds its process id
//	node.id     the node's id, made once
//	kv.db       the store
//	agent.sock  the API, unless it is elsewhere
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the directory if it is not there, and takes it.
func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, dataDirError(path, err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "agent.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dataDirError(path, err)
	}
	d := &dataDir{path, lock}
	if err := d.take(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// take locks the directory. The lock is the kernel's and ends with the process, however that ends; the process id in
// the file is for the message alone.
func (d *dataDir) take() error {
	err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("data directory %q: in use by %s; stop it, or choose another with --data-dir", d.path, d.holder())
	}
	if err == nil {
		err = d.lock.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintf(d.lock, "%d\n", os.Getpid())
	}
	if err != nil {
		return dataDirError(d.path, err)
	}
	return nil
}

func (d *dataDir) holder() string {
	data, err := io.ReadAll(io.LimitReader(d.lock, 32))
	if pid := strings.TrimSpace(string(data)); err == nil && pid != "" {
		return "the agent with process id " + pid
	}
	return "another agent"
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

// close gives the directory to the next agent.
func (d *dataDir) close() error {
	return errors.Join(d.lock.Truncate(0), d.lock.Close())
}

// dataDirError says what is wrong with the directory, and with what in it.
func dataDirError(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) && at.Path != path {
		return fmt.Errorf("data directory %q: %s: %w; choose another with --data-dir", path, at.Path, at.Err)
	}
	return fmt.Errorf("data directory %q: %w; choose another with --data-dir", path, bare(err))
}
