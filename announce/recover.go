package announce

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// firstPause and longestPause bound the time between two attempts. A
	// restarted agent holds what it had announced for 15 s.
	firstPause   = 100 * time.Millisecond
	longestPause = 3 * time.Second
	// hurriedPause is for an instance that drains, whose process wants to end.
	hurriedPause = 200 * time.Millisecond
	// settled is how long a connection lasts after which the next attempt is a first one.
	settled = 5 * time.Second
	// quiet is the least time between two log lines about lost connections.
	quiet = 10 * time.Second
)

// restartError is an agent that says that it stops, and holds its instances.
type restartError struct{ reason string }

func (e *restartError) Error() string { return "the agent restarts: " + e.reason }

// backoff says how long to wait before the next attempt.
type backoff struct{ next time.Duration }

// pause is random, so that the instances of an agent don't all come at once,
// and grows twofold.
func (b *backoff) pause() time.Duration {
	b.next = min(max(firstPause, b.next), longestPause)
	pause := b.next/2 + rand.N(b.next/2)
	b.next *= 2
	return pause
}

// held begins anew after a connection that lasted.
func (b *backoff) held(d time.Duration) {
	if d >= settled {
		b.next = 0
	}
}

// pause waits before the next attempt, and says whether there is to be one.
func (a *Announcer) pause() bool {
	pause := a.backoff.pause()
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
func (o *outage) over(log *slog.Logger, instance string, p place) {
	if first := o.last.IsZero(); first || o.told {
		log.Info("announced", "instance", instance, "agent", p.String(), "attempts", o.count)
	}
	o.told, o.count = false, 0
}
