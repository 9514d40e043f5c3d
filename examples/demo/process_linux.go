package main

import "syscall"

// endsWithParent has the kernel end a child when the demo ends, however that ends.
func endsWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
