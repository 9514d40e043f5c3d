package cli

import "syscall"

// bound ties a command to this process: it is killed when this one is gone, so that nobody serves whom nobody announces. It
// has a process group of its own, so that a signal for the group does not reach it before the gateways are done with
// it; at a terminal it would then not be able to read from that.
func bound(terminal bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: !terminal}
}
