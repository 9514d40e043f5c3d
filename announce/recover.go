package announce

import (
	"errors"
	"time"

	"grapevine/announce/reach"
)

// hurriedPause is for an instance that drains, whose process wants to end.
const hurriedPause = 200 * time.Millisecond

// restartError is an agent that says that it stops, and holds its instances.
type restartError struct{ reason string }

func (e *restartError) Error() string { return "the agent restarts: " + e.reason }

// pause waits before the next attempt, and says whether there is to be one.
func (a *Announcer) pause() bool {
	pause := a.backoff.Pause()
	for {
		a.mu.Lock()
		draining, changed := a.draining, a.changed
		a.mu.Unlock()
		if draining {
			pause = min(pause, hurriedPause)
			changed = nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			return true
		case <-changed:
			timer.Stop()
		case <-a.life.Done():
			timer.Stop()
			return false
		}
	}
}

// lost is told of each connection and each attempt that failed. Only run calls it.
func (a *Announcer) lost(err error) {
	untold, tell := a.outage.Lost()
	if !tell {
		return
	}
	var restart *restartError
	if errors.As(err, &restart) {
		a.log.Info("waiting for the agent", "err", err, "untold", untold)
	} else {
		a.log.Warn("the agent can't be reached; trying again", "err", err, "untold", untold)
	}
}

// found is told of each connection that was made. Only run calls it.
func (a *Announcer) found(instance string, p reach.Place) {
	if attempts, tell := a.outage.Over(); tell {
		a.log.Info("announced", "instance", instance, "agent", p.String(), "attempts", attempts)
	}
}
