package http1

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// life is the context of a connection's exchanges, one after the other. It is a
// context.Context of its own because those of the standard library cost
// allocations for each request, also when nobody looks at them.
//
// A life that somebody asked for Done or Err serves one exchange only: who keeps
// it must find it ended for ever. AfterFunc does not count, since what it is told
// is told once.
type life struct {
	// mu guards what follows.
	mu    sync.Mutex
	err   error         // why it has ended
	done  chan struct{} // made by the first Done
	asked bool
	first func()   // the one AfterFunc that costs nothing
	more  []*after // the others
	// by and client are whose exchange it is, see Hold; by is nil when nobody's.
	by       any
	client   netip.Addr
	recalled atomic.Bool // see Server.Recall; written under mu

	stopFirst func() bool // bound once
}

type after struct{ f func() }

func newLife() *life {
	l := new(life)
	l.init()
	return l
}

func (l *life) init() { l.stopFirst = l.forgetFirst }

// Deadline: there is none.
func (l *life) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value: there are none.
func (l *life) Value(any) any { return nil }

// Done is closed when the client has gone or the exchange has finished.
func (l *life) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = true
	if l.done == nil {
		l.done = make(chan struct{})
		if l.err != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err is context.Canceled once Done is closed.
func (l *life) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = true
	return l.err
}

// AfterFunc has f called, in a goroutine of its own, when the context ends. The
// package context looks for this method. stop must not be called again once it
// was called or the exchange has finished.
func (l *life) AfterFunc(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		go f()
		return func() bool { return false }
	case l.first == nil:
		l.first = f
		return l.stopFirst
	}
	a := &after{f}
	l.more = append(l.more, a)
	return func() bool { return l.forget(a) }
}

func (l *life) forgetFirst() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := l.first != nil
	l.first = nil
	return there
}

func (l *life) forget(a *after) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	there := a.f != nil
	a.f = nil
	return there
}

// end ends the context and tells everybody.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked()
}

func (l *life) endLocked() {
	if l.err != nil {
		return
	}
	l.err = context.Canceled
	if l.done != nil {
		close(l.done)
	}
	if l.first != nil {
		go l.first()
		l.first = nil
	}
	for _, a := range l.more {
		if a.f != nil {
			go a.f()
			a.f = nil
		}
	}
	l.more = nil
}

// renew ends it with its exchange; again tells whether it may serve another one.
func (l *life) renew() (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.err != nil
	l.by = nil
	l.endLocked()
	if l.asked || gone || l.recalled.Load() {
		return false
	}
	l.err = nil
	return true
}
