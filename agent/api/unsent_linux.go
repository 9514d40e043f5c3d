package api

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, which package syscall lacks.
const tcpUserTimeout = 18

// boundUnsent ends the connection when what was sent is not acknowledged for so long (tcp(7), RFC 5482).
func boundUnsent(conn *net.TCPConn, bound time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(bound.Milliseconds()))
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}
