package http1

import (
	"syscall"
	"unsafe"
)

// receive reads what a socket holds, and transmit writes what it takes. Neither
// waits: EAGAIN says that there is nothing, or no room. Because they return at
// once they are calls that the scheduler is not told of, which would cost as much
// as the call itself; and they are a socket's own calls, because read and write
// go through what a file needs as well.
func receive(fd uintptr, p []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			syscall.MSG_DONTWAIT|flags, 0, 0)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

func transmit(fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}
