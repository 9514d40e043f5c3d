package gateway

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"grapevine/gateway/spec"
	"grapevine/kv"
)

// Maintenance: while it lasts, new requests get 503, and those under way end when
// its grace is over (see EndOverdue). It belongs to a table, but nothing else of
// the table is made anew for it: clusters, connections and breakers stay.
//
// Each node ends it by its own clock at the moment until names, whether or not
// anybody can write. The key goes later, see agent/cluster.

// DefaultRetryAfter and DefaultGrace hold where a maintenance says nothing else.
const (
	DefaultRetryAfter = 30 * time.Second
	DefaultGrace      = 30 * time.Second
)

// maintenanceKey is the key for the whole gateway; that of a cluster is below it.
const maintenanceKey = "gateway/maintenance"

func isMaintenance(key string) bool {
	rest, ok := strings.CutPrefix(key, maintenanceKey)
	return ok && (rest == "" || rest[0] == '/')
}

// maintained is the cluster that a key is about, empty for the whole gateway.
func maintained(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, maintenanceKey), "/")
}

// judgeMaintenance finds which version of a maintenance counts.
func (p *planner) judgeMaintenance(key string) *verdict {
	if p.decoding.get(key) == nil {
		return nil
	}
	v := &verdict{}
	if use := p.judgeKey(key, v, nil); use != nil {
		v.sum = digestOf("maintenance %s %s", key, use.JSON)
	}
	return v
}

// window is a maintenance that is in force until its time is over. It is
// immutable but for its tally.
type window struct {
	cluster string // empty: the whole gateway
	local   bool   // this node alone
	spec    *spec.Maintenance
	allow   []netip.Prefix

	rev kv.Rev // of the key, zero for a local one
	by  string
	at  time.Time // when it was written

	began time.Time // on this node
	tally *tally
}

// tally counts what a window does. It goes on when the window's value changes.
type tally struct {
	turnedAway atomic.Int64 // requests that got 503 at once
	ended      atomic.Int64 // exchanges that the grace was not enough for
}

// windows are the maintenances of a table. Nil are none.
type windows struct {
	list []*window // the whole gateway first, then by cluster; this node's own behind
	all  []*window // for the whole gateway
	of   map[string][]*window
}

// newWindows gives those of a plan and this node's own. What previous has, which
// may be nil, goes on.
func newWindows(p *plan, local []*window, previous *windows, now time.Time) *windows {
	ws := &windows{of: map[string][]*window{}}
	for key, v := range p.verdicts.under(maintenanceKey) {
		if w := p.window(key, v); w != nil {
			ws.add(w, previous, now)
		}
	}
	for _, w := range local {
		copied := *w
		ws.add(&copied, previous, now)
	}
	if len(ws.list) == 0 {
		return nil
	}
	slices.SortStableFunc(ws.list, func(a, b *window) int { return strings.Compare(a.cluster, b.cluster) })
	return ws
}

// window is what a key says, nil when it is switched off or has no good version.
func (p *plan) window(key string, v *verdict) *window {
	if v.good == nil || !v.good.Value.(*spec.Maintenance).Enabled {
		return nil
	}
	w := newWindow(maintained(key), v.good.Value.(*spec.Maintenance))
	w.rev = v.good.rev
	if entry, there := p.view.Get(kv.Key(key)); there && entry.ModRev == v.good.rev {
		w.by, w.at = entry.By, entry.At
	}
	return w
}

func newWindow(cluster string, m *spec.Maintenance) *window {
	w := &window{cluster: cluster, spec: m, tally: new(tally)}
	for _, client := range m.Allow {
		w.allow = append(w.allow, client.Prefix())
	}
	return w
}

func (ws *windows) add(w *window, previous *windows, now time.Time) {
	w.began = now
	if old := previous.same(w); old != nil && old.active(now) {
		w.began, w.tally = old.began, old.tally
	}
	ws.list = append(ws.list, w)
	if w.cluster == "" {
		ws.all = append(ws.all, w)
	} else {
		ws.of[w.cluster] = append(ws.of[w.cluster], w)
	}
}

// maintenance gives the windows of a table, which may be nil.
func (t *Table) maintenance() *windows {
	if t == nil {
		return nil
	}
	return t.windows
}

func (ws *windows) same(w *window) *window {
	if ws == nil {
		return nil
	}
	for _, old := range ws.list {
		if old.cluster == w.cluster && old.local == w.local {
			return old
		}
	}
	return nil
}

// against is the window that keeps a client from a cluster now, nil if none does.
// cluster is empty where the gateway itself answers.
func (ws *windows) against(cluster string, client netip.Addr, now time.Time) *window {
	if ws == nil {
		return nil
	}
	for _, w := range ws.all {
		if w.active(now) && !w.admits(client) {
			return w
		}
	}
	for _, w := range ws.of[cluster] {
		if w.active(now) && !w.admits(client) {
			return w
		}
	}
	return nil
}

// during tells whether a window is in force for a cluster now, whoever asks.
func (ws *windows) during(cluster string, now time.Time) bool {
	active := func(w *window) bool { return w.active(now) }
	return ws != nil && (slices.ContainsFunc(ws.all, active) || slices.ContainsFunc(ws.of[cluster], active))
}

// active tells whether the window's time is not over.
func (w *window) active(now time.Time) bool {
	return w.spec.Until.IsZero() || now.Before(w.spec.Until.Time)
}

// admits tells whether a client is let through. One whose address is not known is
// not.
func (w *window) admits(client netip.Addr) bool {
	client = client.Unmap().WithZone("") // ranges have no zones
	for _, net := range w.allow {
		if net.Contains(client) {
			return true
		}
	}
	return false
}

// overdue is when what is under way has to end.
func (w *window) overdue() time.Time {
	grace := DefaultGrace
	if w.spec.Grace != nil {
		grace = time.Duration(*w.spec.Grace)
	}
	return w.began.Add(grace)
}

// retryAfter is when a client should come back: what the window says, and no later
// than its end.
func (w *window) retryAfter(now time.Time) time.Duration {
	after := DefaultRetryAfter
	if w.spec.RetryAfter > 0 {
		after = time.Duration(w.spec.RetryAfter)
	}
	if !w.spec.Until.IsZero() {
		after = min(after, w.spec.Until.Sub(now))
	}
	return max(after, time.Second)
}
