//go:build !linux

package api

import (
	"net"
	"time"
)

// boundUnsent does nothing: there the kernel's own patience counts.
func boundUnsent(*net.TCPConn, time.Duration) error { return nil }
