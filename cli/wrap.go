package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"grapevine/announce"
)

// The exit codes of agent announce itself, as those of env(1) and of container tools.
const (
	exitWrapper = 125 // it failed itself
	exitNotRun  = 126 // the command can't be run
	exitNoFile  = 127 // there is no such command
)

// probeEvery is how often --wait-http asks, and probeBound how long it waits for each answer.
const (
	probeEvery = 100 * time.Millisecond
	probeBound = 2 * time.Second
)

// wrapper is one run of agent announce: a command, if there is one, and its announcement.
type wrapper struct {
	wrapping
	child     *child // nil: none
	announcer *announce.Announcer

	signals chan os.Signal
	begun   chan begin              // the announcement has begun, or has failed for good
	over    bool                    // begun has told
	cancel  context.CancelCauseFunc // ends the wait before the announcement
	drained chan struct{}           // closed when the gateways are done
	stop    syscall.Signal
}

type begin struct {
	announcer *announce.Announcer
	err       error
}

// wrap runs the command and announces it. The error is what the process is to exit with.
func (p *program) wrap(asked wrapping) error {
	w := &wrapper{wrapping: asked, signals: make(chan os.Signal, 8), begun: make(chan begin, 1), drained: make(chan struct{})}
	// Before the command, so that no signal is lost that is meant for it.
	signal.Notify(w.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(w.signals)
	var exited <-chan error
	if len(w.command) > 0 {
		var err error
		if w.child, err = p.startChild(w.command); err != nil {
			return err
		}
		exited = w.child.exited
	}
	var ctx context.Context
	ctx, w.cancel = context.WithCancelCause(context.Background())
	defer w.cancel(nil)
	go w.begin(ctx)
	return w.run(exited)
}

// begin announces as soon as the service is there.
func (w *wrapper) begin(ctx context.Context) {
	err := w.await(ctx)
	if err == nil {
		err = w.findAddress(ctx)
	}
	var a *announce.Announcer
	if err == nil {
		// From here on gateways may know the service, and it has to be drained: no signal cuts this short.
		a, err = announce.Start(context.Background(), w.config)
	}
	w.begun <- begin{a, err}
}

// await waits until the service answers as --wait-http wants it.
func (w *wrapper) await(ctx context.Context) error {
	if w.probe == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, w.patience, fmt.Errorf("--wait-http: %s: no good answer within %s", w.probe, w.patience))
	defer cancel()
	client := &http.Client{Timeout: probeBound, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.probe, nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode/100 == 2 {
				return nil
			}
		}
		select {
		case <-time.After(probeEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run goes on until the command has ended, or without one until somebody ends it.
func (w *wrapper) run(exited <-chan error) error {
	drained := w.drained
	var ended <-chan struct{}
	var failed error
	for {
		select {
		case s := <-w.signals:
			if w.obey(s.(syscall.Signal)) {
				w.close()
				return interrupted{s.(syscall.Signal)}
			}
		case b := <-w.begun:
			w.announcer, w.over = b.announcer, true
			if w.stop != 0 {
				go w.drainFirst(b.announcer)
				continue
			}
			if b.announcer != nil {
				ended = b.announcer.Done()
				continue
			}
			failed = w.failed(b.err)
			if w.child == nil {
				return failed
			}
			w.child.signal(syscall.SIGTERM)
		case <-ended:
			ended = nil
			if err := w.announcer.Err(); w.child == nil && err != nil {
				return w.failed(err)
			}
		case <-drained:
			drained = nil
			if w.child == nil {
				w.close()
				return interrupted{w.stop}
			}
			w.child.signal(w.stop)
		case err := <-exited:
			w.close()
			if failed != nil {
				return failed
			}
			return err
		}
	}
}

// obey does what a signal says. It reports whether there is nothing left to wait for.
func (w *wrapper) obey(s syscall.Signal) (over bool) {
	switch {
	case s != syscall.SIGTERM && s != syscall.SIGINT && w.child != nil:
		w.child.signal(s)
	case s == syscall.SIGUSR1 || s == syscall.SIGUSR2: // for nobody
	case w.stop != 0 && w.child != nil:
		w.child.signal(s) // whoever asks twice does not want to wait
	case w.stop != 0:
		return true
	default:
		w.stop = s
		w.cancel(interrupted{s})
		if w.over {
			go w.drainFirst(w.announcer)
		}
	}
	return false
}

// drainFirst lets the gateways finish with the service. What went wrong with that the announcer's log says, or the error.
func (w *wrapper) drainFirst(a *announce.Announcer) {
	defer close(w.drained)
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.wrapping.drain)
	defer cancel()
	if _, err := a.Drain(ctx); err != nil {
		w.config.Logger.Warn("not all gateways are done; going on", "err", err)
	}
}

// close withdraws the service.
func (w *wrapper) close() {
	w.cancel(nil)
	if w.announcer != nil {
		_ = w.announcer.Close() // it does not drain, and so has nothing to fail
	}
}

// failed is what agent announce exits with when it can't announce. With a command the codes below 125 are that one's.
func (w *wrapper) failed(err error) error {
	f := &failure{code: exitFailure, problem: err.Error(), cause: err, next: "agent announce --help"}
	if refused, ok := errors.AsType[*announce.RefusedError](err); ok {
		f.code, f.problem, f.next = codeOf(refused.Status, refused.Code), refused.Detail, ""
		for _, fault := range refused.Faults {
			f.details = append(f.details, fmt.Sprintf("%s %q: %s", fault.Field, fault.Value, fault.Problem))
		}
	}
	if w.child != nil {
		f.code = exitWrapper
	}
	return f
}
