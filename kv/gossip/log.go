package gossip

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// memberlistLog takes the lines of memberlist. They are for who debugs it: what an
// operator should know is logged where members change. Two of them tell what no
// event does: that a probe was not answered, or not by packets.
type memberlistLog struct {
	log     *slog.Logger
	members *members
}

func newMemberlistLog(l *slog.Logger, m *members) *log.Logger {
	return log.New(&memberlistLog{log: l, members: m}, "", 0)
}

func (l *memberlistLog) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if name, ok := between(text, "[INFO] memberlist: Suspect ", " has failed, no acks received"); ok {
		l.members.suspect(name)
	}
	if name, ok := between(text, "[WARN] memberlist: Was able to connect to ", " over TCP but UDP probes failed, network may be misconfigured"); ok {
		l.members.lostPackets(name)
	}
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("memberlist", "line", text)
	}
	return len(line), nil
}

// between is what stands between the beginning and the end of a text.
func between(text, begin, end string) (string, bool) {
	rest, begins := strings.CutPrefix(text, begin)
	middle, ends := strings.CutSuffix(rest, end)
	return middle, begins && ends
}
