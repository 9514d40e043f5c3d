package agent

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"grapevine/gateway/spec"
)

// logs is a slog.Handler whose level and format follow gateway/config/logging while it is in use, also in loggers that
// were derived from it before.
type logs struct {
	*logSwitch
	json, text slog.Handler
}

// logSwitch is what all handlers of one agent share.
type logSwitch struct {
	level  slog.LevelVar
	asText atomic.Bool
}

func newLogs(w io.Writer) logs {
	s := new(logSwitch)
	w = &lineWriter{w: w}
	options := &slog.HandlerOptions{Level: &s.level}
	return logs{s, slog.NewJSONHandler(w, options), slog.NewTextHandler(w, options)}
}

// lineWriter keeps lines whole: each format has a lock of its own, and both write to one place.
type lineWriter struct {
	// mu is held while a line is written to w.
	mu sync.Mutex
	w  io.Writer
}

// Write writes one line.
func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
}

// follow takes over the section; what it leaves out has its default.
func (s *logSwitch) follow(section spec.Logging) {
	var level slog.Level // info
	if section.Level != "" {
		// The words of the section are the names of slog's levels.
		_ = level.UnmarshalText([]byte(section.Level))
	}
	s.level.Set(level)
	s.asText.Store(section.Format == "text")
}

func (l logs) current() slog.Handler {
	if l.asText.Load() {
		return l.text
	}
	return l.json
}

// Enabled implements slog.Handler.
func (l logs) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level.Level() }

// Handle implements slog.Handler.
func (l logs) Handle(ctx context.Context, r slog.Record) error { return l.current().Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logs{l.logSwitch, l.json.WithAttrs(attrs), l.text.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l logs) WithGroup(name string) slog.Handler {
	return logs{l.logSwitch, l.json.WithGroup(name), l.text.WithGroup(name)}
}
