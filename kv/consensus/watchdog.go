package consensus

import (
	"sync"
	"time"
)

// hangAfter is how long a disk may take for one call before the node counts as
// hanging. raft itself goes on sending heartbeats then, which would keep a leader
// that can't write (hashicorp/raft #503).
const hangAfter = 3 * time.Second

// watchdog knows since when the calls to a disk that have not returned are under
// way.
type watchdog struct {
	mu    sync.Mutex // guards since and next
	since map[int]time.Time
	next  int
}

func newWatchdog() *watchdog { return &watchdog{since: map[int]time.Time{}} }

// enter notes the beginning of a call; the function it returns, its end.
func (w *watchdog) enter() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := w.next
	w.next++
	w.since[call] = time.Now()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.since, call)
	}
}

// hangs reports whether a call is under way for longer than hangAfter.
func (w *watchdog) hangs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, since := range w.since {
		if time.Since(since) > hangAfter {
			return true
		}
	}
	return false
}
