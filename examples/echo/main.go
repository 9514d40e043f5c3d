// Command echo is a backend that answers every request with what it received, as JSON.
//
// Each argument is an address to listen on. -delay makes every answer wait. An interrupt or SIGTERM stops it after the
// requests in hand are answered.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// drain bounds how long a stopping server waits for the requests in hand.
const drain = 5 * time.Second

func main() {
	delay := flag.Duration("delay", 0, "wait this long before each answer")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: echo [-delay 100ms] ADDRESS...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Args(), *delay, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// run serves on all addresses until ctx ends or one of them fails, and writes one line for each address it listens on.
func run(ctx context.Context, addresses []string, delay time.Duration, log io.Writer) error {
	listeners, err := listen(ctx, addresses)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, len(listeners)) // one send for each listener, so no sender waits
	for _, l := range listeners {
		fmt.Fprintf(log, "echo listens on %s\n", l.Addr())
		go func() { stopped <- serve(ctx, l, delay) }()
	}
	var errs []error
	for range listeners {
		errs = append(errs, <-stopped)
		stop() // the first to end ends the others
	}
	return errors.Join(errs...)
}

// listen opens every address, or none.
func listen(ctx context.Context, addresses []string) ([]net.Listener, error) {
	var opened []net.Listener
	for _, address := range addresses {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			for _, o := range opened {
				o.Close()
			}
			return nil, err
		}
		opened = append(opened, l)
	}
	return opened, nil
}

// serve answers on l until ctx ends, then lets the requests in hand finish.
func serve(ctx context.Context, l net.Listener, delay time.Duration) error {
	server := &http.Server{Handler: handler(l.Addr().String(), delay), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1) // Serve sends once, also when nobody listens any more
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return server.Shutdown(deadline)
}

// received is the answer to every request.
type received struct {
	Address    string      `json:"address"` // where this backend listens
	Method     string      `json:"method"`
	Target     string      `json:"target"` // as it stood in the request line
	Host       string      `json:"host"`
	Headers    http.Header `json:"headers"`
	BodyLength int64       `json:"bodyLength"`
}

func handler(address string, delay time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the client broke off: there is nobody to answer
		}
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.Encode(received{address, r.Method, r.RequestURI, r.Host, r.Header, length})
	})
}
