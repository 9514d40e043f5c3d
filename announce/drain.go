package announce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Drain tells the gateways to send no more requests, and returns when each live
// one has confirmed that it does not, that none is under way and that no
// connection to the instance is open. The instance stays announced, draining,
// until Close.
//
// ctx bounds the wait; without a deadline Config.Drain does. If not all have
// confirmed by then the error is a *DrainError that names the others. When the
// connection to the agent is lost meanwhile, or is lost already, Drain waits
// until it is there again. An instance that no agent ever accepted has nothing
// to drain.
func (a *Announcer) Drain(ctx context.Context) (Drained, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(a.config.drain(), DefaultDrain))
		defer cancel()
	}
	if !a.beginDrain() {
		return Drained{}, nil
	}
	a.update(func(s *Status) {
		if s.State == Announced {
			s.State = Draining
		}
	})
	for {
		l, err := a.awaitLease(ctx)
		if l == nil {
			return Drained{}, err
		}
		drained, err := l.drain(ctx)
		var refused *RefusedError
		switch {
		case err == nil:
			return drained, a.confirm(drained)
		case errors.As(err, &refused) && refused.Status != http.StatusNotFound:
			return Drained{}, err
		}
		// The connection broke, or the agent that has the lease is no more: run gets another one.
		select {
		case <-time.After(hurriedPause):
		case <-ctx.Done():
			return Drained{}, fmt.Errorf("announce: drain: no answer of the agent at %s in time: %w", l.place, err)
		}
	}
}

// beginDrain says whether there is anything to drain.
func (a *Announcer) beginDrain() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.draining {
		a.draining = true
		a.signal()
	}
	return a.known || a.trying
}

// awaitLease waits for a connection to the agent. Both are nil if no agent ever
// accepted the instance.
func (a *Announcer) awaitLease(ctx context.Context) (*lease, error) {
	for {
		a.mu.Lock()
		l, changed, some := a.lease, a.changed, a.known || a.trying
		a.mu.Unlock()
		if l != nil || !some {
			return l, nil
		}
		select {
		case <-changed:
		case <-a.done:
			return nil, cmp.Or(a.Err(), errClosed)
		case <-ctx.Done():
			return nil, fmt.Errorf("announce: drain: the agent was not reached in time; the gateways send requests to %s until they notice that it is gone", a.config.Address)
		}
	}
}

var errClosed = errors.New("announce: drain: the announcement was closed")

// answerTime is left of a deadline for the way of the agent's answer.
const answerTime = 100 * time.Millisecond

// drain asks for the handshake.
func (l *lease) drain(ctx context.Context) (Drained, error) {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	timeout := max(left-answerTime, left/2).Round(time.Millisecond)
	var drained Drained
	err := l.call(ctx, "POST", "/drain?timeout="+timeout.String(), nil, &drained)
	return drained, err
}

// confirm keeps that all have confirmed, or says who has not.
func (a *Announcer) confirm(d Drained) error {
	if len(d.Stragglers) > 0 || d.Confirmed < d.Of {
		return &DrainError{d}
	}
	a.mu.Lock()
	a.drained = true
	a.mu.Unlock()
	a.log.Info("drained", "instance", a.Status().Instance, "confirmed", d.Confirmed, "of", d.Of, "took", d.Took)
	return nil
}

// DrainError is a drain that not every gateway has confirmed in time.
type DrainError struct{ Drained }

func (e *DrainError) Error() string {
	names := make([]string, len(e.Stragglers))
	for i, s := range e.Stragglers {
		names[i] = s.Node + " (" + s.Why + ")"
	}
	return fmt.Sprintf("announce: drain: %d of %d gateways confirmed in %v; not %s", e.Confirmed, e.Of, e.Took, strings.Join(names, ", "))
}

// Close drains, for at most Config.Drain, and ends the connection, which
// withdraws the instance. When it returns nothing of the Announcer is left. It
// returns what went wrong with the drain. Closing again waits for the first
// Close, and returns the same.
func (a *Announcer) Close() error { return a.close() }

func (a *Announcer) drainAndEnd() error {
	var err error
	if a.mustDrain() {
		_, err = a.Drain(context.Background())
	}
	a.end()
	<-a.done
	return err
}

func (a *Announcer) mustDrain() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return (a.known || a.trying) && !a.drained && a.err == nil && a.config.drain() > 0
}
