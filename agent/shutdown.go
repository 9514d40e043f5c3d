package agent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// doorsTimeout bounds the wait for requests of the API. Its watches are ended before, and what is left is short.
const doorsTimeout = 5 * time.Second

// shutdown stops everything, in the one order in which nobody loses anything. Each wait is cut short by Force.
func (a *Agent) shutdown(g *group, stopCompiling, stopLogging func()) error {
	var errs []error

	// Readiness first: load balancers must learn that the node goes while it still answers.
	if a.gateway != nil {
		a.gateway.Drain()
	}
	a.logger.Info("agent is stopping", "grace", a.config.Grace.String(), "drain", a.config.Drain.String())

	// Then the time that they need to notice. The listener still accepts.
	a.wait(a.config.Grace)

	// Now nobody should come any more: stop accepting, and let the requests under way finish on their connections.
	if a.front != nil {
		errs = append(errs, a.stop("http", a.front, a.config.Drain))
	}

	// The API after the proxy: until here an operator can ask what the node waits for. Leases and watches first, which
	// never end by themselves; their last event says why. What was announced stays for the next start.
	a.leases.Close()
	a.api.Close()
	for name, server := range a.doors {
		errs = append(errs, a.stop(name, server, doorsTimeout))
	}

	// The cluster after the API, whose last writes may still be on their way.
	errs = append(errs, a.closeCluster(leaderTimeout))

	// The compiler after the API, since a write that is still being answered waits for its table.
	// The access log after the requests that it is about.
	stopCompiling()
	stopLogging()
	g.Wait()

	// Connections to backends, the store and the lock last, when nobody is left who could use them.
	errs = append(errs, a.release())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.logger.Info("agent has stopped")
	return nil
}

// leaderTimeout bounds the handing over to another leader.
const leaderTimeout = 5 * time.Second

// closeCluster ends the node's part in its cluster; a leader hands over first.
func (a *Agent) closeCluster(bound time.Duration) error {
	if a.cluster == nil {
		return nil
	}
	ctx, cancel := a.untilForced(bound)
	defer cancel()
	return a.cluster.Close(ctx)
}

// stopper is what an http.Server and an http1.Server have in common.
type stopper interface {
	Shutdown(ctx context.Context) error
	Close() error
}

// stop closes a server's listener and waits for its requests, at most for the bound; then it cuts them.
func (a *Agent) stop(name string, server stopper, bound time.Duration) error {
	ctx, cancel := a.untilForced(bound)
	defer cancel()
	err := server.Shutdown(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(fmt.Errorf("%s listener: requests were still under way, and were cut", name), server.Close())
}

// wait lets time pass.
func (a *Agent) wait(d time.Duration) {
	ctx, cancel := a.untilForced(d)
	defer cancel()
	<-ctx.Done()
}

// untilForced ends after a time, or when Force says so.
func (a *Agent) untilForced(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	go func() {
		select {
		case <-a.force:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// release lets go of what Open took, as far as it came.
func (a *Agent) release() error {
	var errs []error
	if a.listeners != nil {
		errs = append(errs, a.listeners.close())
	}
	// Where the agent could not even open; else it is closed already.
	errs = append(errs, a.closeCluster(0))
	if a.gateway != nil {
		a.gateway.Close()
	}
	// The store before the lock: who gets the lock must find a store that nobody has open.
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	if a.dir != nil {
		errs = append(errs, a.dir.close())
	}
	return errors.Join(errs...)
}
