package announce

import (
	"errors"
	"log/slog"
	"time"

	"grapevine/announce/reach"
)

const (
	// hurriedPause is for an instance that drains, whose process wants to end.
	hurriedPause = 200 * time.Millisecond
	// quiet is the least time between two log lines about lost connections.
	quiet = 10 * time.Second
)

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

// outage makes one log line of many lost connections. Only run uses it.
type outage struct {
	told  bool      // the latest line said that the connection is lost
	last  time.Time // when
	count int       // connections and attempts lost since, of which nothing was said
}

// lost is told of each connection and each attempt that failed.
func (o *outage) lost(log *slog.Logger, err error) {
	if o.told || !o.last.IsZero() && time.Since(o.last) < quiet {
		o.count++
		return
	}
	var restart *restartError
	if errors.As(err, &restart) {
		log.Info("waiting for the agent", "err", err, "untold", o.count)
	} else {
		log.Warn("the agent can't be reached; trying again", "err", err, "untold", o.count)
	}
	o.told, o.last, o.count = true, time.Now(), 0
}

// over is told of each connection that was made. The line is left out if none
// said that there was no connection.
func (o *outage) over(log *slog.Logger, instance string, p reach.Place) {
	if first := o.last.IsZero(); first || o.told {
		log.Info("announced", "instance", instance, "agent", p.String(), "attempts", o.count)
	}
	o.told, o.count = false, 0
}
