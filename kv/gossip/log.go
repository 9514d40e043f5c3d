package gossip

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// memberlistLog takes the lines of memberlist. They are for who debugs it: what an
// operator should know is logged where members change. One of them tells what no
// event does: that a probe was not answered.
type memberlistLog struct {
	log     *slog.Logger
	suspect func(name string)
}

func newMemberlistLog(l *slog.Logger, suspect func(name string)) *log.Logger {
	return log.New(&memberlistLog{log: l, suspect: suspect}, "", 0)
}

func (l *memberlistLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if rest, ok := strings.CutPrefix(text, "[INFO] memberlist: Suspect "); ok {
		if name, ok := strings.CutSuffix(rest, " has failed, no acks received"); ok {
			l.suspect(name)
		}
	}
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("memberlist", "line", text)
	}
	return len(line), nil
}
