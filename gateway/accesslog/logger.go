package accesslog

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"grapevine/gateway/exchange"
)

const (
	// flushEvery is how long a line waits at most, and flushAt the bytes at which
	// it does not wait.
	flushEvery = 200 * time.Millisecond
	flushAt    = 32 << 10
	// maxPending bounds what waits for an output that does not take it.
	maxPending = 4 << 20
)

// Logger writes lines. Any number of goroutines may hand them in.
type Logger struct {
	out     io.Writer
	wake    chan struct{}
	dropped atomic.Uint64

	// mu guards pending, and what lines are made with.
	mu      sync.Mutex
	pending []byte
	entry   entry
	clock   clock
}

// New makes a logger. It writes while Run runs.
func New(out io.Writer) *Logger { return &Logger{out: out, wake: make(chan struct{}, 1)} }

// Run writes lines until ctx ends, and then what is left. The error is that of
// the output; lines are dropped while it fails.
func (l *Logger) Run(ctx context.Context) error {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	var spare []byte
	for {
		select {
		case <-l.wake:
		case <-ticker.C:
		case <-ctx.Done():
			_, err := l.flush(spare)
			return err
		}
		spare, _ = l.flush(spare)
	}
}

// flush writes what is pending, and gives its memory back.
func (l *Logger) flush(spare []byte) ([]byte, error) {
	l.mu.Lock()
	lines := l.pending
	l.pending = spare[:0]
	l.mu.Unlock()
	if len(lines) == 0 {
		return lines, nil
	}
	_, err := l.out.Write(lines)
	if err != nil {
		l.dropped.Add(1)
	}
	return lines, err
}

// Dropped counts lines that there was no room for, and pieces that the output
// did not take. A nil Logger has none.
func (l *Logger) Dropped() uint64 {
	if l == nil {
		return 0
	}
	return l.dropped.Load()
}

// Log hands in the line of an exchange that has ended with err, if the policy
// wants it.
func (l *Logger) Log(p *Policy, x *exchange.Exchange, err error) {
	if !p.wants(x, err) {
		return
	}
	now := time.Now()
	l.mu.Lock()
	full := len(l.pending) >= maxPending
	if full {
		l.dropped.Add(1)
	} else {
		l.entry = entry{x, err, now}
		l.pending = p.appendLine(l.clock.appendTime(append(l.pending, `{"time":"`...), now), &l.entry)
		l.entry = entry{}
	}
	due := len(l.pending) >= flushAt
	l.mu.Unlock()
	if due {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// clock remembers how the present second is written.
type clock struct {
	second int64
	date   []byte // up to the seconds
	zone   []byte
}

// appendTime appends RFC 3339 with milliseconds.
func (c *clock) appendTime(line []byte, now time.Time) []byte {
	if second := now.Unix(); second != c.second || c.date == nil {
		c.second = second
		c.date = now.AppendFormat(c.date[:0], "2006-01-02T15:04:05")
		c.zone = now.AppendFormat(c.zone[:0], "Z07:00")
	}
	millis := now.Nanosecond() / int(time.Millisecond)
	line = append(line, c.date...)
	line = append(line, '.', byte('0'+millis/100), byte('0'+millis/10%10), byte('0'+millis%10))
	return append(line, c.zone...)
}
