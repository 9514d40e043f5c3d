//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"
)

// figures are times of the same thing.
type figures []time.Duration

// at is the quantile of a share by its nearest rank: the least of them that at least
// this share is not above.
func (f figures) at(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(f))
	return sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
}

func (f figures) print(out io.Writer, what string) {
	if len(f) == 0 {
		return
	}
	fmt.Fprintf(out, "  %-44s n %4d  p50 %9s  p90 %9s  p99 %9s  max %9s\n", what, len(f), short(f.at(.5)), short(f.at(.9)), short(f.at(.99)), short(f.at(1)))
}

func short(d time.Duration) string { return fmt.Sprintf("%.2fms", float64(d.Microseconds())/1000) }

// pingPong sends a payload to an echo over TCP, and back.
type pingPong struct {
	listener net.Listener
	conn     net.Conn
	payload  []byte
	took     figures
}

func newPingPong(payload int) (*pingPong, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.Copy(conn, conn) // until close
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		listener.Close()
		return nil, err
	}
	return &pingPong{listener: listener, conn: conn, payload: make([]byte, payload)}, nil
}

func (p *pingPong) play() error {
	began := time.Now()
	if _, err := p.conn.Write(p.payload); err != nil {
		return err
	}
	if _, err := io.ReadFull(p.conn, p.payload); err != nil {
		return err
	}
	p.took = append(p.took, time.Since(began))
	return nil
}

func (p *pingPong) close() {
	p.conn.Close()
	p.listener.Close()
}

// profile writes a CPU profile to a file until stop; an empty name writes none.
func profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		file.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
