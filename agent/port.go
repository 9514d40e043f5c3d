package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"grapevine/agent/cluster"
)

// portTries is how often another TCP port is taken when the UDP port of the same number is in use. It counts only
// where the system chooses.
const portTries = 16

// listenPort opens a TCP port and the UDP port of the same number.
func listenPort(address string) (cluster.Port, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	port := cluster.Port{Dial: func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address)
	}}
	var err error
	for range portTries {
		if port.Listener, err = net.Listen("tcp", address); err != nil {
			return port, bindError(err)
		}
		if port.Packets, err = net.ListenPacket("udp", port.Listener.Addr().String()); err == nil {
			return port, nil
		}
		err = errors.Join(bindError(err), port.Listener.Close())
		if _, number, _ := net.SplitHostPort(address); number != "0" {
			break
		}
	}
	return port, fmt.Errorf("UDP: %w", err)
}

// later is a handler that is known later. Requests that come before wait for it.
type later struct {
	known   chan struct{}
	handler http.Handler
}

func newLater() *later { return &later{known: make(chan struct{})} }

// is says which one it is. It is called once.
func (l *later) is(handler http.Handler) {
	l.handler = handler
	close(l.known)
}

func (l *later) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-l.known:
		l.handler.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}
