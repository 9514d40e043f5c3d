package consensus

import (
	"errors"
	"fmt"
	"time"

	"grapevine/kv"
)

// The pauses before raft is started anew on a disk that failed: they double until
// an instance has run for calmAfter.
const (
	firstPause = time.Second
	longPause  = 10 * time.Second
	calmAfter  = 5 * time.Second
)

// keep starts raft anew when it can't go on, until Shutdown.
func (r *Raft) keep() {
	pause := firstPause
	for {
		select {
		case b := <-r.broken:
			if r.renew(b, pause) {
				pause = min(2*pause, longPause)
			}
		case <-time.After(calmAfter):
			if r.instance() != nil {
				r.setProblem(nil)
				pause = firstPause
			}
		case <-r.quit:
			return
		}
	}
}

// renew replaces an instance that can't go on. failed says that the disk is why.
func (r *Raft) renew(b broken, pause time.Duration) (failed bool) {
	r.swap.lock()
	defer r.swap.unlock()
	if r.instance() != b.instance || r.isClosed() {
		return false
	}
	r.stop()
	if errors.Is(b.why, errSnapshotTaken) {
		r.log.Info("raft is started anew", "why", b.why)
		if b.why = r.reopen(); b.why == nil {
			return false
		}
	}
	r.fail(b.why)
	if isForGood(b.why) {
		return true
	}
	for {
		select {
		case <-time.After(pause):
		case <-r.quit:
			return true
		}
		err := r.reopen()
		if err == nil {
			return true
		}
		r.setProblem(fmt.Errorf("%w (tried again: %w)", b.why, err))
		if errors.Is(err, ErrRejoin) {
			return true
		}
		pause = min(2*pause, longPause)
	}
}

// fail notes why raft does not run.
func (r *Raft) fail(why error) {
	if r.Problem() == nil {
		r.log.Error("raft has stopped on this node", "err", why)
	}
	r.setProblem(why)
}

// isForGood reports whether only another program, or opening the store again, can
// help.
func isForGood(why error) bool {
	var stopped *StoppedError
	return errors.As(why, &stopped) && !errors.Is(why, kv.ErrDiskFull)
}

// reopen reads the stores again and starts an instance, once the store's file has
// all that the one before has merged.
func (r *Raft) reopen() error {
	if r.o.Dir != "" {
		if err := r.o.Store.Flush(); err != nil {
			return err
		}
		if err := r.closeHome(); err != nil {
			r.log.Info("closing raft's log", "err", err)
		}
		if err := r.openHome(); err != nil {
			return errors.Join(err, r.closeHome())
		}
	}
	return r.begin()
}
