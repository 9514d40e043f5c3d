package announce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// ListenAndServe listens at server.Addr (":http" if that is empty) and does what
// Serve does. With port 0 there, {port} in Config.Address stands for the port
// that the system chose.
func ListenAndServe(ctx context.Context, server *http.Server, config Config) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(server.Addr, ":http"))
	if err != nil {
		return err
	}
	return Serve(ctx, l, server, config)
}

// Serve serves at l, which it closes, and announces. On SIGTERM, an interrupt or
// the end of ctx it drains for at most Config.Drain, then shuts the server down,
// for which it gives requests under way as long again, and returns nil. A second
// signal ends the process at once.
//
// It returns an error if the server fails, the announcement is refused at the
// start or ends for good later (see Announcer.Err), and if requests had to be
// cut off. Only the port of the announced address may come from the listener:
// see Config.Address. For TLS give it a listener of crypto/tls, and an address
// that begins with https.
func Serve(ctx context.Context, l net.Listener, server *http.Server, config Config) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		config.Address = strings.ReplaceAll(config.Address, "{port}", strconv.Itoa(tcp.Port))
	}
	failed := make(chan error, 1) // Serve sends once, also when nobody listens any more
	go func() { failed <- server.Serve(l) }()

	// What the first attempt brings is waited for also if it is to end already: an
	// agent may have accepted it.
	a, err := Start(context.WithoutCancel(ctx), config)
	if err != nil {
		return errors.Join(err, shutdown(server, &config))
	}
	select {
	case err = <-failed:
		return errors.Join(ignoreClosed(err), a.Close())
	case <-a.Done():
	case <-ctx.Done():
	}
	stop()
	// The gateways first: while they learn of it the server still answers.
	if err := a.Close(); err != nil {
		a.log.Warn("stopping all the same", "err", err)
	}
	return errors.Join(a.Err(), shutdown(server, &config))
}

// shutdown lets requests under way end. After a drain there are none but those
// of clients that come past the gateways.
func shutdown(server *http.Server, config *Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(config.drain(), DefaultDrain))
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("announce: requests were cut off: %w", err), server.Close())
	}
	return nil
}

// ignoreClosed is for a server that somebody shut down.
func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
