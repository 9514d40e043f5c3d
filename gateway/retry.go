package gateway

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"grapevine/gateway/breaker"
	"grapevine/gateway/exchange"
	"grapevine/gateway/health"
	"grapevine/gateway/spec"
)

// Retries. What has reached nobody is tried at the other destinations, whatever
// its method, each once: no backend sees a request twice by that. What may have
// been executed is sent again only where its route says so, and its method is
// idempotent (RFC 9110 §9.2.2), which spec makes sure of: so no POST is executed
// twice.

// AttemptHeader tells a backend that a request may have been executed before: a
// retry policy's first further attempt has 2, the next one 3. A client's is
// removed.
const AttemptHeader = "X-Gateway-Attempt"

const (
	// leastBudget is how many retries a cluster may have under way however little
	// else is.
	leastBudget = 3
	// A destination is tried again after a pause, which doubles from one time to
	// the next; half of it is left to chance, so that many don't come back together.
	retryPause    = 50 * time.Millisecond
	maxRetryPause = time.Second
)

// retry is a route's policy. It never changes.
type retry struct {
	attempts int
	on       [exchange.Phases]bool
	status   health.Statuses
	methods  []string
	percent  int64
}

var retryPhases = map[spec.RetryOn]exchange.Phase{
	"connect": exchange.PhaseConnect, "reset": exchange.PhaseExchange, "timeout": exchange.PhaseTimeout,
}

// newRetry reads a route's configuration; nil is a route that asks for none.
func newRetry(s *spec.Retry) *retry {
	if s == nil || s.Attempts == 0 {
		return nil
	}
	r := &retry{attempts: s.Attempts, percent: spec.DefaultRetryBudget}
	if s.BudgetPercent > 0 {
		r.percent = int64(s.BudgetPercent)
	}
	on, methods := s.On, s.Methods
	var codes []spec.Status
	if len(on) == 0 {
		on = []spec.RetryOn{"connect"}
	}
	for _, reason := range on {
		if phase, known := retryPhases[reason]; known {
			r.on[phase] = true
		} else {
			codes = append(codes, reason.Status())
		}
	}
	r.status = health.NewStatuses(codes)
	if len(methods) == 0 {
		methods = spec.DefaultRetryMethods()
	}
	for _, method := range methods {
		r.methods = append(r.methods, string(method))
	}
	return r
}

// wants tells whether the policy asks for another attempt after one that ended
// so. An answer without an error has a status that it asks for.
func (r *retry) wants(x *exchange.Exchange, err error) bool {
	if err == nil {
		return slices.Contains(r.methods, x.Request.Method)
	}
	phase := phaseOf(err)
	return r.on[phase] && (phase == exchange.PhaseConnect || slices.Contains(r.methods, x.Request.Method))
}

// reason is the word of a retry in metrics.
func retryReason(err error) string {
	if err == nil {
		return "status"
	}
	if phase := phaseOf(err); phase != exchange.PhaseExchange {
		return phase.String()
	}
	return "reset"
}

// trial is a request that was not answered well at first.
type trial struct {
	c        *cluster
	x        *exchange.Exchange
	w        *way
	l        *lineup
	tried    []int     // destinations, since each was
	deadline time.Time // for a head
	retries  int
	holds    bool // a part of the budget
	pause    time.Duration
}

// tryOn goes on after an attempt at the destination of an index, and gives that
// of the last one with its end.
func (c *cluster) tryOn(x *exchange.Exchange, w *way, l *lineup, at int, err error) (int, error) {
	t := trial{c: c, x: x, w: w, l: l, deadline: time.Now().Add(w.total - x.Upstream), pause: retryPause}
	defer t.end()
	for err != nil || w.retry != nil && w.retry.status.Has(x.Response.Status) {
		t.tried = append(t.tried, at)
		next := t.next(err)
		switch {
		case next >= 0:
		case err != nil && x.Context().Err() != nil: // while it paused
			return at, &exchange.AttemptError{Phase: x.Ended(), Destination: c.destinations[at].address, Err: x.Context().Err()}
		default:
			return at, err
		}
		if err == nil {
			c.discard(x, c.destinations[at])
		}
		at, err = next, t.attempt(next)
	}
	return at, err
}

// attempt makes one within what is left of the time.
func (t *trial) attempt(next int) error {
	b, left := t.w.bounds, max(time.Until(t.deadline), time.Millisecond)
	b.Timeout, b.Connect = min(b.Timeout, left), min(b.Connect, left)
	if t.retries > 0 {
		number := strconv.AppendInt(t.x.Scratch(), int64(t.retries)+1, 10)
		t.x.Request.Fields.Set(AttemptHeader, t.x.Keep(number))
	}
	return t.c.attempt(t.x, next, &b)
}

// next gives the destination of another attempt, -1 when there is to be none.
func (t *trial) next(err error) int {
	if time.Until(t.deadline) <= 0 {
		return -1
	}
	if reachedNobody(err) {
		if next := t.l.after(t.tried, &t.x.Request); next >= 0 {
			return next
		}
		if triedNobody(err) {
			return -1
		}
	}
	return t.again(err)
}

// again gives the destination of an attempt that the route's policy allows.
func (t *trial) again(err error) int {
	r := t.w.retry
	switch {
	case r == nil || t.retries == r.attempts || !r.wants(t.x, err):
		return -1
	case t.c.guard != nil && t.c.guard.breaker.State() == breaker.Open: // every destination is the cluster's
		return -1
	case !reachedNobody(err) && !replays(t.x):
		return -1
	case !t.take():
		t.c.state.metrics.deniedRetry()
		return -1
	}
	next := t.l.after(t.tried, &t.x.Request)
	if next < 0 && !t.wait() {
		return -1
	}
	if next < 0 {
		last := t.tried[len(t.tried)-1]
		t.tried = t.tried[:0]
		if next = t.l.after([]int{last}, &t.x.Request); next < 0 {
			next = last
		}
	}
	t.retries++
	t.c.state.metrics.retried(retryReason(err))
	return next
}

// replays tells whether the request can be sent again as it was. Its body begins
// anew then.
func replays(x *exchange.Exchange) bool {
	if x.Request.Body == nil {
		return true
	}
	body, ok := x.Request.Body.(exchange.Rewinder)
	return ok && body.Rewind()
}

// take takes a part of the cluster's budget of retries, until end.
func (t *trial) take() bool {
	if !t.holds {
		t.holds = t.c.state.retrying.Enter(max(leastBudget, t.w.retry.percent*t.c.inFlight()/100))
	}
	return t.holds
}

func (t *trial) end() {
	if t.holds {
		t.c.state.retrying.Leave()
	}
}

// wait lets a pause pass. It is false when there is no time for that, or the
// client leaves.
func (t *trial) wait() bool {
	pause := t.pause/2 + rand.N(t.pause/2)
	t.pause = min(2*t.pause, maxRetryPause)
	then := time.Now().Add(pause)
	return then.Before(t.deadline) && sleepUntil(t.x.Context(), then)
}
