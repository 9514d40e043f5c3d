package identity

import (
	"sync"
	"time"
)

// quietPause is the least time between two lines about what strangers ask.
const quietPause = time.Second

// quiet keeps strangers from filling the log. Its zero value is ready.
type quiet struct {
	// mu guards what follows.
	mu      sync.Mutex
	next    time.Time
	skipped int
}

// may says whether a line may be written now, and how many were not since the last.
func (q *quiet) may(now time.Time) (skipped int, may bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Before(q.next) {
		q.skipped++
		return 0, false
	}
	skipped, q.skipped = q.skipped, 0
	q.next = now.Add(quietPause)
	return skipped, true
}
