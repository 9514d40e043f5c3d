package mux

import (
	"log/slog"
	"sync"
	"time"
)

// warnPause is the least time between two lines about what strangers do.
const warnPause = time.Second

// limiter keeps strangers from filling the log.
type limiter struct {
	logger *slog.Logger

	// mu guards what follows.
	mu      sync.Mutex
	next    time.Time
	skipped int
}

// warn logs, with the number of lines left out since the last one, or leaves
// this one out.
func (l *limiter) warn(message string, attributes ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.next) {
		l.skipped++
		return
	}
	l.logger.Warn(message, append(attributes, "others", l.skipped)...)
	l.next, l.skipped = now.Add(warnPause), 0
}
