// Command demo runs a cluster of three nodes on this machine, two backends behind it and a little traffic, and says what
// to try. It stands in the foreground: an interrupt ends everything that it started, and removes the folder .demo.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

// The kernel ends a child when the thread that started it ends. Only that of main lives as long as the process.
func init() { runtime.LockOSThread() }

func main() {
	host := flag.String("host", "127.0.0.1", "take the ports of this loopback `ADDRESS`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *host, enters(os.Stdin), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// enters tells of each line that somebody types. It ends with the process.
func enters(r io.Reader) <-chan struct{} {
	typed := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			typed <- struct{}{}
		}
	}()
	return typed
}

// run is the demo from its first check to its last word. The folder stays if it could not start: the logs are in it.
func run(ctx context.Context, host string, enter <-chan struct{}, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d := newDemo(host, filepath.Dir(self), out)
	if err := d.free(); err != nil {
		return err
	}
	// The ports are free, so nobody is left of a demo that did not end well.
	if err := errors.Join(os.RemoveAll(folder), os.Mkdir(folder, 0o700)); err != nil {
		return err
	}
	err = d.start(ctx)
	if err == nil {
		d.explain()
		d.watch(ctx, enter)
	}
	d.stop()
	if err != nil && ctx.Err() == nil {
		return err
	}
	return os.RemoveAll(folder)
}
