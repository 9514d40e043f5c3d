package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// socketMode lets the owner and the group in.
	socketMode = 0o660
	// maxSocketPath is what the kernel takes, with room for the draft's ending (unix(7): 108 bytes with the zero).
	maxSocketPath = 107 - len(draftEnding)
	draftEnding   = ".new"
	// aliveTimeout bounds the question whether somebody answers on a socket.
	aliveTimeout = time.Second
)

// socketListener takes its file away when it closes.
type socketListener struct {
	*net.UnixListener
	path string
}

// listenSocket opens a unix socket. That of a dead agent is replaced, that of a live one is not.
func listenSocket(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path has %d bytes, at most %d are allowed", len(path), maxSocketPath)
	}
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	listener, err := bindSocket(path + draftEnding)
	if err != nil {
		return nil, err
	}
	// Only a socket that has its mode already gets its name: at no moment may others connect.
	if err := os.Rename(path+draftEnding, path); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return socketListener{listener, path}, nil
}

// checkSocket says why what is at path must stay.
func checkSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return bare(err)
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("a file that is no socket is in its place")
	}
	conn, err := net.DialTimeout("unix", path, aliveTimeout)
	if err == nil {
		return errors.Join(errors.New("another agent answers there"), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("whether another agent is there can't be told: %w", bindError(err))
	}
	return nil
}

func bindSocket(draft string) (*net.UnixListener, error) {
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, bare(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: draft, Net: "unix"})
	if err != nil {
		return nil, bindError(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(draft, socketMode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Close takes the file away first: who still finds it can still connect.
func (l socketListener) Close() error {
	err := os.Remove(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.UnixListener.Close())
}

// Addr is where clients find the socket.
func (l socketListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
