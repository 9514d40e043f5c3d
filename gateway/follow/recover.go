package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"grapevine/announce/reach"
	"grapevine/kv"
)

// quiet is the least time between two log lines about lost streams.
const quiet = 10 * time.Second

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// outage makes one log line of many lost streams. Only Run uses it.
type outage struct {
	told  bool      // the latest line said that the agent is lost
	last  time.Time // when
	count int       // streams and attempts lost since, of which nothing was said
}

func (o *outage) lost(log *slog.Logger, err error) {
	if o.told || !o.last.IsZero() && time.Since(o.last) < quiet {
		o.count++
		return
	}
	log.Warn("the agent can't be followed; what it said last is served, and it is tried again", "err", err, "untold", o.count)
	o.told, o.last, o.count = true, time.Now(), 0
}

// over is told of each state that was taken. The line is left out if none said that the
// agent was lost.
func (o *outage) over(log *slog.Logger, p reach.Place, rev kv.Rev) {
	if first := o.last.IsZero(); first || o.told {
		log.Info("following an agent", "agent", p.String(), "rev", rev.String(), "attempts", o.count)
	}
	if o.last.IsZero() {
		o.last = time.Now().Add(-quiet)
	}
	o.told, o.count = false, 0
}

// maxProblem bounds what is read of a refusal.
const maxProblem = 64 << 10

// refusal reads a problem document (RFC 9457), or whatever else an answer is.
func refusal(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblem)) // what broke off still says something
	var problem struct{ Code, Detail string }
	if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		return fmt.Errorf("%d %s: %s", response.StatusCode, problem.Code, problem.Detail)
	}
	return fmt.Errorf("%s: an answer that is none of an agent: %.200q", response.Status, body)
}
