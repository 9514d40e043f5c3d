package agent_test

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// forbid makes a folder in which nobody can make anything.
func forbid(t *testing.T, folder string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(folder, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(folder, 0o700) })
		return
	}
	// Modes don't stop root; an immutable inode does.
	const immutable = 0x10 // FS_IMMUTABLE_FL, linux/fs.h
	setFlags(t, folder, immutable)
	t.Cleanup(func() { setFlags(t, folder, 0) })
}

// setFlags sets the inode flags of a folder, as chattr(1) does.
func setFlags(t *testing.T, folder string, flags int32) {
	t.Helper()
	f, err := os.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const setFlags = 0x40086602 // FS_IOC_SETFLAGS, linux/fs.h
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), setFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		t.Skipf("inode flags of %s: %v", folder, errno)
	}
}
