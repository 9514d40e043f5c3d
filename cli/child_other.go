//go:build !linux

package cli

import "syscall"

// bound gives a command a process group of its own, as on Linux, where it also ends with this process.
func bound(terminal bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: !terminal} }
