package api

import (
	"net"
	"syscall"
)

// peerUID asks the kernel who connected; nobody can lie about it.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	controlErr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if controlErr != nil {
		return 0, controlErr
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
