package gateway

import (
	"context"
	"net/netip"
	"time"
)

// Recaller ends exchanges that are under way, see http1.Server.
type Recaller interface {
	Recall(match func(by any, client netip.Addr) bool) int
}

// recallEvery is how often what is under way is looked at once a grace is over:
// who began with the table before, or was let through then, may come late.
const recallEvery = time.Second

// EndOverdue ends what front still does for a cluster when the grace of its
// maintenance is over, until ctx ends. Requests that have no answer so far get
// the maintenance's, WebSockets are closed with 1001, and responses break off. Who
// serves the gateway runs it; without it, what is under way ends by itself.
func (g *Gateway) EndOverdue(ctx context.Context, front Recaller) error {
	var looked time.Time
	for {
		g.swapMu.Lock()
		swapped := g.swapped
		g.swapMu.Unlock()
		now := time.Now()
		overdue, next := g.overdue(now)
		if len(overdue) > 0 && !now.Before(looked.Add(recallEvery)) {
			front.Recall(func(by any, client netip.Addr) bool { return recalls(overdue, by, client) })
			looked = now
		}
		if len(overdue) > 0 {
			next = earlier(next, looked.Add(recallEvery))
		}
		if !waitFor(ctx, swapped, next) {
			return nil
		}
	}
}

// overdue are the windows whose grace is over, and when the next one's will be;
// zero if there is none.
func (g *Gateway) overdue(now time.Time) (overdue []*window, next time.Time) {
	t := g.Table()
	if t == nil || t.windows == nil {
		return nil, next
	}
	for _, w := range t.windows.list {
		switch end := w.overdue(); {
		case !w.active(now):
		case now.Before(end):
			next = earlier(next, end)
		default:
			overdue = append(overdue, w)
		}
	}
	return overdue, next
}

// recalls tells whether one of the windows ends what by, a cluster, does for a
// client.
func recalls(overdue []*window, by any, client netip.Addr) bool {
	c, is := by.(*cluster)
	if !is {
		return false
	}
	for _, w := range overdue {
		if (w.cluster == "" || w.cluster == c.id) && !w.admits(client) {
			c.state.recalled.Store(w)
			w.tally.ended.Add(1)
			return true
		}
	}
	return false
}

// earlier is the earlier of two moments, of which a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// waitFor waits for a table or a moment, which may be zero for none. It is false
// when ctx ends first.
func waitFor(ctx context.Context, swapped <-chan struct{}, moment time.Time) bool {
	var due <-chan time.Time
	if !moment.IsZero() {
		timer := time.NewTimer(time.Until(moment))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-swapped:
	case <-due:
	case <-ctx.Done():
		return false
	}
	return true
}
