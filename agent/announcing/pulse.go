package announcing

import (
	"fmt"
	"time"

	"grapevine/gateway/spec"
)

// What an instance is taken for, as in spec.Instance.
const (
	statusHealthy   = "healthy"
	statusDegraded  = "degraded"
	statusUnhealthy = "unhealthy"
	statusDraining  = "draining"
)

// defaultHeartbeat is that of spec.Instance.
const defaultHeartbeat = 10 * time.Second

// An instance that sends no heartbeats any more is never degraded before twice their interval, nor unhealthy before three
// times of it: one that is late or lost is no fault yet.
const (
	degradedAfter  = 2
	unhealthyAfter = 3
)

// saidBy is the status of an announcement.
func saidBy(i spec.Instance) string {
	switch i.Status {
	case statusDegraded, statusUnhealthy:
		return i.Status
	}
	return statusHealthy
}

// pulse follows the heartbeats of one lease, once they have begun.
type pulse struct {
	begun bool
	last  time.Time
	timer *time.Timer
}

// beat notes a heartbeat. One that carries a status begins the rule.
func (p *pulse) beat(l *Lease, status bool) {
	p.last = time.Now()
	if !p.begun && !status {
		return
	}
	p.begun = true
	p.stop()
	p.timer = time.AfterFunc(degradedAfter*l.interval(), l.miss)
}

func (p *pulse) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// miss takes in that there was no heartbeat for long.
func (l *Lease) miss() {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	silent := time.Since(l.pulse.last)
	if l.ended || silent < degradedAfter*l.interval() {
		return // a heartbeat came in the meantime
	}
	reason := fmt.Sprintf("no heartbeat for %s, which is due every %s", silent.Round(time.Millisecond), l.interval())
	status := statusUnhealthy
	if silent < unhealthyAfter*l.interval() {
		l.pulse.timer = time.AfterFunc(unhealthyAfter*l.interval()-silent, l.miss)
		if status = statusDegraded; l.said == statusUnhealthy {
			return // worse already
		}
	}
	if err := l.take(status, reason); err != nil {
		l.leases.o.Logger.Error("an instance's status is not announced", "key", string(l.announcement.Key), "err", err)
	}
}
