package gossip

import (
	"slices"
	"sync"
)

// Bounds of what is held in all.
const (
	maxHeld      = 256
	maxHeldBytes = 1 << 20
)

// held is what was pushed before what it follows: a packet overtook another, or a
// neighbour has more than this node. What is missing is pulled at once, and what came
// meanwhile need not be sent again. Nothing in it has been verified.
type held struct {
	mu    sync.Mutex // guards what is below
	list  []changes
	bytes int
}

// keep holds changes, unless there are too many.
func (h *held) keep(c changes) {
	size := 0
	for _, change := range c.list {
		size += len(change)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	there := slices.ContainsFunc(h.list, func(other changes) bool {
		return other.stream == c.stream && other.since == c.since && other.upTo == c.upTo
	})
	if there || len(h.list) >= maxHeld || h.bytes+size > maxHeldBytes {
		return
	}
	h.list = append(h.list, c)
	h.bytes += size
}

// following takes out what follows a head of a stream, and drops what is of no use any more.
func (h *held) following(s Stream) (next changes, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head := s.Head()
	h.bytes = 0
	h.list = slices.DeleteFunc(h.list, func(c changes) bool {
		if c.stream == s.ID() && !ok && relate(head, c.upTo) == newer && follows(relate(head, c.since)) {
			next, ok = c, true
			return true
		}
		if c.stream == s.ID() && relate(head, c.upTo) != newer {
			return true
		}
		for _, change := range c.list {
			h.bytes += len(change)
		}
		return false
	})
	return next, ok
}

// applyHeld goes on with what was held. Who has the right to apply calls it. What can't be applied
// is dropped: if it is genuine, it comes again by a pull.
func (p *Peer) applyHeld(s Stream) {
	for {
		c, ok := p.held.following(s)
		if !ok {
			return
		}
		if err := s.Apply(c.list); err != nil {
			p.log.Debug("what was held was not applied", "stream", int(s.ID()), "rev", c.upTo.Rev.String(), "err", err)
		}
	}
}
