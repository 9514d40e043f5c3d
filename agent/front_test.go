package agent

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFrontKeepsConnectionsAlive: a client that vanished without a word must not hold its connection for ever.
func TestFrontKeepsConnectionsAlive(t *testing.T) {
	listener, err := listenFront("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct{ level, name, want int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_PROTOCOL, unix.IPPROTO_TCP},
	} {
		var got int
		if controlErr := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), o.level, o.name) }); controlErr != nil || err != nil {
			t.Fatal(controlErr, err)
		}
		if got != o.want {
			t.Errorf("option %d of level %d is %d, want %d", o.name, o.level, got, o.want)
		}
	}
}
