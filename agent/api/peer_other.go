//go:build !linux

package api

import (
	"errors"
	"net"
)

func peerUID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
