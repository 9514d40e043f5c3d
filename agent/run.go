package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"grapevine/agent/cluster"
)

// signalQueue holds more signals than a person can send before they are obeyed; what is beyond it is dropped, and the
// same signal is in it already.
const signalQueue = 8

// Run runs a node until ctx ends or the process gets SIGTERM or SIGINT; SIGHUP reloads the static files, and a second
// SIGTERM or SIGINT ends it without waiting for anybody. The error has an ExitCode method.
func Run(ctx context.Context, config Config, log io.Writer) error {
	// A reader of our output that ends must not end us: the write fails instead.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, signalQueue)
	// Before Open, since SIGHUP would end the process until somebody listens to it.
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)

	a := New(config, log)
	if err := a.Open(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go a.obey(signals, stop)
	defer close(signals)
	defer signal.Stop(signals) // nobody may send any more when it is closed
	return a.Run(ctx)
}

// obey does what the signals say until their channel is closed.
func (a *Agent) obey(signals <-chan os.Signal, stop func()) {
	stopping := false
	for s := range signals {
		switch {
		case s == syscall.SIGHUP:
			// Its outcome is in the log and in the status.
			_ = a.Reload()
		case stopping:
			a.Force()
		default:
			stopping = true
			stop()
		}
	}
}

// Run serves until ctx ends, or until something that serves fails, and stops in order. Call it once, after Open.
func (a *Agent) Run(ctx context.Context) error {
	compiling, stopCompiling := context.WithCancel(context.Background())
	defer stopCompiling()
	stopLogging := a.startAccessLog()
	g := group{ended: make(chan error, 1)}
	// The proxy before the API: what the API tells must be true already.
	if a.gateway != nil {
		g.start(func() error { return a.gateway.Run(compiling) })
		g.start(func() error { return a.front.Serve(a.listeners.http) })
		g.start(func() error { return a.gateway.EndOverdue(compiling, a.front) })
		g.start(func() error { return a.clearMaintenance(compiling) })
	} else {
		g.start(func() error { return a.reportStore(compiling) })
	}
	g.start(a.leases.Run)
	g.start(func() error { return a.policy.follow(compiling) })
	for name, listener := range a.listeners.all() {
		if server := a.doors[name]; server != nil {
			g.start(func() error { return serve(server, listener) })
		}
	}
	if a.cluster != nil {
		g.start(a.cluster.Run)
		found := a.cluster.Advertised()
		a.logger.Info("other nodes reach this one", "address", found.Address.String(), "by", found.How)
	}
	a.logger.Info("agent is up", "addresses", a.Addresses(), "id", a.id, "data", a.settings.dataDir, "version", a.config.Version)

	var failed error
	select {
	case <-ctx.Done():
	case <-a.left:
		a.logger.Info("the node has left its cluster")
	case failed = <-g.ended:
	}
	code := exitFailure
	if errors.As(failed, new(*cluster.FencedError)) {
		code = exitFenced
	}
	return exit(code, errors.Join(failed, a.shutdown(&g, stopCompiling, stopLogging)))
}

// Force makes a shutdown that is under way wait for nobody, and one to come as well.
func (a *Agent) Force() { a.forceOnce.Do(func() { close(a.force) }) }

// group is the goroutines of a Run.
type group struct {
	sync.WaitGroup
	ended chan error // what the first of them returned; the others have nowhere to tell, and no need to
}

func (g *group) start(part func() error) {
	g.Go(func() {
		err := part()
		select {
		case g.ended <- err:
		default:
		}
	})
}

// serve serves until the server is closed.
func serve(server *http.Server, listener net.Listener) error {
	err := server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serving %s: %w", listener.Addr(), err)
}

// absolute is a path as it reads from any directory.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
