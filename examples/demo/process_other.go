//go:build !linux

package main

import "syscall"

// endsWithParent changes nothing: other kernels can't end a child with its parent.
func endsWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
