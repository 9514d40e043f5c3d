//go:build linux

package wire

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// sysEpollPwait2 has this number on every architecture that Go runs Linux on; the wait is in nanoseconds, where
// epoll_wait knows only milliseconds (Linux 5.11).
const sysEpollPwait2 = 441

// maxBacklog is the queue of connections that wait for accept; the kernel cuts it to net.core.somaxconn.
const maxBacklog = 4096

// poller tells which descriptors are ready, level-triggered.
type poller struct {
	fd     int
	limit  syscall.Timespec
	events [256]syscall.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) add(fd int) error {
	return p.control(syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN)
}

// watch asks for reading, writing, both or neither.
func (p *poller) watch(fd int, read, write bool) error {
	var events uint32
	if read {
		events |= syscall.EPOLLIN
	}
	if write {
		events |= syscall.EPOLLOUT
	}
	return p.control(syscall.EPOLL_CTL_MOD, fd, events)
}

func (p *poller) control(op, fd int, events uint32) error {
	event := syscall.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(p.fd, op, fd, &event))
}

// wait returns what is ready, nothing once the timeout is over. A negative timeout is for ever.
//
// The call is raw: told of it, the scheduler would take the processor away from the loop at each wait and give it back,
// which costs more than all the rest of a relay. It interrupts the call by a signal when it needs the loop to yield.
func (p *poller) wait(timeout time.Duration) ([]syscall.EpollEvent, error) {
	var limit *syscall.Timespec
	if timeout >= 0 {
		p.limit = syscall.NsecToTimespec(int64(timeout))
		limit = &p.limit
	}
	n, _, errno := syscall.RawSyscall6(sysEpollPwait2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(unsafe.Pointer(limit)), 0, 0)
	switch errno {
	case 0:
		return p.events[:n], nil
	case syscall.EINTR:
		return nil, nil
	}
	return nil, os.NewSyscallError("epoll_pwait2", errno)
}

func (p *poller) close() { syscall.Close(p.fd) }

// listen opens port on loopback. Several may share the port; the kernel deals connections out among them.
func listen(port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1),
		os.NewSyscallError("bind", syscall.Bind(fd, loopback(port))),
		os.NewSyscallError("listen", syscall.Listen(fd, maxBacklog)))
	if err != nil {
		syscall.Close(fd)
		return 0, err
	}
	return fd, nil
}

// soReusePort is SO_REUSEPORT, which package syscall lacks on some architectures.
const soReusePort = 15

func loopback(port int) *syscall.SockaddrInet4 {
	return &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

// accept returns the next waiting connection, false when there is none.
func accept(listener int) (int, bool) {
	fd, _, err := syscall.Accept4(listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
	if err != nil {
		return 0, false
	}
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	return fd, true
}

// dial waits for the connection, which on loopback is at once.
func dial(port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := syscall.Connect(fd, loopback(port)); err != nil {
		syscall.Close(fd)
		return 0, os.NewSyscallError("connect", err)
	}
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return 0, os.NewSyscallError("fcntl", err)
	}
	return fd, nil
}

// receive reads what is there: 0 without an error means nothing yet, an error that the connection is over.
func receive(fd int, into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return 0, nil
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, errClosed
	}
	return int(n), nil
}

var errClosed = errors.New("closed by the other side")

// send writes what fits: 0 without an error means nothing at present.
func send(fd int, what []byte) (int, error) {
	if len(what) == 0 {
		return 0, nil
	}
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&what[0])), uintptr(len(what)))
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return 0, nil
	case errno != 0:
		return 0, errno
	}
	return int(n), nil
}

// table finds what belongs to a descriptor. Descriptors are small numbers, so it is a slice.
type table[T any] []*T

func (t table[T]) at(fd int) *T {
	if fd >= len(t) {
		return nil
	}
	return t[fd]
}

func (t *table[T]) put(fd int, what *T) {
	for fd >= len(*t) {
		*t = append(*t, nil)
	}
	(*t)[fd] = what
}
