package gateway

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"grapevine/gateway/health"
)

// roster holds the live clusters of an id, and brings their lineups in line with
// the health of their destinations.
type roster struct {
	id      string
	logger  *slog.Logger
	metrics *clusterMetrics
	health  *health.Group

	// mu guards what follows.
	mu     sync.Mutex
	live   []*cluster
	growth *time.Timer // nil while no share grows
	panics bool
	closed bool
}

// members are the health of the destinations.
func (c *cluster) members() []*health.Member {
	members := make([]*health.Member, len(c.destinations))
	for i, d := range c.destinations {
		members[i] = d.health
	}
	return members
}

// enter begins the life of a cluster: its destinations are watched.
func (r *roster) enter(c *cluster) {
	r.mu.Lock()
	r.live = append(r.live, c)
	r.mu.Unlock()
	r.health.Enter(c.watched, c.members())
}

// leave ends it.
func (r *roster) leave(c *cluster) {
	r.health.Leave(c.members())
	r.mu.Lock()
	r.live = slices.DeleteFunc(r.live, func(other *cluster) bool { return other == c })
	goesOn := followed(r.live, c)
	r.mu.Unlock()
	if !goesOn { // else the other one's lineup was made without it
		r.lineUp()
	}
}

// followed tells whether one of the later clusters has taken the place of one.
func followed(later []*cluster, c *cluster) bool {
	return slices.ContainsFunc(later, func(other *cluster) bool { return other.planned.named == c.planned.named })
}

// close ends the watch, for good.
func (r *roster) close() {
	r.health.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.growth != nil {
		r.growth.Stop()
	}
}

// lineUp makes the lineups anew, but of those that are about to leave. It is called
// after each change of health.
func (r *roster) lineUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, panics, step := time.Now(), false, time.Duration(0)
	for i, c := range r.live {
		if followed(r.live[i+1:], c) {
			continue
		}
		l := c.lineUp(now)
		c.lineup.Store(l)
		panics = panics || l.panics
		if l.grows {
			step = time.Duration(c.planned.policy.SlowStart) / slowSteps
		}
	}
	r.tell(panics)
	r.goOn(step)
}

// goOn makes the next lineups when shares have grown by a step, 0 being that none
// grows.
func (r *roster) goOn(step time.Duration) {
	switch {
	case step == 0 || r.closed:
		if r.growth != nil {
			r.growth.Stop()
			r.growth = nil
		}
	case r.growth == nil:
		r.growth = time.AfterFunc(step, r.lineUp)
	default:
		r.growth.Reset(step)
	}
}

// tell says once that a panic begins, and once that it is over.
func (r *roster) tell(panics bool) {
	if panics == r.panics {
		return
	}
	r.panics = panics
	r.metrics.panics(panics)
	if panics {
		r.logger.Warn("too few destinations are healthy: all are used", "cluster", r.id)
	} else {
		r.logger.Info("enough destinations are healthy again", "cluster", r.id)
	}
}
