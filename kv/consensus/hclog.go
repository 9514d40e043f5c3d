package consensus

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// levelTrace is below what anybody but a developer of raft wants to read.
const levelTrace = slog.LevelDebug - 4

// levels turns raft's view of its messages into ours: that a peer does not
// answer, or that an election begins, is its daily business. What an operator has
// to know this package says itself.
var levels = map[hclog.Level]slog.Level{
	hclog.Trace: levelTrace, hclog.Debug: levelTrace, hclog.Info: slog.LevelDebug,
	hclog.Warn: slog.LevelDebug, hclog.Error: slog.LevelInfo,
}

// raftLogger writes raft's log to a slog.Logger.
type raftLogger struct {
	log  *slog.Logger
	name string
	args []any
}

func (l raftLogger) Log(level hclog.Level, msg string, args ...any) {
	l.log.Log(context.Background(), levels[level], msg, args...)
}

func (l raftLogger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l raftLogger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l raftLogger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l raftLogger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l raftLogger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l raftLogger) enabled(level hclog.Level) bool {
	return l.log.Enabled(context.Background(), levels[level])
}

func (l raftLogger) IsTrace() bool { return l.enabled(hclog.Trace) }
func (l raftLogger) IsDebug() bool { return l.enabled(hclog.Debug) }
func (l raftLogger) IsInfo() bool  { return l.enabled(hclog.Info) }
func (l raftLogger) IsWarn() bool  { return l.enabled(hclog.Warn) }
func (l raftLogger) IsError() bool { return l.enabled(hclog.Error) }

func (l raftLogger) ImpliedArgs() []any { return l.args }
func (l raftLogger) Name() string       { return l.name }

func (l raftLogger) With(args ...any) hclog.Logger {
	return raftLogger{log: l.log.With(args...), name: l.name, args: append(l.args[:len(l.args):len(l.args)], args...)}
}

func (l raftLogger) Named(name string) hclog.Logger {
	l.name = name
	return l
}

func (l raftLogger) ResetNamed(name string) hclog.Logger { return l.Named(name) }

// SetLevel does nothing: the slog.Logger decides.
func (l raftLogger) SetLevel(hclog.Level)  {}
func (l raftLogger) GetLevel() hclog.Level { return hclog.NoLevel }
func (l raftLogger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.log.Handler(), slog.LevelDebug)
}

func (l raftLogger) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(o).Writer()
}
