package announce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"grapevine/announce/reach"
)

// Announcer keeps one instance announced. Start makes one; its zero value is of
// no use.
type Announcer struct {
	config  Config
	dial    reach.Dial
	log     *slog.Logger
	started time.Time

	life  context.Context // ends with Close, or when nothing is to be announced any more
	end   context.CancelFunc
	ready chan struct{}
	done  chan struct{}
	kick  chan struct{} // a heartbeat is due; one is enough
	close func() error  // once

	outage  reach.Outage  // run's own
	backoff reach.Backoff // run's own

	telling sync.Mutex // keeps changes of status, and calls of OnChange, in one order

	// mu guards what follows. It is held for moments only.
	mu       sync.Mutex
	changed  chan struct{} // closed and made anew when lease, trying or draining change
	lease    *lease        // nil while there is no connection
	trying   bool          // an agent may be about to accept it
	known    bool          // an agent has accepted it once, and gateways may send requests
	draining bool          // by Drain or Close
	drained  bool          // every gateway has confirmed
	beats    bool          // heartbeats have begun
	health   Health        // that SetStatus gave; empty: none
	weight   *int
	status   Status
	err      error
}

// Start announces an instance, and keeps it announced until Close. When ctx
// ends it closes by itself, and drains as Close does.
//
// What is wrong with the Config and what the agent refuses is returned, as a
// *RefusedError in the second case. An agent that is not there, does not answer
// within 5 s or is not ready yet is no error: Start returns, and the Announcer
// goes on trying.
func Start(ctx context.Context, config Config) (*Announcer, error) {
	return start(ctx, config, reach.DialPlace)
}

func start(ctx context.Context, config Config, d reach.Dial) (*Announcer, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a := newAnnouncer(ctx, config, d)
	l, err := a.connect(ctx)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		a.end()
		return nil, err
	case err != nil && ctx.Err() != nil:
		a.end()
		return nil, ctx.Err()
	}
	go a.run(ctx, l, err)
	return a, nil
}

func newAnnouncer(ctx context.Context, config Config, d reach.Dial) *Announcer {
	logger := config.Logger
	if logger == nil {
		logger = slog.Default()
	}
	a := &Announcer{
		config: config, dial: d, log: logger.With("component", "announce", "route", config.Route), started: time.Now(),
		ready: make(chan struct{}), done: make(chan struct{}), kick: make(chan struct{}, 1), changed: make(chan struct{}),
		beats: config.Heartbeat > 0, weight: config.Weight,
		status: Status{State: Connecting, Instance: config.Instance},
	}
	a.life, a.end = context.WithCancel(context.WithoutCancel(ctx))
	a.close = sync.OnceValue(a.drainAndEnd)
	return a
}

// Ready is closed once every live gateway serves the instance. It stays open if
// that never comes: wait for Done as well.
func (a *Announcer) Ready() <-chan struct{} { return a.ready }

// Done is closed when the announcement has ended for good, by Close or for the
// reason that Err gives.
func (a *Announcer) Done() <-chan struct{} { return a.done }

// Err is why the announcement ended: ErrSuperseded, ErrWithdrawn or a
// *RefusedError, with more about it. It is nil before, and after Close.
func (a *Announcer) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Status is what is known now.
func (a *Announcer) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// run holds the lease, and gets another one when it is lost. It is the only one
// that connects, so that there is one recovery at a time. l is nil if the first
// attempt failed with err.
func (a *Announcer) run(ctx context.Context, l *lease, err error) {
	unbind := context.AfterFunc(ctx, func() { a.close() })
	defer unbind()
	for a.life.Err() == nil {
		if err == nil {
			err = a.hold(l)
		}
		if a.life.Err() != nil || isFinal(err) {
			break
		}
		a.lost(err)
		a.update(func(s *Status) { s.State, s.Applied, s.Of = Connecting, 0, 0 })
		if !a.pause() {
			break
		}
		l, err = a.connect(a.life)
	}
	if err == nil && l != nil { // it was accepted while the life ended
		l.close()
	}
	a.finish(err)
}

// finish tells why it is over. An end that was asked for has no reason.
func (a *Announcer) finish(err error) {
	if a.life.Err() != nil {
		err = nil
	}
	a.end()
	a.mu.Lock()
	a.err, a.lease = err, nil
	a.mu.Unlock()
	if err != nil {
		a.log.Error("the announcement ended", "instance", a.Status().Instance, "err", err)
	}
	a.update(func(s *Status) { s.State, s.Applied, s.Of = Ended, 0, 0 })
	close(a.done)
}

// isFinal says whether trying again would be in vain.
func isFinal(err error) bool {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.isFinal()
	}
	return errors.Is(err, ErrSuperseded) || errors.Is(err, ErrWithdrawn)
}

// connect announces to wherever the agent is now.
func (a *Announcer) connect(ctx context.Context) (*lease, error) {
	p, err := reach.Locate("Agent", a.config.Agent)
	if err != nil {
		return nil, err
	}
	it := a.try()
	l, accepted, err := open(ctx, a.life, a.dial, p, a.config.Token, it)
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.trying = false
		a.signal()
		return nil, err
	}
	a.accept(l, accepted)
	return l, nil
}

// try is what is announced now. From here on the gateways may know of it.
func (a *Announcer) try() announcement {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trying = true
	return a.announcement()
}

func (a *Announcer) accept(l *lease, e event) {
	a.mu.Lock()
	a.lease, a.known, a.trying = l, true, false
	a.signal()
	state := Announced
	if a.draining {
		state = Draining
	}
	a.mu.Unlock()
	a.found(e.InstanceID, l.place)
	for _, notice := range e.Notices {
		a.log.Warn("the route is not served as announced", "instance", e.InstanceID, "notice", notice)
	}
	a.update(func(s *Status) {
		s.State, s.Instance, s.Key, s.Node = state, e.InstanceID, e.Key, e.Node
		s.Effective, s.Notices = e.Effective, e.Notices
	})
}

// hold takes the agent's events until the connection ends, and says why it did.
func (a *Announcer) hold(l *lease) error {
	var beats sync.WaitGroup
	beats.Go(func() { a.beat(l) })
	defer func() {
		l.close()
		a.mu.Lock()
		a.lease = nil
		a.signal()
		a.mu.Unlock()
		beats.Wait()
		a.backoff.Held(time.Since(l.since))
	}()
	for {
		e, err := l.next()
		if err != nil {
			return err
		}
		if err := a.take(e); err != nil {
			return err
		}
	}
}

// take acts on an event. An error ends the connection.
func (a *Announcer) take(e event) error {
	switch e.Event {
	case "applied":
		a.update(func(s *Status) { s.Applied, s.Of = e.Nodes, e.Of })
		a.checkReady(e)
	case "status":
		a.update(func(s *Status) {
			if s.Health, s.Reason = e.Status, e.Reason; !a.isDraining() {
				s.State = Announced // an operator may end the drain that he began
			}
		})
	case "draining":
		if !a.isDraining() {
			a.log.Info("draining", "instance", a.Status().Instance, "by", e.By, "reason", e.Reason)
		}
		a.update(func(s *Status) { s.State, s.Reason = Draining, e.Reason })
	case "superseded":
		return fmt.Errorf("announce: %w: %s", ErrSuperseded, e.Reason)
	case "withdrawn":
		return fmt.Errorf("announce: %w: %s", ErrWithdrawn, e.Reason)
	case "restarting":
		return &restartError{e.Reason}
	}
	return nil
}

// checkReady closes ready, once. With no gateway alive nobody serves the instance.
func (a *Announcer) checkReady(e event) {
	if e.Nodes == 0 || e.Nodes < e.Of {
		return
	}
	select {
	case <-a.ready:
	default:
		close(a.ready)
	}
}

// update changes the status and tells of it.
func (a *Announcer) update(change func(*Status)) {
	a.telling.Lock()
	defer a.telling.Unlock()
	before := a.Status()
	now := before
	change(&now)
	if reflect.DeepEqual(now, before) {
		return
	}
	a.mu.Lock()
	a.status = now
	a.mu.Unlock()
	if a.config.OnChange != nil {
		a.config.OnChange(now)
	}
}

// signal wakes those that wait for another lease. mu is held.
func (a *Announcer) signal() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Announcer) isDraining() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining
}
