package agent

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Keep-alive of clients' connections, as package net has it by default.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 15 * time.Second
	keepAliveCount    = 9
)

// listenFront opens the listener of the proxy. Keep-alive is set on it and not on each connection: those inherit it, which
// spares four system calls of about twenty that a connection with one request needs. It is plain TCP, whose sockets the proxy reads,
// splices and asks for their state by descriptor; package net would listen for MPTCP too.
func listenFront(address string) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1, Control: keepAlive}
	config.SetMultipathTCP(false)
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, bindError(err)
	}
	return listener, nil
}

// keepAlive is a net.ListenConfig's Control.
func keepAlive(_, _ string, raw syscall.RawConn) (err error) {
	options := []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepAliveIdle.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(keepAliveInterval.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveCount},
	}
	controlErr := raw.Control(func(fd uintptr) {
		for _, o := range options {
			if err == nil {
				err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), o.level, o.name, o.value))
			}
		}
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}
