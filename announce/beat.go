package announce

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// SetStatus says how the instance is, at once and with each heartbeat that
// follows. It does not wait, and also holds for announcements that come later.
func (a *Announcer) SetStatus(health Health) error {
	switch health {
	case Healthy, Degraded, Unhealthy:
	default:
		return fmt.Errorf("announce: status %q: is not healthy, degraded or unhealthy", health)
	}
	a.mu.Lock()
	a.health, a.beats = health, true
	a.mu.Unlock()
	a.beatNow()
	return nil
}

// SetWeight changes the instance's share of the requests, relative to the
// others; 0: none. It does not wait, and also holds for announcements that come
// later.
func (a *Announcer) SetWeight(weight int) error {
	if weight < 0 {
		return fmt.Errorf("announce: weight %d: must not be negative", weight)
	}
	a.mu.Lock()
	a.weight = &weight
	a.mu.Unlock()
	a.beatNow()
	return nil
}

func (a *Announcer) beatNow() {
	select {
	case a.kick <- struct{}{}:
	default: // one is due already, and will tell the latest
	}
}

// heartbeat is the body of PATCH /v1/announce/{lease}.
type heartbeat struct {
	Status    Health   `json:"status,omitempty"`
	Weight    *int     `json:"weight,omitempty"`
	InFlight  *int     `json:"inFlight,omitempty"`
	ErrorRate *float64 `json:"errorRate,omitempty"`
}

// beat sends heartbeats until the lease ends. What fails is left to the stream,
// which ends if the agent is gone; the next one comes in any case.
func (a *Announcer) beat(l *lease) {
	interval := cmp.Or(a.config.Heartbeat, DefaultHeartbeat)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	if a.isBeating() { // the rule begins anew with each announcement
		a.beatNow()
	}
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-a.kick:
		case <-ticker.C:
			if !a.isBeating() {
				continue
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), attempt)
		err := l.call(ctx, "PATCH", "", a.heartbeat(), nil)
		cancel()
		if err != nil && l.ctx.Err() == nil {
			a.log.Warn("the agent did not take a heartbeat", "err", err)
		}
	}
}

func (a *Announcer) isBeating() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.beats
}

func (a *Announcer) heartbeat() heartbeat {
	var beat heartbeat
	a.mu.Lock()
	beat.Weight = a.weight
	if a.beats {
		beat.Status = cmp.Or(a.health, Healthy)
	}
	a.mu.Unlock()
	if a.config.Load != nil {
		load := a.config.Load()
		beat.InFlight, beat.ErrorRate = &load.InFlight, &load.ErrorRate
	}
	return beat
}
