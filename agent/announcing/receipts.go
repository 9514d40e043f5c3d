package announcing

import (
	"context"
	"sync"
	"time"

	"grapevine/kv"
)

// gather is how long figures are gathered after some were told.
const gather = 100 * time.Millisecond

// receipts follow how far each live gateway is with what this node announces.
type receipts struct {
	l *Leases

	mu      sync.Mutex // guards what is below
	wanted  chan struct{}
	reached map[string]kv.OwnerMark
	moved   chan struct{} // closed when reached is another
}

func newReceipts(l *Leases) *receipts {
	return &receipts{l: l, wanted: make(chan struct{}), reached: map[string]kv.OwnerMark{}, moved: make(chan struct{})}
}

// want says that there is something new to ask for.
func (r *receipts) want() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.wanted)
	r.wanted = make(chan struct{})
}

// run asks and tells until ctx is over.
func (r *receipts) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	followed := map[string]context.CancelFunc{}
	for {
		wanted, moved := r.signals()
		nodes, others := r.l.o.Gateways.Gateways()
		live := map[string]bool{}
		for _, node := range nodes {
			if live[node.ID] = true; followed[node.ID] == nil {
				var one context.Context
				one, followed[node.ID] = context.WithCancel(ctx)
				group.Go(func() { r.follow(one, node.ID) })
			}
		}
		for id, cancel := range followed {
			if !live[id] {
				cancel()
				delete(followed, id)
				r.forget(id)
			}
		}
		r.tell(nodes)
		if !pausing(ctx, gather) {
			for _, cancel := range followed {
				cancel()
			}
			return
		}
		select {
		case <-others:
		case <-moved:
		case <-wanted:
		case <-ctx.Done():
		}
	}
}

func (r *receipts) signals() (wanted, moved <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted, r.moved
}

func (r *receipts) forget(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reached, node)
}

// follow asks one gateway for the newest there is, as long as it has not got that.
func (r *receipts) follow(ctx context.Context, node string) {
	for pause := firstPause; ; {
		wanted, _ := r.signals()
		newest, some := r.l.newest()
		if !some || newest.Compare(r.at(node)) <= 0 {
			select {
			case <-wanted:
				continue
			case <-ctx.Done():
				return
			}
		}
		mark, ok := r.l.spreadMark(ctx)
		if !ok {
			return
		}
		asking, cancel := context.WithTimeout(ctx, askPatience)
		err := r.l.o.Gateways.Applied(asking, node, mark)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = firstPause
			r.reach(node, mark)
		case !pausing(ctx, pause):
			return
		default:
			pause = min(2*pause, longestPause)
		}
	}
}

func (r *receipts) at(node string) kv.OwnerMark {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reached[node]
}

func (r *receipts) reach(node string, mark kv.OwnerMark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reached[node] = mark
	close(r.moved)
	r.moved = make(chan struct{})
}

// newest is the mark of the newest change of a lease, if there is any.
func (l *Leases) newest() (newest kv.OwnerMark, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, len(l.byID) > 0
}

// tell tells each lease for which the figures are others.
func (r *receipts) tell(nodes []Node) {
	marks := make([]kv.OwnerMark, 0, len(nodes))
	for _, node := range nodes {
		marks = append(marks, r.at(node.ID))
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	for _, lease := range r.l.byID {
		applied := Applied{Event: EventApplied, Of: len(nodes)}
		for _, mark := range marks {
			if mark.Incarnation > 0 && mark.Compare(lease.mark) >= 0 {
				applied.Nodes++
			}
		}
		if applied != lease.applied {
			lease.applied = applied
			lease.out.put(applied)
		}
	}
}
