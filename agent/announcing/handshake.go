package announcing

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"grapevine/kv"
)

const (
	// askPatience bounds one question to a gateway; it is asked again until it has confirmed.
	askPatience = 10 * time.Second
	// firstPause and longestPause are the pauses before a gateway is asked again that gave an error.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
)

// handshake asks all live gateways whether they are done with a draining instance. Those that membership calls dead are
// asked no more, and those that come are asked too: one that starts may begin with what its disk holds.
type handshake struct {
	began  time.Time
	cancel context.CancelFunc

	mu      sync.Mutex // guards what is below
	asked   map[string]*asked
	took    time.Duration // until all had confirmed
	over    chan struct{} // closed when all have
	changed chan struct{} // closed when an answer came
}

// asked is one gateway.
type asked struct {
	Node
	done   bool
	why    string
	cancel context.CancelFunc
}

func newHandshake(cancel context.CancelFunc) *handshake {
	return &handshake{began: time.Now(), cancel: cancel, asked: map[string]*asked{}, over: make(chan struct{}), changed: make(chan struct{})}
}

// run asks until all have confirmed, which it reports, or ctx ends.
func (h *handshake) run(ctx context.Context, l *Leases, key kv.Key) (whole bool) {
	mark, ok := l.spreadMark(ctx)
	if !ok {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	question := func(ctx context.Context, node string) error { return l.o.Gateways.Drained(ctx, node, key, mark) }
	for {
		nodes, others := l.o.Gateways.Gateways()
		answered := h.follow(nodes, func(a *asked) {
			var one context.Context
			one, a.cancel = context.WithCancel(ctx)
			group.Go(func() { h.ask(one, a, question) })
		})
		if h.finish() {
			return true
		}
		select {
		case <-others:
		case <-answered:
		case <-ctx.Done():
			return false
		}
	}
}

// spreadMark is this node's mark, once it has an incarnation: before that others may have a mark of its former start
// that is higher. ok is false if ctx ends before.
func (l *Leases) spreadMark(ctx context.Context) (mark kv.OwnerMark, ok bool) {
	for {
		changed := l.o.Store.OwnerChanged()
		if mark := l.o.Own.Mark(); mark.Incarnation > 0 {
			return mark, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return kv.OwnerMark{}, false
		}
	}
}

// follow begins with the nodes that are new and lets go of those that are gone. The channel is closed at the next answer.
func (h *handshake) follow(nodes []Node, begin func(*asked)) (answered <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	live := map[string]bool{}
	for _, node := range nodes {
		live[node.ID] = true
		if h.asked[node.ID] == nil {
			a := &asked{Node: node, why: "it has not answered yet"}
			h.asked[node.ID] = a
			begin(a)
		}
	}
	maps.DeleteFunc(h.asked, func(id string, a *asked) bool {
		if !live[id] {
			a.cancel()
		}
		return !live[id]
	})
	return h.changed
}

// ask asks one gateway until it has confirmed.
func (h *handshake) ask(ctx context.Context, a *asked, question func(context.Context, string) error) {
	defer a.cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		asking, cancel := context.WithTimeout(ctx, askPatience)
		err := question(asking, a.ID)
		cancel()
		if ctx.Err() != nil {
			return
		}
		h.take(a, err)
		if err == nil || !pausing(ctx, pause) {
			return
		}
	}
}

func pausing(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take notes an answer.
func (h *handshake) take(a *asked, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		a.done = true
	case errors.Is(err, context.DeadlineExceeded):
		a.why = "it still has requests under way, or has not heard of the draining"
	default:
		a.why = err.Error()
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// finish tells whether all have confirmed.
func (h *handshake) finish() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asked {
		if !a.done {
			return false
		}
	}
	h.took = time.Since(h.began)
	close(h.over)
	return true
}

// await waits until all have confirmed, or until ctx ends.
func (h *handshake) await(ctx context.Context) (_ Handshake, whole bool) {
	select {
	case <-h.over:
		return h.result(), true
	case <-ctx.Done():
		return h.result(), false
	}
}

// result is how far it is.
func (h *handshake) result() Handshake {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Handshake{Of: len(h.asked), Stragglers: []Straggler{}}
	for _, a := range h.asked {
		if a.done {
			r.Confirmed++
		} else {
			r.Stragglers = append(r.Stragglers, Straggler{a.Name, a.why})
		}
	}
	slices.SortFunc(r.Stragglers, func(a, b Straggler) int { return strings.Compare(a.Node, b.Node) })
	took := h.took
	if took == 0 {
		took = time.Since(h.began)
	}
	r.Took = took.Round(time.Millisecond).String()
	return r
}
